"""Part 6: every count is a product of sizes, and the crossover is where the two costs say."""
from math import prod
from typing import NamedTuple

import torch


class Cost(NamedTuple):
    """What one layer takes for one sequence. Three ints, exact however large they are."""

    multiply_adds: int
    stored_scores: int  # entries of the score matrix
    sequential_steps: int  # the critical path: how many steps have to wait for the one before


def whole(**sizes):
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size <= 0:
            raise ValueError(f"{name} has to be a positive whole number and is {size!r}")


def attention_cost(length, width):
    whole(length=length, width=width)
    return Cost(prod((2, length, length, width)), prod((length, length)), 1)


def recurrence_cost(length, width):
    whole(length=length, width=width)
    return Cost(prod((2, length, width, width)), 0, length)


def crossover_length(width):
    whole(width=width)
    low, high = 1, 2 * width  # at twice the width attention is twice as dear
    while low < high:
        middle = (low + high) // 2
        dearer = attention_cost(middle, width).multiply_adds > recurrence_cost(middle, width).multiply_adds
        low, high = (low, middle) if dearer else (middle + 1, high)
    return low


def score_bytes(length, num_heads, dtype):
    whole(length=length, num_heads=num_heads)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtype has to be a torch.dtype and is {dtype!r}")
    return prod((num_heads, length, length, torch.empty(0, dtype=dtype).element_size()))
