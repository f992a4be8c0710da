"""Public checks of part 1, `attention/scaled_dot_product.py`."""

from __future__ import annotations

import functools

from . import expected
from .compare import FLOAT32, expect_close, expect_error, expect_pair, expect_rows_sum_to_one, expect_zero, fail
from .registry import check
from .student import Student

PART = "scaled_dot_product"
FOUR_STEPS = (
    "the four steps: the scores Q Kᵀ, the division by √d_k, the softmax over the keys (the last axis), the product with V."
)
TRIANGLE = "which triangle is masked (strictly above the diagonal), and that it is masked before the softmax."
COMPARE = "a comparison of the shapes at the top of the function, with `raise ValueError(...)`."


@check(part=PART, points=1, hint="the return line: two tensors, the output first.")
def test_returns_a_pair(student: Student) -> None:
    """Returns a pair of tensors: (output, weights)."""
    answer = student.scaled_dot_product_attention(*student.draw.qkv(student.draw.sizes(), heads=False))
    expect_pair(answer)


@check(part=PART, points=3, needs="test_returns_a_pair", hint=FOUR_STEPS)
def test_matches_library(student: Student) -> None:
    """Output and weights equal those of F.scaled_dot_product_attention."""
    Q, K, V = student.draw.qkv(student.draw.sizes())
    output, weights = expected.attention(Q, K, V)
    answer = student.scaled_dot_product_attention(Q, K, V)
    expect_close(answer, "weights", weights, FLOAT32, source="torch's F.scaled_dot_product_attention")
    expect_close(answer, "output", output, FLOAT32, source="torch's F.scaled_dot_product_attention")


@check(
    part=PART,
    points=1,
    needs="test_returns_a_pair",
    hint="the axis of the softmax: a row belongs to one query, and runs over the keys.",
)
def test_rows_sum_to_one(student: Student) -> None:
    """Each query's weights are not negative and sum to one."""
    answer = student.scaled_dot_product_attention(*student.draw.qkv(student.draw.sizes()))
    expect_rows_sum_to_one(answer)


@check(part=PART, points=2, needs="test_returns_a_pair", hint=TRIANGLE)
def test_causal_sees_only_the_past(student: Student) -> None:
    """With causal=True, query i gives weight to the keys 0 … i and to no later one."""
    Q, K, V = student.draw.qkv(student.draw.sizes(), square=True)
    answer = student.scaled_dot_product_attention(Q, K, V, causal=True)
    future = expected.forbidden_pairs(Q.shape[-2], K.shape[-2], causal=True)
    expect_zero(answer, "weights", future, lambda at: f"key {at[-1]} comes after query {at[-2]}")
    expect_rows_sum_to_one(answer)
    past = ~future.expand(answer["weights"].shape)
    if not (answer["weights"][past] > 0).all():
        fail(answer, "some query gives no weight at all to a key of its past or to its own.")


@check(part=PART, points=1, hint=COMPARE)
def test_shapes_that_do_not_fit(student: Student) -> None:
    """Shapes that do not fit each other raise a ValueError."""
    draw, attend = student.draw, student.scaled_dot_product_attention
    attend(*draw.qkv(draw.sizes()))  # what fits must not raise
    for lead_q, lead_k in (((2,), (2,)), ((), ()), ((2, 3), (2, 3)), ((2, 1), (3,))):
        for L_q, d_q, values, causal, why in (
            (5, 6, 7, False, "Q is 6 wide and K is 8 wide"),
            (5, 8, 9, False, "there are 7 keys and 9 values"),
            (5, 8, 7, True, "with causal=True there must be as many queries as keys, and there are 5 and 7"),
            (1, 8, 7, True, "with causal=True there must be as many queries as keys, and there are 1 and 7"),
        ):
            Q, K, V = draw.normal(*lead_q, L_q, d_q), draw.normal(*lead_k, 7, 8), draw.normal(*lead_k, values, 4)
            shapes = f"Q {tuple(Q.shape)}, K {tuple(K.shape)}, V {tuple(V.shape)}"
            called = f"scaled_dot_product_attention({shapes}{', causal=True' if causal else ''})"
            expect_error(functools.partial(attend, Q, K, V, causal=causal), called, why=why)
