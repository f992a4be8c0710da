"""Part 1, written with einsum and a softmax by hand."""
import math

import torch


def scaled_dot_product_attention(Q, K, V, causal=False):
    if Q.size(-1) != K.size(-1):
        raise ValueError(f"Q has width {Q.size(-1)} and K has width {K.size(-1)}: Q {tuple(Q.shape)}, K {tuple(K.shape)}")
    if K.size(-2) != V.size(-2):
        raise ValueError(f"K has length {K.size(-2)} and V has length {V.size(-2)}: K {tuple(K.shape)}, V {tuple(V.shape)}")
    L_q, L_k = Q.size(-2), K.size(-2)
    if causal and L_q != L_k:
        raise ValueError(f"causal needs square scores, Q is {tuple(Q.shape)} and K is {tuple(K.shape)}")

    root = math.sqrt(math.sqrt(Q.size(-1)))
    scores = torch.einsum("...id,...jd->...ij", Q / root, K / root)
    if causal:
        i = torch.arange(L_q, device=Q.device).unsqueeze(1)
        j = torch.arange(L_k, device=Q.device).unsqueeze(0)
        scores = torch.where(j <= i, scores, torch.finfo(scores.dtype).min)
    top = scores.amax(dim=-1, keepdim=True).detach()
    e = torch.exp(scores - top)
    weights = e / e.sum(dim=-1, keepdim=True)
    return torch.einsum("...ij,...jd->...id", weights, V), weights
