"""Public checks of part 5, `attention/saturation.py`.

Four checks use an example that can be worked out by hand. Queries and keys are one number each, so √d_k is 1: the queries
0, 1, 2, 3 and the keys 2 ln 2, ln 2, ln 2. Query q gives the keys the weights 4^q, 2^q, 2^q over their sum, so the four
rows are (1/3, 1/3, 1/3), (1/2, 1/4, 1/4), (2/3, 1/6, 1/6) and (4/5, 1/10, 1/10).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .compare import FLOAT32, expect_number, fail
from .registry import check
from .signatures import STATISTICS
from .student import Student

PART = "saturation"
VARIANCE = "the variance: of the scores, not the weights; of all of them at once, around their mean, divided by their count."
LARGEST = "which maximum: first over the keys, in each row of weights, then the mean over the rows."
ENTROPY = "the entropy: a sum over the keys, with a minus and a natural logarithm (nats, not bits), then the mean over the rows."
SENSITIVITY = "the sensitivity: a sum of p (1 - p) over the keys, then the mean over the rows."
SCALED = "what depends on `scaled`: the scores, with all that is made from them; and which of the two divides by √d_k."


def by_hand() -> tuple[Tensor, Tensor]:
    """Q (4, 1) and K (3, 1) of the example above."""
    return torch.tensor([[0.0], [1.0], [2.0], [3.0]]), torch.tensor([[2.0], [1.0], [1.0]]) * math.log(2)


@check(
    part=PART, points=0.25, hint="the return line: ScoreStatistics(variance=…, …), each of the four a plain number, by .item()."
)
def test_four_numbers(student: Student) -> None:
    """score_statistics returns four plain floats: variance, max_weight, entropy, sensitivity."""
    sizes = student.draw.sizes()
    answer = student.score_statistics(student.draw.normal(sizes.L_q, sizes.d_k), student.draw.normal(sizes.L_k, sizes.d_k))
    for name in STATISTICS:
        answer.number(name, plain=True)


@check(part=PART, points=0.5, hint=VARIANCE)
def test_variance(student: Student) -> None:
    """The variance is the population variance of all the scores together."""
    answer = student.score_statistics(*by_hand(), scaled=False)
    # Over ln 2, the scores are 0 0 0, 2 1 1, 4 2 2, 6 3 3: their mean is 2, and the mean of their squares 7.
    expect_number(answer, "variance", 3 * math.log(2) ** 2, FLOAT32, source="3 (ln 2)², worked out by hand")


@check(part=PART, points=0.25, hint=LARGEST)
def test_largest_weight(student: Student) -> None:
    """max_weight is the largest weight of each row, averaged over the rows."""
    rows = (1 / 3, 1 / 2, 2 / 3, 4 / 5)
    expect_number(
        student.score_statistics(*by_hand(), scaled=False), "max_weight", sum(rows) / 4, FLOAT32, source="worked out by hand"
    )


@check(part=PART, points=0.25, hint=ENTROPY)
def test_entropy(student: Student) -> None:
    """The entropy is that of each row of weights, in nats, averaged over the rows."""
    rows = (
        math.log(3),
        math.log(2) / 2 + math.log(4) / 2,
        math.log(3 / 2) * 2 / 3 + math.log(6) / 3,
        math.log(5 / 4) * 4 / 5 + math.log(10) / 5,
    )
    expect_number(
        student.score_statistics(*by_hand(), scaled=False), "entropy", sum(rows) / 4, FLOAT32, source="worked out by hand"
    )


@check(part=PART, points=0.25, hint=SENSITIVITY)
def test_sensitivity(student: Student) -> None:
    """The sensitivity is the sum of p (1 - p) over each row of weights, averaged over the rows."""
    rows = (2 / 3, 1 / 4 + 3 / 8, 2 / 9 + 5 / 18, 4 / 25 + 9 / 50)
    expect_number(
        student.score_statistics(*by_hand(), scaled=False), "sensitivity", sum(rows) / 4, FLOAT32, source="worked out by hand"
    )


@check(part=PART, points=0.5, hint=SCALED)
def test_scaled_and_unscaled(student: Student) -> None:
    """scaled=True, which is the default, divides the scores by √d_k; scaled=False leaves them as they are."""
    for d_k in (2, 6, 23, 64):
        Q, K = student.draw.normal(5, d_k), student.draw.normal(7, d_k)
        scaled, unscaled = student.score_statistics(Q, K, scaled=True), student.score_statistics(Q, K, scaled=False)
        if scaled.number("variance") == unscaled.number("variance"):
            fail(unscaled, "the variance is the same as with scaled=True, so `scaled` changes nothing.")
        divided, default = student.score_statistics(Q / d_k**0.5, K, scaled=False), student.score_statistics(Q, K)
        for name in STATISTICS:
            source = f"what came back with scaled=False for Q / √{d_k}"
            expect_number(scaled, name, divided.number(name), FLOAT32, source=source)
            expect_number(default, name, scaled.number(name), FLOAT32, source="what came back with scaled=True")
