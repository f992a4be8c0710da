"""Part 1: scaled dot-product attention. Section 2 of the chapter, and its Code 12.1.1.

`...` in a shape stands for any number of leading dimensions, none included; they broadcast as in `torch.matmul`.
"""

from __future__ import annotations

import torch


# BEGIN SOLUTION
def _check_arguments(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool) -> None:
    """Refuse what cannot be right: torch would broadcast some of it in silence, and explain the rest badly."""
    got = f"got Q {tuple(Q.shape)}, K {tuple(K.shape)}, V {tuple(V.shape)}"
    if min(Q.ndim, K.ndim, V.ndim) < 2:
        raise ValueError(f"Q, K and V need a length and a width each: {got}")
    if Q.shape[-1] != K.shape[-1]:
        raise ValueError(f"Q and K must have the same width d_k: {got}")
    if K.shape[-2] != V.shape[-2]:
        raise ValueError(f"K and V must have the same length L_k: {got}")
    if causal and Q.shape[-2] != K.shape[-2]:
        raise ValueError(f"causal=True needs Q and K of the same length: {got}")
    if not Q.is_floating_point() or len({Q.dtype, K.dtype, V.dtype}) > 1:
        raise TypeError(f"Q, K and V must share one floating-point dtype: got {Q.dtype}, {K.dtype} and {V.dtype}")
    try:
        torch.broadcast_shapes(*(tensor.shape[:-2] for tensor in (Q, K, V)))
    except RuntimeError as error:
        raise ValueError(f"the leading dimensions of Q, K and V do not broadcast: {got}") from error


# END SOLUTION


def scaled_dot_product_attention(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """One head of attention: `softmax(Q K^T / sqrt(d_k)) V`, the softmax taken over the keys of each query.

    Q: `(..., L_q, d_k)`, one query a row.
    K: `(..., L_k, d_k)`, one key a row.
    V: `(..., L_k, d_v)`, one value a row.
    causal: when true, query `i` sees the keys `j <= i` and no others; this needs `L_q == L_k`.

    Returns the pair `(output, weights)`: `output (..., L_q, d_v)` and `weights (..., L_q, L_k)`, where row `i` of the
    weights says how much query `i` takes of each value, and sums to one. Both have the inputs' dtype and device.

    Raises `ValueError`, naming the argument and the shapes it got, when the widths of Q and K differ, when the lengths
    of K and V differ, and when `causal` is true with `L_q != L_k`.

    No input is changed, gradients flow to Q, K and V, and no loop runs over positions or leading dimensions.
    """
    # BEGIN SOLUTION
    _check_arguments(Q, K, V, causal)
    scores = Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5  # (..., L_q, L_k)
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=Q.device).triu(diagonal=1)  # (L_q, L_k)
        scores = scores.masked_fill(future, float("-inf"))  # exp(-inf) = 0; key i stays, so no row is left empty
    weights = torch.softmax(scores, dim=-1)  # (..., L_q, L_k)
    return weights @ V, weights  # (..., L_q, d_v), (..., L_q, L_k)
    # END SOLUTION
