"""Part 3: multi-head attention, self- and cross-. Section 3 of the chapter, and its Code 12.1.2.

A head is part 2's attention on its own slice of the projections, `d_k = d_model / num_heads` wide. It is fine to call
your own `masked_attention` here, or to write the few lines again.
"""

from __future__ import annotations

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    """`num_heads` attentions side by side, each in its own subspace of width `d_k`, mixed by an output projection.

    `head_i = attention(x W_q_i^T, context W_k_i^T, context W_v_i^T)`, `output = concat(head_1, ..., head_H) W_o^T`
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        """Make the layer: four `nn.Linear(d_model, d_model, bias=False)` named `W_q`, `W_k`, `W_v` and `W_o`.

        The number of heads is kept as the integer attribute `num_heads`. Rows `i * d_k` to `(i + 1) * d_k` of the weights
        of `W_q`, `W_k` and `W_v` belong to head `i`, as in `nn.MultiheadAttention`.

        Raises `ValueError` when `num_heads` is not positive or does not divide `d_model`.
        """
        super().__init__()
        raise NotImplementedError("part 3: MultiHeadAttention.__init__")

    def forward(
        self,
        x: torch.Tensor,
        context: torch.Tensor | None = None,
        *,
        causal: bool = False,
        key_padding_mask: torch.Tensor | None = None,
        need_weights: bool = False,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """Let every position of `x` look at every position of `context`, with each head.

        x: `(B, L_q, d_model)`, or `(L_q, d_model)` unbatched: what the queries are made from.
        context: `(B, L_k, d_model)`, or `(L_k, d_model)` unbatched: what the keys and values are made from
            (cross-attention). None: `x` itself (self-attention).
        causal: when true, position `i` sees no position `j > i`; this needs `L_q == L_k`.
        key_padding_mask: `(B, L_k)` bool, or `(L_k,)` unbatched; `True` = this position of the context is padding.
        need_weights: when true, the weights are returned too.

        Returns `output`, shaped as `x`; with `need_weights` the pair `(output, weights)`, where the weights are
        `(B, H, L_q, L_k)`, or `(H, L_q, L_k)` unbatched: one matrix a head, not their average. A query that sees no key
        has all-zero weights and an all-zero output.

        Raises `ValueError`, naming the argument and the shapes it got, when `x` or `context` has another width or rank,
        when their batch sizes differ, when the mask is not bool or has another shape, and when `causal` is true with
        `L_q != L_k`.
        """
        raise NotImplementedError("part 3: MultiHeadAttention.forward")
