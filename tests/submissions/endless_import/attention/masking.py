# homework 12, part 2
from math import sqrt

import torch


def check(ok, text):
    if not ok:
        raise ValueError(text)


def causal_mask(length, device=None):
    steps = torch.arange(length, device=device)
    return steps[None, :] > steps[:, None]


def masked_attention(Q, K, V, key_padding_mask=None, causal=False):
    shapes = "Q %s, K %s, V %s" % (tuple(Q.shape), tuple(K.shape), tuple(V.shape))
    check(Q.size(-1) == K.size(-1), "Q and K have different d_k: " + shapes)
    check(K.size(-2) == V.size(-2), "K and V have different lengths: " + shapes)
    check(not causal or Q.size(-2) == K.size(-2), "causal=True, but Q and K have different lengths: " + shapes)

    att = torch.matmul(Q, K.mT) / sqrt(Q.size(-1))
    keep = torch.ones(Q.size(-2), K.size(-2), dtype=torch.bool, device=Q.device)
    if causal:
        keep = ~causal_mask(Q.size(-2), Q.device)
    if key_padding_mask is not None:
        m = key_padding_mask
        check(m.dtype == torch.bool, "key_padding_mask is %s and not bool" % m.dtype)
        check(m.dim() == 2 and Q.dim() > 2, "key_padding_mask is %s: %s" % (tuple(m.shape), shapes))
        check(tuple(m.shape) == (Q.size(0), K.size(-2)), "key_padding_mask is %s: %s" % (tuple(m.shape), shapes))
        keep = keep & ~m.reshape(m.size(0), *([1] * (Q.dim() - 2)), m.size(1))

    some = keep.any(-1, keepdim=True)  # rows that see something
    att = att.masked_fill(~(keep | ~some), -torch.inf).softmax(-1)
    att = att.masked_fill(~some, 0.0)
    return torch.matmul(att, V), att
