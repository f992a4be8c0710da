"""Part 2: key padding and the causal mask. Section 3 of the chapter, and its Exercise 12.1.2.

Both masks are bool, and in both `True` takes a key away: it is padding, or it lies in the future. This is the convention
of `nn.MultiheadAttention` and the opposite of `F.scaled_dot_product_attention`, where `True` means "take part".
"""

from __future__ import annotations

import torch


def causal_mask(length: int, device: torch.device | str | None = None) -> torch.Tensor:
    """The mask that hides the future: `(length, length)` bool, `True` = forbidden, which is where `j > i`.

    Row `i` belongs to query `i` and column `j` to key `j`: the mask is `True` strictly above the diagonal.
    device: where the mask is made; torch's default device when it is None.
    """
    # BEGIN SOLUTION
    return torch.ones(length, length, dtype=torch.bool, device=device).triu(diagonal=1)  # (length, length)
    # END SOLUTION


# BEGIN SOLUTION
def _check_arguments(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool) -> None:
    """Part 1's rules for Q, K and V, again: this file stands on its own feet."""
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


def _leading_dimensions(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Size:
    """`(B, ...)`: what stands before the last two dimensions of Q, K and V, broadcast together."""
    try:
        leading: torch.Size = torch.broadcast_shapes(*(tensor.shape[:-2] for tensor in (Q, K, V)))
    except RuntimeError as error:
        got = f"got Q {tuple(Q.shape)}, K {tuple(K.shape)}, V {tuple(V.shape)}"
        raise ValueError(f"the leading dimensions of Q, K and V do not broadcast: {got}") from error
    return leading


def _padding_for_every_query(key_padding_mask: torch.Tensor, leading: torch.Size, L_k: int) -> torch.Tensor:
    """`(B, L_k)` -> `(B, 1, ..., 1, L_k)`: the same keys are padding for all queries, and in all dimensions between."""
    if getattr(key_padding_mask, "dtype", None) != torch.bool:
        kind = getattr(key_padding_mask, "dtype", type(key_padding_mask).__name__)
        raise ValueError(f"key_padding_mask must be a bool tensor, True = padding: got {kind}")
    if tuple(key_padding_mask.shape) != (*leading[:1], L_k) or not leading:
        got = f"got {tuple(key_padding_mask.shape)} for leading dimensions {tuple(leading)} and {L_k} keys"
        raise ValueError(f"key_padding_mask must be (B, L_k), one row for each sequence of the batch: {got}")
    return key_padding_mask.reshape(leading[0], *[1] * len(leading), L_k)  # (B, 1, ..., 1, L_k)


# END SOLUTION


def masked_attention(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    key_padding_mask: torch.Tensor | None = None,
    causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Part 1's attention, in which a query sees only the keys that no mask forbids.

    Q: `(B, ..., L_q, d_k)`, K: `(B, ..., L_k, d_k)`, V: `(B, ..., L_k, d_v)`.
    key_padding_mask: `(B, L_k)` bool, `True` = this key is padding, ignore it; it holds for every query of its sequence,
        and row `b` of it belongs to entry `b` of the first dimension. None: no key is padding.
    causal: when true, query `i` sees no key `j > i`; this needs `L_q == L_k`. Both masks may be given together.

    Returns `(output (B, ..., L_q, d_v), weights (B, ..., L_q, L_k))`, in the inputs' dtype and on their device. Forbidden
    keys have weight zero and the weights of the others sum to one. A query that sees no key at all has all-zero weights
    and an all-zero output, and the gradients through it are zero, never NaN. Only keys are masked: a query at a padded
    position is treated like any other.

    Raises `ValueError`, naming the argument and the shapes it got, when the mask is not bool or not `(B, L_k)`, and
    wherever part 1 does.
    """
    # BEGIN SOLUTION
    _check_arguments(Q, K, V, causal)
    leading, L_q, L_k = _leading_dimensions(Q, K, V), Q.shape[-2], K.shape[-2]

    forbidden = torch.zeros(L_q, L_k, dtype=torch.bool, device=Q.device)  # (L_q, L_k)
    if causal:
        forbidden = forbidden | causal_mask(L_q, Q.device)  # (L_q, L_k)
    if key_padding_mask is not None:
        forbidden = forbidden | _padding_for_every_query(key_padding_mask, leading, L_k)  # (B, 1, ..., L_q, L_k)

    # The lowest finite number in place of -inf, because a row of nothing but -inf has no softmax: it is 0/0. As it is, such
    # a row comes out uniform, and the second masked_fill, which changes no other row, makes it zero; no gradient passes.
    scores = Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5  # (B, ..., L_q, L_k)
    scores = scores.masked_fill(forbidden, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1).masked_fill(forbidden, 0.0)  # (B, ..., L_q, L_k)
    return weights @ V, weights  # (B, ..., L_q, d_v), (B, ..., L_q, L_k)
    # END SOLUTION
