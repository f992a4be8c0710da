"""Part 8, extra credit: never the whole matrix. The end of section 4 of the chapter, and its pointer to FlashAttention.

Part 1's output without part 1's memory: the keys are read in blocks, and what is kept of the blocks that went before is one
row's worth of numbers for each query.
"""

from __future__ import annotations

import torch


def streaming_attention(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False, block_size: int = 64
) -> torch.Tensor:
    """Part 1's output, `softmax(Q K^T / sqrt(d_k)) V`, by an online softmax over blocks of keys.

    Q: `(..., L_q, d_k)`, K: `(..., L_k, d_k)`, V: `(..., L_k, d_v)`.
    causal: when true, query `i` sees the keys `j <= i` and no others; this needs `L_q == L_k`.
    block_size: how many keys are looked at together. Any whole number from 1 on; it need not divide `L_k`, nor be smaller.

    Returns the output `(..., L_q, d_v)` in the inputs' dtype and on their device. In the forward pass no tensor of
    `L_q x L_k` elements is ever made, masks included. Gradients flow to Q, K and V.

    Raises `ValueError`, naming the argument and what it got, when `block_size` is less than one, and where part 1 does.
    """
    raise NotImplementedError("part 8: streaming_attention")
