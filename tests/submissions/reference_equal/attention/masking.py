"""Part 2: one table of allowed pairs for both masks, and a guard for the rows that see nothing."""
import math

import torch


def causal_mask(length, device=None):
    i = torch.arange(length, device=device)
    return i.unsqueeze(0) > i.unsqueeze(1)


def masked_attention(Q, K, V, key_padding_mask=None, causal=False):
    if Q.size(-1) != K.size(-1):
        raise ValueError(f"widths of Q and K differ: {tuple(Q.shape)} and {tuple(K.shape)}")
    if K.size(-2) != V.size(-2):
        raise ValueError(f"lengths of K and V differ: {tuple(K.shape)} and {tuple(V.shape)}")
    if causal and Q.size(-2) != K.size(-2):
        raise ValueError(f"causal with different lengths of Q and K: {tuple(Q.shape)} and {tuple(K.shape)}")

    scores = torch.einsum("...id,...jd->...ij", Q, K) * (1 / math.sqrt(Q.size(-1)))
    allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
    if causal:
        allowed = ~causal_mask(Q.size(-2), device=Q.device)
    if key_padding_mask is not None:
        if key_padding_mask.dtype is not torch.bool:
            raise TypeError(f"key_padding_mask has to be bool and is {key_padding_mask.dtype}")
        if Q.dim() < 3 or key_padding_mask.shape != (Q.size(0), K.size(-2)):
            raise ValueError(f"key_padding_mask is {tuple(key_padding_mask.shape)}, Q {tuple(Q.shape)}, K {tuple(K.shape)}")
        lead = [1] * (Q.dim() - 2)
        allowed = allowed & ~key_padding_mask.view(Q.size(0), *lead, K.size(-2))

    weights = torch.softmax(torch.where(allowed, scores, torch.finfo(scores.dtype).min), dim=-1)
    # a row that sees no key came out uniform; every other row is right already
    weights = torch.where(allowed.any(dim=-1, keepdim=True), weights, 0.0)
    return weights @ V, weights
