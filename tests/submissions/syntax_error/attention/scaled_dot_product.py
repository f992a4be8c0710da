import torch
import torch.nn.functional as F


def scaled_dot_product_attention(Q, K, V, causal=False):
    d_k = Q.shape[-1]
    if d_k != K.shape[-1]:
        raise ValueError(f"Q and K must have the same width, got Q {tuple(Q.shape)} and K {tuple(K.shape)}")
    if K.shape[-2] != V.shape[-2]:
        raise ValueError(f"K and V must have the same length, got K {tuple(K.shape)} and V {tuple(V.shape)}")
    scores = Q @ K.transpose(-2, -1) / (d_k ** 0.5)
    if causal:
        L_q, L_k = scores.shape[-2:]
        if L_q != L_k:
            raise ValueError(f"causal attention needs L_q == L_k, got Q {tuple(Q.shape)} and K {tuple(K.shape)}")
        mask = torch.triu(torch.ones(L_q, L_k, device=Q.device), diagonal=1).bool()
        scores = scores.masked_fill(mask, float("-inf"))
    weights = F.softmax(scores, dim=-1)
    return weights @ V, weights
