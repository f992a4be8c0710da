"""Part 4: against the library. Code 12.1.3 of the chapter, and the library pair after its Code 12.1.4.

The one file in which ready-made attention may be called: your own layer is held to `nn.MultiheadAttention`, and part 2's
attention is written again as a single call of `F.scaled_dot_product_attention`. Mind what `True` means in a bool mask: to the
first it is "ignore this key", as in this assignment; to the second it is "take part".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

# BEGIN SOLUTION
from torch.nn.functional import scaled_dot_product_attention

# END SOLUTION

if TYPE_CHECKING:  # for annotations alone: this file works without part 3
    from .multi_head import MultiHeadAttention


def to_library(mha: MultiHeadAttention) -> nn.MultiheadAttention:
    """The library's layer that computes the same function as `mha`.

    mha: a layer as in part 3, with the projections `W_q`, `W_k`, `W_v`, `W_o` and the number of heads `num_heads`.

    Returns an `nn.MultiheadAttention` with `batch_first=True` and without bias, in the same mode (train or eval), dtype and
    device. It holds copies of the weights: training one of the two leaves the other alone. `mha` is not changed.
    """
    # BEGIN SOLUTION
    packed = torch.cat([mha.W_q.weight, mha.W_k.weight, mha.W_v.weight]).detach()  # (3 d_model, d_model): q, then k, then v
    library = nn.MultiheadAttention(
        packed.shape[1], mha.num_heads, bias=False, batch_first=True, dtype=packed.dtype, device=packed.device
    )
    with torch.set_grad_enabled(False):
        library.in_proj_weight.copy_(packed)
        library.out_proj.weight.copy_(mha.W_o.weight)
    return library.train(mha.training)
    # END SOLUTION


def library_difference(
    mha: MultiHeadAttention, x: torch.Tensor, causal: bool = False, key_padding_mask: torch.Tensor | None = None
) -> float:
    """How far `mha` is from the library: the largest absolute difference of the two outputs on `x`, as a plain float.

    mha: a layer as in part 3. Its copy by `to_library` is what it is compared with.
    x: `(B, L, d_model)`, or `(L, d_model)` unbatched: the input, for self-attention.
    causal, key_padding_mask: the masks, given to both; the mask is `(B, L)` bool, `(L,)` unbatched, `True` = padding.

    Outputs are compared at the positions that are not padding: at the others the library may return NaN, where part 3
    returns zeros. A NaN at a position that is compared gives `inf`, since nothing that is undefined is close. No graph is built,
    and `mha` stays as it was.
    """
    # BEGIN SOLUTION
    library = to_library(mha)
    length = x.shape[-2]
    future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(diagonal=1) if causal else None  # (L, L)
    with torch.set_grad_enabled(False):
        ours = mha(x, causal=causal, key_padding_mask=key_padding_mask)  # (B, L, d_model)
        theirs, _ = library(x, x, x, key_padding_mask=key_padding_mask, attn_mask=future, need_weights=False)
    difference = (ours - theirs).abs()  # (B, L, d_model)
    if key_padding_mask is not None:
        difference = difference[~key_padding_mask]  # (real positions, d_model)
    if difference.isnan().any():
        return torch.inf
    return float(difference.max()) if difference.numel() else 0.0
    # END SOLUTION


# BEGIN SOLUTION
def _check_arguments(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool) -> None:
    """Part 1's rules for Q, K and V, again: what the fused call says about them is another kind of error, or nothing."""
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


def _real_keys(key_padding_mask: torch.Tensor, leading: torch.Size, L_k: int) -> torch.Tensor:
    """`(B, L_k)`, `True` = padding -> `(B, 1, ..., 1, L_k)`, `True` = take part."""
    if getattr(key_padding_mask, "dtype", None) != torch.bool:
        kind = getattr(key_padding_mask, "dtype", type(key_padding_mask).__name__)
        raise ValueError(f"key_padding_mask must be a bool tensor, True = padding: got {kind}")
    if tuple(key_padding_mask.shape) != (*leading[:1], L_k) or not leading:
        got = f"got {tuple(key_padding_mask.shape)} for leading dimensions {tuple(leading)} and {L_k} keys"
        raise ValueError(f"key_padding_mask must be (B, L_k), one row for each sequence of the batch: {got}")
    return ~key_padding_mask.reshape(leading[0], *[1] * len(leading), L_k)


# END SOLUTION


def fused_attention(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    key_padding_mask: torch.Tensor | None = None,
    causal: bool = False,
) -> torch.Tensor:
    """Part 2's output, by one call of `F.scaled_dot_product_attention`.

    Q: `(B, ..., L_q, d_k)`, K: `(B, ..., L_k, d_k)`, V: `(B, ..., L_k, d_v)`.
    key_padding_mask: `(B, L_k)` bool, `True` = this key is padding, ignore it. None: no key is padding.
    causal: when true, query `i` sees no key `j > i`; this needs `L_q == L_k`. Both masks may be given together.

    Returns the output `(B, ..., L_q, d_v)` in the inputs' dtype and on their device: zero, and with a gradient of zero, for a
    query that sees no key.

    Raises `ValueError` as part 2 does: for a mask that is not bool or not `(B, L_k)`, and for shapes that do not fit.
    """
    # BEGIN SOLUTION
    _check_arguments(Q, K, V, causal)
    leading, L_q, L_k = _leading_dimensions(Q, K, V), Q.shape[-2], K.shape[-2]
    padded = key_padding_mask
    if padded is None:  # the library has a causal mask of its own
        return scaled_dot_product_attention(Q, K, V, is_causal=causal)  # (B, ..., L_q, d_v)

    takes_part = _real_keys(padded, leading, L_k)  # (B, 1, ..., 1, L_k)
    if causal:
        takes_part = takes_part & torch.ones(L_q, L_k, dtype=torch.bool, device=Q.device).tril()  # (B, 1, ..., L_q, L_k)

    # What a row without any key comes to differs between the kernels behind the call, above all in its gradient. So such a
    # row sees every key, and its output is put to zero afterwards, where no gradient passes.
    sees_none = ~takes_part.any(dim=-1, keepdim=True)  # (B, 1, ..., L_q or 1, 1)
    output = scaled_dot_product_attention(Q, K, V, attn_mask=takes_part | sees_none)
    return output.masked_fill(sees_none, 0.0)  # (B, ..., L_q, d_v)
    # END SOLUTION
