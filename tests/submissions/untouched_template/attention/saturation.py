"""Part 5: why the scores are divided by √d_k. Section 2 of the chapter, and its Exercise 12.1.1.

Four numbers tell how far a softmax has saturated. Watch them as `d_k` grows, with the division and without.
"""

from __future__ import annotations

from typing import NamedTuple

import torch


class ScoreStatistics(NamedTuple):
    """How large the scores are, and how much of the softmax over them is still alive. Four floats."""

    variance: float  # of all the scores
    max_weight: float  # the largest weight of a row, averaged over the rows
    entropy: float  # of a row of weights, in nats, averaged over the rows
    sensitivity: float  # how much the weights of a row answer to their own scores, averaged over the rows


def score_statistics(Q: torch.Tensor, K: torch.Tensor, scaled: bool = True) -> ScoreStatistics:
    """The four statistics of the scores `Q K^T`, divided by the square root of `d_k` when `scaled`, and of their weights.

    Q: `(n, d_k)`, one query a row.
    K: `(m, d_k)`, one key a row.

    Each query has a row of `m` scores, and a row of weights, which is the softmax of its scores.

    variance: the population variance of all `n * m` scores together: around their mean, over their count.
    max_weight: 1 where each query looks at a single key, `1/m` where it looks at all of them alike.
    entropy: `-Σ p ln p` over the weights `p` of a row, where a weight of zero adds zero: 0 nats where a single key has
        all the weight, `ln m` where all have the same.
    sensitivity: `Σ p (1 - p)` over a row. `p (1 - p)` is the derivative of a weight with respect to its own score, so this is
        the trace of the softmax's Jacobian: 0 means that no score moves anything any more, and nothing can be learned.

    Returns plain Python floats, whatever the dtype and device of Q and K.

    Raises `ValueError`, naming the argument and the shapes it got, when Q or K is not a matrix with at least one row and one
    column, and when their widths differ.
    """
    raise NotImplementedError("part 5: score_statistics")
