"""Public checks of part 6, `attention/complexity.py`. The numbers in them were worked out by hand."""

from __future__ import annotations

import torch

from .compare import expect_count
from .registry import check
from .signatures import COSTS
from .student import Student

PART = "complexity"
WHOLE = "where a float comes in: /, a float literal, math.sqrt, a tensor. Whole numbers stay ints under +, *, ** and //."
ATTENTION = "both products: every query with every key, then the weights with every value. Write down the three sizes of each."
RECURRENCE = "both products of one step, input and state, and how many steps there are."
SCORES = "how many pairs of a query and a key there are; and that a recurrence scores no pairs."
STEPS = "what waits for what. Attention's outputs wait for none of the others; each state of a recurrence waits for the last."
CROSSOVER = "both costs side by side: which factors do they share? And is it `more`, or `as much`?"
BYTES = "one matrix for each head, its entries, and the bytes of one entry, which torch tells of every dtype."


@check(part=PART, points=0.25, hint=WHOLE)
def test_three_whole_numbers(student: Student) -> None:
    """attention_cost and recurrence_cost return three ints: multiply_adds, stored_scores, sequential_steps."""
    for answer in (student.attention_cost(6, 5), student.recurrence_cost(6, 5)):
        for name in COSTS:
            answer.number(name)


@check(part=PART, points=0.5, hint=ATTENTION)
def test_attention_multiply_adds(student: Student) -> None:
    """Attention's multiply-adds are those of its two products, of queries with keys and of weights with values."""
    for length, width, wanted in ((1, 1, 2), (3, 5, 90), (7, 2, 196), (8192, 48, 6_442_450_944)):
        expect_count(student.attention_cost(length, width), "multiply_adds", wanted)


@check(part=PART, points=0.25, hint=RECURRENCE)
def test_recurrence_multiply_adds(student: Student) -> None:
    """A recurrence's multiply-adds are those of two products at each step, of its input and of its state."""
    for length, width, wanted in ((1, 1, 2), (3, 5, 150), (7, 2, 56), (8192, 48, 37_748_736)):
        expect_count(student.recurrence_cost(length, width), "multiply_adds", wanted)


@check(part=PART, points=0.25, hint=SCORES)
def test_stored_scores(student: Student) -> None:
    """Attention stores one score for each pair of positions, about 67 million at a length of 8192; a recurrence none."""
    for length, width, wanted in ((1, 4, 1), (3, 5, 9), (7, 2, 49), (8192, 48, 67_108_864)):
        expect_count(student.attention_cost(length, width), "stored_scores", wanted)
        expect_count(student.recurrence_cost(length, width), "stored_scores", 0)


@check(part=PART, points=0.25, hint=STEPS)
def test_sequential_steps(student: Student) -> None:
    """Attention's critical path is one step at any length; a recurrence's is as long as the sequence."""
    for length, width in ((1, 4), (3, 5), (7, 2), (8192, 48)):
        expect_count(student.attention_cost(length, width), "sequential_steps", 1)
        expect_count(student.recurrence_cost(length, width), "sequential_steps", length)


@check(part=PART, points=0.25, hint=CROSSOVER)
def test_crossover_length(student: Student) -> None:
    """crossover_length is the smallest length at which attention takes more multiply-adds than the recurrence, an int."""
    for width, wanted in ((1, 2), (5, 6), (64, 65)):
        expect_count(student.crossover_length(width), "length", wanted)


@check(part=PART, points=0.25, hint=BYTES)
def test_score_bytes(student: Student) -> None:
    """score_bytes is the bytes of all heads' score matrices in the given dtype, an int."""
    for length, num_heads, dtype, wanted in (
        (5, 3, torch.float64, 600),
        (7, 2, torch.bfloat16, 196),
        (8192, 8, torch.float32, 2_147_483_648),
    ):
        expect_count(student.score_bytes(length, num_heads, dtype), "bytes", wanted)
