"""Scaled dot-product attention."""
import torch
from torch import Tensor


def scaled_dot_product_attention(Q: Tensor, K: Tensor, V: Tensor, causal: bool = False) -> tuple[Tensor, Tensor]:
    n_queries, width = Q.shape[-2:]
    n_keys = K.shape[-2]
    if K.shape[-1] != width:
        raise ValueError(f"width of K {tuple(K.shape)} is not that of Q {tuple(Q.shape)}")
    if V.shape[-2] != n_keys:
        raise ValueError(f"length of V {tuple(V.shape)} is not that of K {tuple(K.shape)}")
    if causal and n_queries != n_keys:
        raise ValueError(f"causal: {n_queries} queries but {n_keys} keys, Q {tuple(Q.shape)}, K {tuple(K.shape)}")

    scores = Q.matmul(K.transpose(-1, -2)) * width**-0.5
    if causal:
        steps = torch.arange(n_keys, device=Q.device)
        scores = torch.where(steps[None, :] > steps[:, None], float("-inf"), scores)
    weights = torch.exp(scores - scores.logsumexp(dim=-1, keepdim=True))
    return weights.matmul(V), weights
