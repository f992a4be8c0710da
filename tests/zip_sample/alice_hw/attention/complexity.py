from collections import namedtuple

import torch

Cost = namedtuple("Cost", "multiply_adds stored_scores sequential_steps")


def check_sizes(**sizes):
    for name, size in sizes.items():
        if type(size) is not int:
            raise TypeError(f"{name} is {size!r} and must be an int")
        if size < 1:
            raise ValueError(f"{name} is {size} and must be positive")


def attention_cost(length, width):
    check_sizes(length=length, width=width)
    return Cost(2 * width * length**2, length**2, 1)


def recurrence_cost(length, width):
    check_sizes(length=length, width=width)
    return Cost(2 * width**2 * length, 0, length)


def crossover_length(width):
    check_sizes(width=width)
    return width + 1


def score_bytes(length, num_heads, dtype):
    check_sizes(length=length, num_heads=num_heads)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtype is {dtype!r} and must be a torch.dtype")
    return num_heads * attention_cost(length, 1).stored_scores * dtype.itemsize
