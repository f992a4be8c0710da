"""Correct answers to parts 5 and 6 in other styles than the reference's: they lose nothing."""

from __future__ import annotations

import pytest

from .support import grade_directly, lost

HEAD = """
import math
from typing import NamedTuple
import torch
import torch.nn.functional as F

class ScoreStatistics(NamedTuple):
    variance: float
    max_weight: float
    entropy: float
    sensitivity: float

def matrices(Q, K):
    if Q.dim() != 2 or K.dim() != 2 or Q.size(1) != K.size(1):
        raise ValueError(f"Q {tuple(Q.shape)} and K {tuple(K.shape)} are no (n, d_k) and (m, d_k)")
"""

STATISTICS = {
    "through log_softmax, moments instead of var": """
def score_statistics(Q, K, scaled=True):
    matrices(Q, K)
    scores = torch.einsum("id,jd->ij", Q.double(), K.double())
    scores = scores / math.sqrt(Q.size(-1)) if scaled else scores
    log_p = F.log_softmax(scores, dim=1)
    p = log_p.exp()
    variance = (scores ** 2).mean() - scores.mean() ** 2
    entropy, sensitivity = -(p * log_p).sum(1), 1 - (p ** 2).sum(1)
    return ScoreStatistics(*(float(x) for x in (variance, p.max(dim=1).values.mean(), entropy.mean(), sensitivity.mean())))
""",
    "softmax by hand, a mask for zeros": """
def score_statistics(Q, K, scaled=True):
    matrices(Q, K)
    scores = (Q * Q.shape[1] ** -0.5 if scaled else Q) @ K.mT
    e = (scores - scores.amax(1, keepdim=True)).exp()
    p = e / e.sum(1, keepdim=True)
    h = torch.where(p > 0, -p * p.clamp_min(torch.finfo(p.dtype).tiny).log(), 0)
    found = torch.var(scores, unbiased=False), p.max(1)[0].mean(), h.sum(1).mean(), (p - p * p).sum(1).mean()
    return ScoreStatistics(*torch.stack(found).tolist())
""",
    "a loop over queries, plain Python numbers, a plain tuple": """
def score_statistics(Q, K, scaled=True):
    matrices(Q, K)
    rows = [[sum(a * b for a, b in zip(q, k)) for k in K.tolist()] for q in Q.tolist()]
    if scaled:
        rows = [[s / math.sqrt(Q.shape[1]) for s in row] for row in rows]
    everything = [s for row in rows for s in row]
    mean = sum(everything) / len(everything)
    variance = sum((s - mean) ** 2 for s in everything) / len(everything)
    largest = entropy = sensitivity = 0
    for row in rows:
        e = [math.exp(s - max(row)) for s in row]
        p = [x / sum(e) for x in e]
        largest += max(p)
        entropy -= sum(x * math.log(x) for x in p if x > 0)
        sensitivity += sum(x * (1 - x) for x in p)
    n = len(rows)
    return variance, largest / n, entropy / n, sensitivity / n
""",
    "torch.distributions, an epsilon, NumPy's floats": """
import numpy as np
def score_statistics(Q, K, scaled=True):
    matrices(Q, K)
    d = torch.tensor(Q.shape[-1], dtype=torch.float32)
    scores = (Q @ K.T).float()
    if scaled:
        scores = scores / torch.sqrt(d)
    rows = torch.distributions.Categorical(logits=scores)
    p = rows.probs
    numbers = scores.numpy().astype(np.float64)
    return ScoreStatistics(
        variance=numbers.var(), max_weight=np.float64(p.topk(1).values.mean()),
        entropy=-(p * (p + 1e-12).log()).sum(-1).mean().item(), sensitivity=torch.sum(p * (1 - p), -1).mean().item(),
    )
""",
    "the trace of the Jacobian by autograd": """
def score_statistics(Q, K, scaled=True):
    matrices(Q, K)
    scores = torch.matmul(Q, torch.transpose(K, 0, 1)).to(torch.promote_types(Q.dtype, torch.float32))
    if scaled:
        scores = scores * (1 / Q.shape[1] ** 0.5)
    weights = scores.softmax(-1)
    def row_trace(row):
        return torch.func.jacrev(lambda s: s.softmax(-1))(row).trace()
    trace = torch.stack([row_trace(row) for row in scores])
    entropy = torch.stack([torch.special.xlogy(row, row).sum() for row in weights])
    spread = scores - scores.mean()
    return ScoreStatistics(
        variance=spread.pow(2).mean().item(), max_weight=torch.sort(weights, -1).values[:, -1].mean().item(),
        entropy=-entropy.mean().item(), sensitivity=trace.mean().item(),
    )
""",
}

CLASS = """
import math
import operator
from collections import namedtuple
import torch

Cost = namedtuple("Cost", ["multiply_adds", "stored_scores", "sequential_steps"])
"""
CHECKED = """
def positive(name, value):
    if type(value) is not int:
        raise TypeError(f"{name} has to be an int and is {value!r}")
    if value <= 0:
        raise ValueError(f"{name} has to be positive and is {value}")
    return value
"""

