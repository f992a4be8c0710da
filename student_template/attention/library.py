"""Part 4: against the library. Code 12.1.3 of the chapter, and the library pair after its Code 12.1.4.

The one file in which ready-made attention may be called: your own layer is held to `nn.MultiheadAttention`, and part 2's
attention is written again as a single call of `F.scaled_dot_product_attention`. Mind what `True` means in a bool mask: to the
first it is "ignore this key", as in this assignment; to the second it is "take part".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:  # for annotations alone: this file works without part 3
    from .multi_head import MultiHeadAttention


def to_library(mha: MultiHeadAttention) -> nn.MultiheadAttention:
    """The library's layer that computes the same function as `mha`.

    mha: a layer as in part 3, with the projections `W_q`, `W_k`, `W_v`, `W_o` and the number of heads `num_heads`.

    Returns an `nn.MultiheadAttention` with `batch_first=True` and without bias, in the same mode (train or eval), dtype and
    device. It holds copies of the weights: training one of the two leaves the other alone. `mha` is not changed.
    """
    raise NotImplementedError("part 4: to_library")


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
    raise NotImplementedError("part 4: library_difference")


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
    raise NotImplementedError("part 4: fused_attention")
