import torch


def causal_mask(length, device=None):
    return torch.triu(torch.ones(length, length, dtype=torch.bool, device=device), diagonal=1)


def masked_attention(Q, K, V, key_padding_mask=None, causal=False):
    L_q, L_k = Q.shape[-2], K.shape[-2]
    scores = Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5
    weights = torch.zeros_like(scores)
    i = 0
    while i < L_q:
        row = scores[..., i, :]
        if causal:
            row = row.masked_fill(causal_mask(L_k, Q.device)[i], float("-inf"))
        weights[..., i, :] = torch.softmax(row, dim=-1)
        # TODO padding
    return weights @ V, weights
