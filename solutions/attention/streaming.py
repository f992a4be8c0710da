"""Part 8, extra credit: never the whole matrix. The end of section 4 of the chapter, and its pointer to FlashAttention.

Part 1's output without part 1's memory: the keys are read in blocks, and what is kept of the blocks that went before is one
row's worth of numbers for each query.
"""

from __future__ import annotations

import torch


# BEGIN SOLUTION
def _leading_dimensions(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool, block_size: int) -> torch.Size:
    """`...`, broadcast together, of arguments that can be right: part 1's rules again, and one for the blocks."""
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
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1: got {block_size}")
    try:
        leading: torch.Size = torch.broadcast_shapes(*(tensor.shape[:-2] for tensor in (Q, K, V)))
    except RuntimeError as error:
        raise ValueError(f"the leading dimensions of Q, K and V do not broadcast: {got}") from error
    return leading


# END SOLUTION


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
    # BEGIN SOLUTION
    leading = _leading_dimensions(Q, K, V, causal, block_size)
    (L_q, d_k), L_k = Q.shape[-2:], K.shape[-2]
    wide = torch.promote_types(Q.dtype, torch.float32)  # sums over many blocks drift in half precision
    queries = Q.to(wide) / d_k**0.5  # (..., L_q, d_k)
    position = torch.arange(max(L_q, L_k), device=Q.device)

    # For each query: the largest score so far, and relative to it the sum of the exponentials and of the values they weigh.
    largest = queries.new_full((L_q, 1), float("-inf"))  # (..., L_q, 1), as is total, from the first block on
    total = queries.new_zeros(L_q, 1)
    blend = queries.new_zeros(*leading, L_q, V.shape[-1])  # (..., L_q, d_v)
    for start in range(0, L_k, block_size):
        block = slice(start, start + block_size)
        scores = queries @ K[..., block, :].to(wide).transpose(-2, -1)  # (..., L_q, block)
        if causal:
            scores = scores.masked_fill(position[block] > position[:L_q, None], float("-inf"))

        # Key 0 comes first and every query sees it, so from the first block on the maximum is a number: inf - inf, which a
        # query without any key yet would come to, cannot happen. What is taken out of the exponents cancels in the end, and
        # needs no gradient.
        before, largest = largest, torch.maximum(largest, scores.detach().amax(dim=-1, keepdim=True))
        shrink = torch.exp(before - largest)  # (..., L_q, 1): what a new maximum makes of the sums so far
        weights = torch.exp(scores - largest)  # (..., L_q, block)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        blend = blend * shrink + weights @ V[..., block, :].to(wide)
    output: torch.Tensor = blend / total.clamp(min=torch.finfo(wide).tiny)  # zero, not 0/0, for a query without any key
    return output.to(Q.dtype)  # (..., L_q, d_v)
    # END SOLUTION
