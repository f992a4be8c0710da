"""Hidden checks of part 6."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from checks.compare import expect_count, expect_error, expect_tells
from checks.registry import check
from checks.signatures import COSTS
from checks.student import Student

PART = "complexity"
hidden = functools.partial(check, part=PART, hidden=True)
ITEM_SIZES = {
    torch.float64: 8,
    torch.float32: 4,
    torch.float16: 2,
    torch.bfloat16: 2,
    torch.float8_e4m3fn: 1,
    torch.int64: 8,
    torch.int32: 4,
    torch.int8: 1,
    torch.bool: 1,
    torch.complex64: 8,
}


def _sizes(student: Student) -> Iterator[tuple[int, int]]:
    """Lengths and widths: one, equal, drawn, and larger than a float or 64 bits can count exactly."""
    draw = student.draw
    yield from ((1, 1), (1, 9), (9, 1), (8, 8), (8192, 12288))
    yield draw.integer(100, 999), draw.integer(1000, 9999)
    yield 10**15 + draw.integer(1, 999), 10**12 + draw.integer(1, 999)


@hidden(
    points=0.5,
    needs="test_attention_multiply_adds",
    category="values",
    hint="how the count grows with each of the two sizes; and that it stays an exact int, where a float has no room for it.",
)
def test_attention_multiply_adds_at_any_size(student: Student) -> None:
    """Attention's multiply-adds are right and exact for any length and width, however large."""
    for length, width in _sizes(student):
        expect_count(student.attention_cost(length, width), "multiply_adds", 2 * length**2 * width)


@hidden(
    points=0.25,
    needs="test_recurrence_multiply_adds",
    category="values",
    hint="how the count grows with each of the two sizes; and that it stays an exact int, where a float has no room for it.",
)
def test_recurrence_multiply_adds_at_any_size(student: Student) -> None:
    """A recurrence's multiply-adds are right and exact for any length and width, however large."""
    for length, width in _sizes(student):
        expect_count(student.recurrence_cost(length, width), "multiply_adds", 2 * length * width**2)


@hidden(
    points=0.25,
    needs=("test_stored_scores", "test_sequential_steps"),
    category="values",
    hint="what neither of the two depends on: the width.",
)
def test_scores_and_steps_at_any_size(student: Student) -> None:
    """Stored scores and sequential steps are right and exact for any length and width, however large."""
    for length, width in _sizes(student):
        attention, recurrence = student.attention_cost(length, width), student.recurrence_cost(length, width)
        for answer, scores, steps in ((attention, length**2, 1), (recurrence, 0, length)):
            expect_count(answer, "stored_scores", scores)
            expect_count(answer, "sequential_steps", steps)


@hidden(
    points=0.25,
    needs="test_crossover_length",
    category="values",
    hint="small and large widths, one by one, against the two costs on both sides of the crossover.",
)
def test_crossover_at_any_width(student: Student) -> None:
    """The crossover is right for narrow and wide layers."""
    for width in (1, 2, 3, 4, 17, 512, 1024, 12288, student.draw.integer(100, 999)):
        expect_count(student.crossover_length(width), "length", width + 1)


@hidden(
    points=0.5,
    needs="test_score_bytes",
    category="values",
    hint="the size of one element: torch knows that of every dtype, those that are no floating-point numbers included.",
)
def test_bytes_of_any_dtype(student: Student) -> None:
    """score_bytes is right for every dtype, length and number of heads."""
    for dtype, size in ITEM_SIZES.items():
        length, num_heads = student.draw.integer(5, 9000), student.draw.integer(1, 40)
        expect_count(student.score_bytes(length, num_heads, dtype), "bytes", num_heads * length**2 * size)


def _wrong_sizes(student: Student, wrong: object) -> Iterator[tuple[Callable[[], Any], str, str]]:
    """A call for each argument that is a size, with `wrong` in its place; how it is written; and the argument's name."""
    arguments: dict[str, dict[str, object]] = {
        "attention_cost": {"length": 6, "width": 5},
        "recurrence_cost": {"length": 6, "width": 5},
        "crossover_length": {"width": 5},
        "score_bytes": {"length": 6, "num_heads": 3, "dtype": torch.float32},
    }
    for function, right in arguments.items():
        for name in right:
            if name != "dtype":
                given = right | {name: wrong}
                written = ", ".join(f"{key}={value!r}" for key, value in given.items())
                yield functools.partial(getattr(student, function), *given.values()), f"{function}({written})", name


@hidden(
    points=0.25,
    category="errors",
    hint="sizes of zero and below, in every argument of all four functions: a comparison and a `raise ValueError(...)`.",
)
def test_zero_and_negative_sizes_raise(student: Student) -> None:
    """A length, width or number of heads that is not positive raises a ValueError."""
    for wrong in (0, -1, -6):
        for call, called, name in _wrong_sizes(student, wrong):
            expect_error(call, called, why=f"{name} must be positive")


@hidden(
    points=0.25,
    needs="test_zero_and_negative_sizes_raise",
    category="errors",
    hint="the text of the errors: an f-string with the argument's name and what it got.",
)
def test_errors_name_the_argument(student: Student) -> None:
    """An error's text names the argument that is wrong, as the function calls it."""
    for call, called, name in _wrong_sizes(student, 0):
        expect_tells(expect_error(call, called, why=f"{name} must be positive"), called, (name,), ())


@hidden(
    points=0.25,
    category="errors",
    hint="what only looks like a whole number: 2.0 has the value of one, and True counts as one in Python.",
)
def test_what_is_no_integer_raises(student: Student) -> None:
    """A length, width or number of heads that is not an int is refused: a float, a bool, a text."""
    for wrong in (2.5, 2.0, True, "3", None):
        for call, called, name in _wrong_sizes(student, wrong):
            expect_error(call, called, ("ValueError", "TypeError"), why=f"{name} must be an int")


@hidden(
    points=0.25,
    category="errors",
    hint="a dtype that is none, such as the name of one. An error that names the argument says more than what torch says.",
)
def test_what_is_no_dtype_raises(student: Student) -> None:
    """A dtype that is not a torch.dtype raises a TypeError or a ValueError."""
    for wrong in ("float32", 4):
        call = functools.partial(student.score_bytes, 6, 3, wrong)
        expect_error(call, f"score_bytes(6, 3, {wrong!r})", ("TypeError", "ValueError"), why="this is no torch.dtype")


@hidden(
    points=0.25,
    category="structure",
    hint="the class Cost: its three fields as they were given, in the same order.",
)
def test_fields_by_name(student: Student) -> None:
    """Cost has the fields multiply_adds, stored_scores and sequential_steps, in this order."""
    student.attention_cost(6, 5)  # the class alone is no one's work
    values = {name: number for number, name in enumerate(COSTS, start=1)}
    answer = student.Cost(**dict(reversed(values.items())))
    for name, value in values.items():
        expect_count(answer, name, value)
