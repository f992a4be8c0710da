"""The reference of parts 5 and 6: what section 2 and section 4 of the chapter say, by measurement and by counting."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from solutions.attention.complexity import attention_cost, crossover_length, recurrence_cost, score_bytes
from solutions.attention.saturation import ScoreStatistics, score_statistics


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_an_example_by_hand() -> None:
    found = score_statistics(torch.tensor([[0.0], [1.0]]), torch.tensor([[math.log(4)], [math.log(2)], [math.log(2)]]))
    entropy = (math.log(3) + 1.5 * math.log(2)) / 2
    assert found == pytest.approx((5 / 9 * math.log(2) ** 2, (1 / 3 + 1 / 2) / 2, entropy, (2 / 3 + 5 / 8) / 2), rel=1e-6)
    assert isinstance(found, ScoreStatistics)
    assert [type(number) for number in found] == [float] * 4


@pytest.mark.parametrize("width", [4, 16, 64, 256, 1024])
def test_without_the_scale_the_softmax_saturates_and_with_it_nothing_changes(width: int) -> None:
    Q, K = normal(256, width, seed=1), normal(256, width, seed=2)
    unscaled, scaled = score_statistics(Q, K, scaled=False), score_statistics(Q, K)
    assert unscaled.variance == pytest.approx(width, rel=0.1)
    assert scaled.variance == pytest.approx(1, rel=0.1)
    assert scaled.sensitivity == pytest.approx(0.99, abs=0.01)
    assert scaled.max_weight == pytest.approx(0.04, abs=0.01)
    told = {4: (0.93, 0.17), 1024: (0.10, 0.93)}.get(width)
    if told:
        assert (unscaled.sensitivity, unscaled.max_weight) == pytest.approx(told, abs=0.02)


def test_sensitivity_is_the_trace_of_the_jacobian() -> None:
    Q, K = normal(5, 6, seed=3), normal(7, 6, seed=4)
    jacobians = [torch.func.jacrev(lambda scores: scores.softmax(-1))(row) for row in Q @ K.T]
    trace = torch.stack([jacobian.trace() for jacobian in jacobians]).mean()
    assert score_statistics(Q, K, scaled=False).sensitivity == pytest.approx(float(trace))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_edges_are_exact_in_every_dtype(dtype: torch.dtype) -> None:
    equal = score_statistics(torch.zeros(3, 2, dtype=dtype), torch.ones(8, 2, dtype=dtype))
    assert (equal.variance, equal.max_weight, equal.sensitivity) == (0, 1 / 8, 7 / 8)
    assert equal.entropy == pytest.approx(math.log(8), rel=1e-2 if dtype in (torch.bfloat16, torch.float16) else 1e-6)
    one_hot = score_statistics(torch.full((3, 1), 1000, dtype=dtype), torch.tensor([[1], [-1], [0]], dtype=dtype))
    assert one_hot[1:] == (1, 0, 0)
    one_key = score_statistics(torch.ones(3, 2, dtype=dtype), torch.ones(1, 2, dtype=dtype))
    assert one_key == (0, 1, 0, 0)


@pytest.mark.parametrize(
    ("shape_q", "shape_k"),
    [
        ((5, 6), (7, 8)),
        ((5, 6), (6, 5)),
        ((2, 5, 6), (2, 5, 6)),
        ((6,), (7, 6)),
        ((5, 6), (6,)),
        ((0, 6), (7, 6)),
        ((5, 0), (7, 0)),
    ],
)
def test_wrong_shapes_are_named(shape_q: tuple[int, ...], shape_k: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="Q") as caught:
        score_statistics(torch.zeros(shape_q), torch.zeros(shape_k))
    assert f"got Q {shape_q}, K {shape_k}" in str(caught.value)


POSITIVE = st.integers(1, 10**40)


@given(POSITIVE, POSITIVE)
def test_costs_are_exact_and_cross_where_they_say(length: int, width: int) -> None:
    attention, recurrence = attention_cost(length, width), recurrence_cost(length, width)
    assert attention.multiply_adds * width == recurrence.multiply_adds * length
    assert (attention.multiply_adds > recurrence.multiply_adds) is (length >= crossover_length(width))
    assert (attention.stored_scores, recurrence.stored_scores) == (length * length, 0)
    assert (attention.sequential_steps, recurrence.sequential_steps) == (1, length)
    assert {type(count) for count in (*attention, *recurrence)} == {int}


def test_costs_are_counted_as_torch_counts_them() -> None:
    def multiply_adds(*products: tuple[Tensor, Tensor]) -> int:
        with FlopCounterMode(display=False) as counter:
            for left, right in products:
                left @ right
        return int(counter.get_total_flops()) // 2

    L, d = 7, 5
    Q, W = torch.zeros(L, d), torch.zeros(d, d)
    assert attention_cost(L, d).multiply_adds == multiply_adds((Q, Q.T), (torch.zeros(L, L), Q))
    assert recurrence_cost(L, d).multiply_adds == multiply_adds(*[(Q[:1], W), (Q[:1], W)] * L)


def test_the_chapters_own_figure() -> None:
    assert attention_cost(8192, 64).stored_scores == 67_108_864
    assert attention_cost(2 * 8192, 64).stored_scores == 4 * 67_108_864


def test_bytes_are_those_of_a_tensor() -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int8, torch.bool, torch.complex128):
        assert score_bytes(6, 3, dtype) == torch.zeros(3, 6, 6, dtype=dtype).nbytes


@pytest.mark.parametrize("wrong", [0, -1, 2.5, 2.0, True, "3", None])
def test_what_is_no_positive_integer_is_refused_by_name(wrong: object) -> None:
    size: int = wrong  # type: ignore[assignment]
    for call, name in (
        (lambda: attention_cost(size, 4), "length"),
        (lambda: attention_cost(4, size), "width"),
        (lambda: recurrence_cost(size, 4), "length"),
        (lambda: recurrence_cost(4, size), "width"),
        (lambda: crossover_length(size), "width"),
        (lambda: score_bytes(size, 2, torch.float32), "length"),
        (lambda: score_bytes(2, size, torch.float32), "num_heads"),
    ):
        with pytest.raises(ValueError, match=f"{name} must be a positive integer: got {wrong!r}"):
            call()


@pytest.mark.parametrize("wrong", ["float32", 4, None, float])
def test_what_is_no_dtype_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"dtype must be a torch\.dtype"):
        score_bytes(4, 2, wrong)  # type: ignore[arg-type]
