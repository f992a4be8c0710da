"""Part 6: what attention costs, and what a recurrence costs. Section 4 of the chapter.

Both read a sequence of `length` positions, each `width` numbers wide. Only products of matrices are counted, in
multiply-adds: a product of an `a × b` with a `b × c` matrix takes `a b c` of them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch


class Cost(NamedTuple):
    """What one layer takes for one sequence. Three ints, exact however large they are."""

    multiply_adds: int
    stored_scores: int  # entries of the score matrix
    sequential_steps: int  # the critical path: how many steps have to wait for the one before


def attention_cost(length: int, width: int) -> Cost:
    """What one head of attention takes, as wide as the model: its two products, `Q K^T` and the weights times `V`.

    The projections and the softmax are left out. The whole score matrix is stored. Every output position is computed from
    the same Q, K and V, and none waits for another: the critical path is one step, however long the sequence.

    Raises `ValueError`, naming the argument, when `length` or `width` is not a positive integer; a bool is none, and
    neither is 2.0.
    """
    raise NotImplementedError("part 6: attention_cost")


def recurrence_cost(length: int, width: int) -> Cost:
    """What a recurrent layer takes: at each position its input and its state are multiplied by a `width × width` matrix each.

    No scores are stored. A position waits for the state of the one before, so the critical path grows with the length.

    Raises `ValueError` as `attention_cost` does.
    """
    raise NotImplementedError("part 6: recurrence_cost")


def crossover_length(width: int) -> int:
    """The smallest length at which attention takes more multiply-adds than the recurrence of the same width.

    Raises `ValueError` as `attention_cost` does.
    """
    raise NotImplementedError("part 6: crossover_length")


def score_bytes(length: int, num_heads: int, dtype: torch.dtype) -> int:
    """How many bytes the score matrices of one layer take for one sequence, one matrix a head, stored in `dtype`.

    dtype: any `torch.dtype`, floating point or not.

    Raises `ValueError`, naming the argument, when `length` or `num_heads` is not a positive integer, and `TypeError` when
    `dtype` is not a `torch.dtype`.
    """
    raise NotImplementedError("part 6: score_bytes")
