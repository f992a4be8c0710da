from typing import NamedTuple

import torch


class Cost(NamedTuple):
    multiply_adds: int
    stored_scores: int
    sequential_steps: int


def positive(name, value):
    if type(value) is not int or value <= 0:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")


def attention_cost(length, width):
    positive("length", length)
    positive("width", width)
    scores = length * length * width  # Q K^T
    blend = length * length * width  # weights V
    return Cost(scores + blend, length * length, 1)


def recurrence_cost(length, width):
    positive("length", length)
    positive("width", width)
    return Cost(length * 2 * width * width, 0, length)


def crossover_length(width):
    positive("width", width)
    return width + 1


def score_bytes(length, num_heads, dtype):
    positive("length", length)
    positive("num_heads", num_heads)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtype must be a torch.dtype, got {dtype!r}")
    return length * length * num_heads * dtype.itemsize