COSTS = {
    "products one by one, the crossover by search": """
def attention_cost(length, width):
    positive("length", length), positive("width", width)
    scores = length * width * length
    blend = length * length * width
    return Cost(scores + blend, length * length, 1)
def recurrence_cost(length, width):
    positive("length", length), positive("width", width)
    return Cost(length * (width * width + width * width), 0, length)
def crossover_length(width):
    positive("width", width)
    length = 1
    while attention_cost(length, width).multiply_adds <= recurrence_cost(length, width).multiply_adds:
        length += 1
    return length
def score_bytes(length, num_heads, dtype):
    positive("length", length), positive("num_heads", num_heads)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"dtype is {dtype!r}")
    return length ** 2 * num_heads * torch.empty(0, dtype=dtype).element_size()
""",
    "bisection, bytes through a tensor, plain tuples": """
def attention_cost(length, width):
    length, width = positive("length", length), positive("width", width)
    return length * length * width << 1, pow(length, 2), 1
def recurrence_cost(length, width):
    length, width = positive("length", length), positive("width", width)
    return 2 * width * width * length, 0, length
def crossover_length(width):
    low, high = 1, 4 * positive("width", width)
    while low < high:
        middle = (low + high) // 2
        if attention_cost(middle, width)[0] > recurrence_cost(middle, width)[0]:
            high = middle
        else:
            low = middle + 1
    return low
def score_bytes(length, num_heads, dtype):
    entries = positive("num_heads", num_heads) * positive("length", length) ** 2
    return entries * torch.zeros((), dtype=dtype).nbytes
""",
    "floor division, keyword construction": """
def attention_cost(length, width):
    for name, value in {"length": length, "width": width}.items():
        positive(name, value)
    flops = 4 * length * length * width
    return Cost(sequential_steps=1, stored_scores=length * length, multiply_adds=flops // 2)
def recurrence_cost(length, width):
    for name, value in {"length": length, "width": width}.items():
        positive(name, value)
    return Cost(sequential_steps=length, stored_scores=0, multiply_adds=length * 2 * width ** 2)
def crossover_length(width):
    positive("width", width)
    return 2 * width ** 2 // (2 * width) + 1
def score_bytes(length, num_heads, dtype):
    positive("length", length)
    positive("num_heads", num_heads)
    if not isinstance(dtype, torch.dtype):
        raise TypeError("dtype: " + repr(dtype))
    return sum(attention_cost(length, 1).stored_scores for _ in range(num_heads)) * torch.tensor([], dtype=dtype).itemsize
""",
    "one function for both, math.prod": """
def cost(length, width, per_step):
    positive("length", length)
    positive("width", width)
    return 2 * math.prod(per_step)
def attention_cost(length, width):
    return Cost(cost(length, width, (length, length, width)), math.prod((length, length)), 1)
def recurrence_cost(length, width):
    return Cost(cost(length, width, (length, width, width)), 0, length)
def crossover_length(width):
    return operator.add(positive("width", width), 1)
def score_bytes(length, num_heads, dtype):
    try:
        size = dtype.itemsize
    except AttributeError:
        raise TypeError(f"dtype {dtype!r} is none")
    return math.prod((positive("length", length), length, positive("num_heads", num_heads), size))
""",
    "a decorator that checks, a table of sizes": """
import functools
import inspect
def checked(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        for name, value in inspect.signature(function).bind(*args, **kwargs).arguments.items():
            if name != "dtype":
                positive(name, value)
        return function(*args, **kwargs)
    return wrapper
@checked
def attention_cost(length, width):
    return Cost(2 * length**2 * width, length**2, 1)
@checked
def recurrence_cost(length, width):
    return Cost(2 * length * width**2, 0, length)
@checked
def crossover_length(width):
    return width + 1
SIZES = {each: each.itemsize for each in vars(torch).values() if isinstance(each, torch.dtype)}
@checked
def score_bytes(length, num_heads, dtype):
    if dtype not in SIZES:
        raise ValueError(f"{dtype!r} is no dtype")
    return attention_cost(length, 1).stored_scores * num_heads * SIZES[dtype]
""",
}


@pytest.mark.parametrize("style", STATISTICS)
def test_other_styles_of_part_5_lose_nothing(style: str) -> None:
    results = grade_directly({"attention/saturation.py": HEAD + STATISTICS[style]}, "saturation")
    assert not lost(results), {name: results[name].message for name in lost(results)}


@pytest.mark.parametrize("style", COSTS)
def test_other_styles_of_part_6_lose_nothing(style: str) -> None:
    results = grade_directly({"attention/complexity.py": CLASS + CHECKED + COSTS[style]}, "complexity")
    assert not lost(results), {name: results[name].message for name in lost(results)}
