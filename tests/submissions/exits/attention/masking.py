import torch


def causal_mask(length, device=None):
    return torch.triu(torch.ones(length, length, dtype=torch.bool, device=device), diagonal=1)


def masked_attention(Q, K, V, key_padding_mask=None, causal=False):
    if Q.shape[-1] != K.shape[-1]:
        raise ValueError(f"Q {tuple(Q.shape)} and K {tuple(K.shape)} differ in width")
    if K.shape[-2] != V.shape[-2]:
        raise ValueError(f"K {tuple(K.shape)} and V {tuple(V.shape)} differ in length")
    L_q, L_k = Q.shape[-2], K.shape[-2]
    scores = Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5

    hidden = torch.zeros_like(scores, dtype=torch.bool)
    if causal:
        if L_q != L_k:
            raise ValueError(f"causal needs L_q == L_k, got Q {tuple(Q.shape)} and K {tuple(K.shape)}")
        hidden = hidden | causal_mask(L_q, Q.device)
    if key_padding_mask is not None:
        if key_padding_mask.dtype != torch.bool:
            raise ValueError(f"key_padding_mask must be bool, got {key_padding_mask.dtype}")
        if key_padding_mask.shape != (Q.shape[0], L_k):
            raise ValueError(f"key_padding_mask must be {(Q.shape[0], L_k)}, got {tuple(key_padding_mask.shape)}")
        while key_padding_mask.dim() < scores.dim():
            key_padding_mask = key_padding_mask.unsqueeze(1)  # one axis after the batch, till the ranks agree
        hidden = hidden | key_padding_mask

    # masked_fill on both sides of the softmax, so rows with no key at all are zeros and not NaN
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1).masked_fill(hidden, 0)
    return weights @ V, weights
