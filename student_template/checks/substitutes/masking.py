"""In place of part 2, where it is wrong: the library's fused call. Read by the checks; not for import, and no model answer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel


def causal_mask(length: int, device: torch.device | str | None = None) -> Tensor:
    """Part 2's contract: True = forbidden, where the key comes after the query."""
    position = torch.arange(length, device=device)
    return position > position.unsqueeze(1)


def masked_attention(
    Q: Tensor, K: Tensor, V: Tensor, key_padding_mask: Tensor | None = None, causal: bool = False
) -> tuple[Tensor, Tensor]:
    """Part 2's contract. The weights are the output where the values are one-hot; a row that sees no key is zero by itself."""
    shapes = ", ".join(f"{name} {tuple(each.shape)}" for name, each in (("Q", Q), ("K", K), ("V", V)))
    if Q.shape[-1:] != K.shape[-1:] or K.shape[-2:-1] != V.shape[-2:-1]:
        raise ValueError(f"widths of Q and K, or lengths of K and V, do not fit: {shapes}")
    if causal and (queries := Q.shape[-2]) != K.shape[-2]:
        raise ValueError(f"causal: there are {queries} queries Q, and another number of keys K: {shapes}")
    takes_part = causal_mask(Q.shape[-2], Q.device).logical_not() if causal else Q.new_ones((), dtype=torch.bool)
    takes_part = takes_part if key_padding_mask is None else takes_part & _real(key_padding_mask, K, shapes)
    takes_part = takes_part.expand(*torch.broadcast_shapes(Q.shape[:-2], K.shape[:-2]), Q.shape[-2], K.shape[-2])
    one_hot = torch.eye(K.shape[-2], dtype=K.dtype, device=K.device).expand(*K.shape[:-1], -1)
    with sdpa_kernel(SDPBackend.MATH):  # the one whose gradients are zero, not NaN, where a row sees nothing
        output, weights = (F.scaled_dot_product_attention(Q, K, values, takes_part) for values in (V, one_hot))
    return output, weights


def _real(key_padding_mask: Tensor, K: Tensor, shapes: str) -> Tensor:
    """True = this key is no padding: (B, 1, …, 1, L_k)."""
    if not isinstance(key_padding_mask, Tensor) or key_padding_mask.dtype is not torch.bool:
        raise ValueError(f"key_padding_mask is no bool tensor: {getattr(key_padding_mask, 'dtype', type(key_padding_mask))}")
    if K.dim() < 3 or key_padding_mask.shape != (K.shape[0], K.shape[-2]):
        raise ValueError(f"key_padding_mask {tuple(key_padding_mask.shape)} is not (B, L_k): {shapes}")
    return key_padding_mask.logical_not().reshape(K.shape[0], *[1] * (K.dim() - 2), K.shape[-2])
