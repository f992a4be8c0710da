# homework 12, part 1
from math import sqrt

import torch


def check(ok, text):
    if not ok:
        raise ValueError(text)


def scaled_dot_product_attention(Q, K, V, causal=False):
    shapes = "Q %s, K %s, V %s" % (tuple(Q.shape), tuple(K.shape), tuple(V.shape))
    check(Q.size(-1) == K.size(-1), "Q and K have different d_k: " + shapes)
    check(K.size(-2) == V.size(-2), "K and V have different lengths: " + shapes)
    check(not causal or Q.size(-2) == K.size(-2), "causal=True, but Q and K have different lengths: " + shapes)

    att = torch.matmul(Q / sqrt(Q.size(-1)), K.mT)
    if causal:
        n = att.size(-1)
        keep = torch.tril(torch.ones(n, n, dtype=torch.bool, device=att.device))
        att = att.masked_fill(keep.logical_not(), -torch.inf)
    att = att.softmax(-1)
    return torch.matmul(att, V), att
