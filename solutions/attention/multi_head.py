"""Part 3: multi-head attention, self- and cross-. Section 3 of the chapter, and its Code 12.1.2.

A head is part 2's attention on its own slice of the projections, `d_k = d_model / num_heads` wide. It is fine to call
your own `masked_attention` here, or to write the few lines again.
"""

from __future__ import annotations

import torch
from torch import nn

# BEGIN SOLUTION
from .masking import masked_attention

# END SOLUTION


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
        # BEGIN SOLUTION
        if num_heads < 1 or d_model < 1 or d_model % num_heads != 0:
            raise ValueError(f"num_heads must be positive and divide d_model: got d_model={d_model}, num_heads={num_heads}")
        self.num_heads: int = num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=False)  # packs W^Q of all heads, head after head
        self.W_k = nn.Linear(d_model, d_model, bias=False)  # packs W^K of all heads
        self.W_v = nn.Linear(d_model, d_model, bias=False)  # packs W^V of all heads
        self.W_o = nn.Linear(d_model, d_model, bias=False)  # W^O, which mixes what the heads found
        # END SOLUTION

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
        # BEGIN SOLUTION
        context = x if context is None else context
        self._check_arguments(x, context, causal, key_padding_mask)
        unbatched = x.ndim == 2
        if unbatched:  # a batch of one, whose only entry is taken out again below
            x, context = x[None], context[None]  # (1, L_q, d_model), (1, L_k, d_model)
            key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]  # (1, L_k)

        Q = self._split_heads(self.W_q(x))  # (B, H, L_q, d_k)
        K = self._split_heads(self.W_k(context))  # (B, H, L_k, d_k)
        V = self._split_heads(self.W_v(context))  # (B, H, L_k, d_k)
        heads, weights = masked_attention(Q, K, V, key_padding_mask, causal)  # (B, H, L_q, d_k), (B, H, L_q, L_k)
        output = self.W_o(heads.transpose(1, 2).flatten(start_dim=2))  # (B, L_q, d_model): concatenated, then mixed

        if unbatched:
            output, weights = output[0], weights[0]  # (L_q, d_model), (H, L_q, L_k)
        return (output, weights) if need_weights else output
        # END SOLUTION

    # BEGIN SOLUTION
    def _split_heads(self, projected: torch.Tensor) -> torch.Tensor:
        """`(B, L, d_model)` -> `(B, H, L, d_k)`: head `i` takes features `i * d_k` to `(i + 1) * d_k`."""
        B, L, d_model = projected.shape
        return projected.reshape(B, L, self.num_heads, d_model // self.num_heads).transpose(1, 2)

    def _check_arguments(
        self, x: torch.Tensor, context: torch.Tensor, causal: bool, key_padding_mask: torch.Tensor | None
    ) -> None:
        """Refuse what cannot be right, in the words of this layer's own arguments."""
        d_model = self.W_q.in_features
        if x.ndim not in (2, 3) or x.shape[-1] != d_model:
            raise ValueError(f"x must be (B, L_q, {d_model}) or (L_q, {d_model}): got {tuple(x.shape)}")
        if context.shape[:-2] != x.shape[:-2] or context.ndim != x.ndim or context.shape[-1] != d_model:
            expected = (*x.shape[:-2], "L_k", d_model)
            raise ValueError(f"context must be {expected} beside an x of {tuple(x.shape)}: got {tuple(context.shape)}")
        if causal and x.shape[-2] != context.shape[-2]:
            got = f"got x {tuple(x.shape)}, context {tuple(context.shape)}"
            raise ValueError(f"causal=True needs x and context of the same length: {got}")
        if key_padding_mask is not None and getattr(key_padding_mask, "dtype", None) != torch.bool:
            kind = getattr(key_padding_mask, "dtype", type(key_padding_mask).__name__)
            raise ValueError(f"key_padding_mask must be a bool tensor, True = padding: got {kind}")
        if key_padding_mask is not None and key_padding_mask.shape != context.shape[:-1]:
            expected = tuple(context.shape[:-1])
            raise ValueError(f"key_padding_mask must be {expected}, as the context: got {tuple(key_padding_mask.shape)}")

    # END SOLUTION
