import torch

from .helpers import attend, check_qkv, refuse, upper_triangle


def causal_mask(length, device=None):
    return upper_triangle(length, device)


def masked_attention(Q, K, V, key_padding_mask=None, causal=False):
    check_qkv(Q, K, V, causal)
    forbidden = upper_triangle(Q.shape[-2], Q.device) if causal else None
    if key_padding_mask is not None:
        if key_padding_mask.dtype != torch.bool:
            refuse("key_padding_mask", f"is {key_padding_mask.dtype} and must be bool", key_padding_mask)
        if Q.ndim < 3 or tuple(key_padding_mask.shape) != (Q.shape[0], K.shape[-2]):
            refuse("key_padding_mask", "must be (B, L_k)", key_padding_mask, Q, K)
        padding = key_padding_mask.reshape(Q.shape[0], *[1] * (Q.ndim - 2), K.shape[-2])
        forbidden = padding if forbidden is None else forbidden | padding
    return attend(Q, K, V, forbidden)
