"""Part 1: scaled dot-product attention. Section 2 of the chapter, and its Code 12.1.1.

`...` in a shape stands for any number of leading dimensions, none included; they broadcast as in `torch.matmul`.
"""

from __future__ import annotations

import torch


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
    raise NotImplementedError("part 1: scaled_dot_product_attention")
