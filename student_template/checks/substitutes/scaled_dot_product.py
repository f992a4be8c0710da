"""In place of part 1, where it is wrong: the library's fused call. Read by the checks; not for import, and no model answer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel


def scaled_dot_product_attention(Q: Tensor, K: Tensor, V: Tensor, causal: bool = False) -> tuple[Tensor, Tensor]:
    """Part 1's contract. The weights are the output where the values are one-hot."""
    shapes = ", ".join(f"{name} {tuple(each.shape)}" for name, each in (("Q", Q), ("K", K), ("V", V)))
    if Q.shape[-1:] != K.shape[-1:]:
        raise ValueError(f"Q and K are not equally wide: {shapes}")
    if K.shape[-2:-1] != V.shape[-2:-1]:
        raise ValueError(f"there are not as many keys K as values V: {shapes}")
    if causal and (queries := Q.shape[-2]) != K.shape[-2]:
        raise ValueError(f"causal: there are {queries} queries Q, and another number of keys K: {shapes}")
    one_hot = torch.eye(K.shape[-2], dtype=K.dtype, device=K.device).expand(*K.shape[:-1], -1)
    with sdpa_kernel(SDPBackend.MATH):
        output, weights = (F.scaled_dot_product_attention(Q, K, values, is_causal=causal) for values in (V, one_hot))
    return output, weights
