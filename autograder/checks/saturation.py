"""Hidden checks of part 5.

No slip is charged twice where that can be helped. Values are asked for with `scaled=False`, since a public check is about the
division; and where a definition does not matter, answers are compared with answers to the same numbers in another form.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from checks.compare import (
    BY_DTYPE,
    FLOAT32,
    FLOAT64,
    LARGE_SCORES,
    Tolerance,
    expect_error,
    expect_number,
    expect_on_its_device,
    expect_tells,
    expect_unchanged,
)
from checks.errors import StudentRaised
from checks.registry import check
from checks.signatures import STATISTICS
from checks.student import Answer, Student

from . import common

PART = "saturation"
hidden = functools.partial(check, part=PART, hidden=True)
WIDTHS = (4, 16, 64, 256, 1024)
OF_WEIGHTS = STATISTICS[1:]
NO_WEIGHT = Tolerance(0.0, 1e-6)  # of what is exactly 0, for a logarithm that was kept from 0 by a tiny number


def statistics(Q: Tensor, K: Tensor) -> dict[str, float]:
    """The four numbers for the scores Q Kᵀ, by their definitions."""
    scores = Q.double() @ K.double().T
    weights = torch.softmax(scores, dim=-1)
    by_row = {
        "max_weight": weights.amax(-1),
        "entropy": torch.special.entr(weights).sum(-1),
        "sensitivity": (weights - weights.square()).sum(-1),
    }
    return {"variance": float(scores.var(correction=0))} | {name: float(values.mean()) for name, values in by_row.items()}


def _expect_at_every_width(student: Student, name: str) -> None:
    """Right for scores whose variance is 1, as a division by √d_k leaves them, d_k, as they come, and 0."""
    for d_k in WIDTHS:
        Q, K = (student.draw.normal(rows, d_k, dtype=torch.float64) for rows in (12, 20))
        for query, tolerance in ((Q / d_k**0.5, FLOAT32), (Q, LARGE_SCORES), (Q * 0, FLOAT32)):
            answer = student.score_statistics(query, K, scaled=False)
            expect_number(answer, name, statistics(query, K)[name], tolerance, source="by its definition")


@hidden(
    points=0.25,
    needs="test_variance",
    category="values",
    hint="the variance of the scores: around their own mean, which need not be zero, over all queries and keys at once.",
)
def test_variance_at_every_width(student: Student) -> None:
    """The variance is right from d_k = 4 to 1024, for one score, and for scores whose mean is not zero."""
    _expect_at_every_width(student, "variance")
    for queries, keys in ((1, 1), (1, 9), (6, 1), (6, 9)):
        Q, K = student.draw.normal(queries, 8) + 0.5, student.draw.normal(keys, 8) + 0.5
        expect_number(student.score_statistics(Q, K, scaled=False), "variance", statistics(Q, K)["variance"], FLOAT32)


@hidden(
    points=0.25,
    needs="test_largest_weight",
    category="values",
    hint="the largest weight: of each row of the softmax, which runs over the keys; then the mean over the queries.",
)
def test_largest_weight_at_every_width(student: Student) -> None:
    """max_weight is right from d_k = 4 to 1024, where it climbs towards 1."""
    _expect_at_every_width(student, "max_weight")


@hidden(
    points=0.25,
    needs="test_entropy",
    category="values",
    hint="the entropy: summed over the keys of each row, and nothing added to the weights that changes them noticeably.",
)
def test_entropy_at_every_width(student: Student) -> None:
    """The entropy is right from d_k = 4 to 1024, where it falls towards 0."""
    _expect_at_every_width(student, "entropy")


@hidden(
    points=0.25,
    needs="test_sensitivity",
    category="values",
    hint="the sensitivity: the trace of the softmax's Jacobian in each row, then the mean over the queries.",
)
def test_sensitivity_at_every_width(student: Student) -> None:
    """The sensitivity is right from d_k = 4 to 1024, where it falls towards 0."""
    _expect_at_every_width(student, "sensitivity")


@hidden(
    points=0.25,
    category="edge cases",
    hint="what the code takes for granted: that there are several queries, and several keys.",
)
def test_one_key_and_one_query(student: Student) -> None:
    """A single key gets weight 1, with entropy and sensitivity 0; a single query counts as much as the same one thrice."""
    for queries in (5, 1):
        answer = student.score_statistics(student.draw.normal(queries, 6), student.draw.normal(1, 6))
        for name, wanted in (("max_weight", 1.0), ("entropy", 0.0), ("sensitivity", 0.0)):
            expect_number(answer, name, wanted, NO_WEIGHT)
    Q, K = student.draw.normal(1, 6), student.draw.normal(7, 6)
    alone, thrice = student.score_statistics(Q, K), student.score_statistics(Q.repeat(3, 1), K)
    for name in OF_WEIGHTS:
        expect_number(alone, name, thrice.number(name), FLOAT32, source="what came back for the same query, three times")


@hidden(
    points=0.25,
    category="edge cases",
    hint="what 0 ln 0 is in your code, and what it is by the docstring. One NaN is enough to spoil a mean.",
)
def test_entropy_of_one_hot_rows(student: Student) -> None:
    """Where one key has all the weight, the entropy is 0, never NaN."""
    for dtype in (torch.float32, torch.float64):
        (Q,), (K,) = (each.to(dtype) for each in common.with_gaps(student.draw, 1, 6, 0.0))
        answer = student.score_statistics(Q * 4, K, scaled=False)  # of each row, 0, -1024, -2048, …
        expect_number(answer, "entropy", 0.0, NO_WEIGHT, source="one key has all the weight")


@hidden(
    points=0.25,
    category="numerics",
    hint="the exponential of a large score. Take the largest score of the row out first, as torch.softmax does.",
)
def test_large_scores_stay_finite(student: Student) -> None:
    """Very large and very small scores give finite, right numbers: one key wins, and nothing is sensitive any more."""
    for top in (2000.0, -2000.0):
        (Q,), (K,) = common.with_gaps(student.draw, 1, 6, top)
        answer = student.score_statistics(Q * 4, K, scaled=False)
        expect_number(answer, "max_weight", 1.0, NO_WEIGHT)
        expect_number(answer, "sensitivity", 0.0, NO_WEIGHT)


@hidden(
    points=0.25,
    category="dtypes",
    hint="casts, and tensors made with a dtype of their own. Whatever the inputs' dtype, four floats come back.",
)
def test_any_dtype(student: Student) -> None:
    """It works in float64, float32, bfloat16 and float16."""
    for dtype in common.DTYPES:
        Q, K = student.draw.normal(8, 6, dtype=dtype), student.draw.normal(10, 6, dtype=dtype)
        answer, double = student.score_statistics(Q, K), student.score_statistics(Q.double(), K.double())
        for name in STATISTICS:
            source = "what came back for the same numbers in float64"
            expect_number(answer, name, double.number(name), BY_DTYPE[dtype], source=source)


@hidden(
    points=0.25,
    category="structure",
    hint="in-place operations, and anything that depends on the order of queries or keys, or is kept from call to call.",
)
def test_leaves_its_inputs_alone(student: Student) -> None:
    """No argument is changed, and neither a second call nor another order of queries, keys or features changes an answer."""
    draw = student.draw
    Q, K = draw.normal(5, 6, dtype=torch.float64), draw.normal(7, 6, dtype=torch.float64)
    first = student.score_statistics.observe(Q, K, after=True)
    expect_unchanged(first, "in-place operations: /=, *=, +=, and torch's functions whose names end in an underscore.")
    student.score_statistics(K, Q)
    features = draw.permutation(6)
    for other_Q, other_K, what in (
        (Q, K, "of the same call before another one"),
        (Q[draw.permutation(5)], K, "before the queries were reordered"),
        (Q, K[draw.permutation(7)], "before the keys were reordered"),
        (Q[:, features], K[:, features], "before the features of both were reordered"),
        (common.laid_out_differently(Q), common.laid_out_differently(K), "of the same numbers, contiguous in memory"),
    ):
        _expect_same(student.score_statistics(other_Q, other_K), first, f"what came back {what}")


def _expect_same(answer: Answer, first: Answer, source: str) -> None:
    for name in STATISTICS:
        expect_number(answer, name, first.number(name), FLOAT64, source=source)


@hidden(
    points=0.25,
    category="devices",
    hint="tensors made inside the function: give each of them `device=` of an input, or do without.",
)
def test_works_on_any_device(student: Student) -> None:
    """Nothing is made on a device of its own choice, so it also runs on a GPU."""
    Q, K = student.draw.normal(5, 6), student.draw.normal(7, 6)
    for scaled in (True, False):
        student.score_statistics(Q, K, scaled=scaled)
        try:
            answer = student.score_statistics.observe(Q, K, scaled=scaled, on="meta")
        except StudentRaised as error:
            if "meta tensor" not in error.message:
                raise  # otherwise it went on with plain numbers, as it may: what it returns lies on no device
        else:
            expect_on_its_device(answer)


@hidden(
    points=0.25,
    category="errors",
    hint="a comparison of the shapes at the top of the function: `raise ValueError(...)` with the argument and its shape.",
)
def test_what_cannot_be_right_raises(student: Student) -> None:
    """Q or K that is no matrix, and widths that differ, raise a ValueError that says so."""
    for shape_q, shape_k, why in (
        ((5, 6), (7, 8), "Q is 6 wide and K is 8 wide"),
        ((5, 6), (6, 7), "Q is 6 wide and K is 7 wide"),
        ((5, 6), (7, 1), "Q is 6 wide and K is 1 wide"),
        ((2, 5, 6), (2, 7, 6), "neither of them is a matrix"),
        ((2, 5, 6), (2, 5, 6), "neither of them is a matrix"),
        ((6,), (7, 6), "Q is no matrix"),
        ((5, 6), (6,), "K is no matrix"),
    ):
        call = functools.partial(student.score_statistics, student.draw.normal(*shape_q), student.draw.normal(*shape_k))
        called = f"score_statistics(Q, K) with Q {shape_q}, K {shape_k}"
        text = expect_error(call, called, why=why)
        expect_tells(text, called, ("Q", "K"), ())


@hidden(
    points=0.25,
    category="structure",
    hint="the class ScoreStatistics: its four fields as they were given, in the same order.",
)
def test_fields_by_name(student: Student) -> None:
    """ScoreStatistics has the fields variance, max_weight, entropy and sensitivity, in this order."""
    student.score_statistics(student.draw.normal(5, 6), student.draw.normal(7, 6))  # the class alone is no one's work
    values = {name: float(number) for number, name in enumerate(STATISTICS, start=1)}
    answer = student.ScoreStatistics(**dict(reversed(values.items())))
    for name, value in values.items():
        expect_number(answer, name, value, FLOAT64)
