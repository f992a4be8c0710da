"""Public checks of part 7, `attention/forecasting.py`."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from . import expected, series
from .compare import FLOAT32, Tolerance, expect_close, expect_count, expect_rows_sum_to_one, expect_zero, fail
from .draw import Draw
from .registry import check
from .student import Student

PART = "forecasting"
POSITIONS = Tolerance(0, 1e-4)
CIRCLE = "the order of the two columns, sine first, and the angle: 2πt/period, in radians, for t from 0."
MATRIX = "circle_embedding(8, 4) first, then part 1 with causal=True. (The matrix that the chapter prints is not the right one.)"
DIAGONALS = "what the mean is taken over: a lag is a diagonal below the main one, and lag k has L - k rows."
PEAK = "the definition in the docstring: the smallest lag from 2 on where the profile has its maximum and rises to it."
FORMULA = "the exponent: both columns of a pair share it, and it is 2i/d_model for columns 2i and 2i + 1; positions start at 0."
NEXT = "which value comes next: inputs are the series without its last value, targets without its first."
CAUSAL = "causal=True in the call of your attention; and that forward returns the head's own weights, (B, L, L)."
LEAK = "the causal mask; and anything that is taken over the whole series, such as a mean or a maximum."
BEFORE = "the order in a step: forecast, error, keep it as a float, and only then the update."


@check(part=PART, points=0.5, hint=CIRCLE)
def test_circle_embedding(student: Student) -> None:
    """circle_embedding(L, period) is (L, 2): the sine and the cosine of 2πt/period."""
    length, period = student.draw.integer(9, 12), student.draw.choice((5, 7))
    angles = [2 * math.pi * t / period for t in range(length)]
    wanted = torch.tensor([[math.sin(angle), math.cos(angle)] for angle in angles])
    expect_close(student.circle_embedding(length, period), "embedding", wanted, FLOAT32)


@check(part=PART, points=0.5, needs="test_circle_embedding", hint=MATRIX)
def test_attention_matrix_of_the_toy_series(student: Student) -> None:
    """Part 1 on circle_embedding(8, 4) gives the right matrix of Code 12.1.4: positions 4 steps apart weigh the same."""
    embedding = student.circle_embedding(8, 4)["embedding"].float()
    answer = student.scaled_dot_product_attention(embedding, embedding, embedding, causal=True)
    circle = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-1.0, 0.0]]).repeat(2, 1)
    expect_close(answer, "weights", expected.attention(circle, circle, circle, causal=True)[1], FLOAT32)


def planted(draw: Draw, lead: tuple[int, ...], length: int) -> tuple[Tensor, Tensor]:
    """A matrix (..., L, L) and the profile (..., L) that was planted in it. What lies in the future has no part in it."""
    profile, matrix = draw.normal(*lead, length), draw.normal(*lead, length, length)
    for lag in range(length):
        along = draw.normal(*lead, length - lag)
        along += profile[..., lag, None] - along.mean(-1, keepdim=True)
        torch.diagonal(matrix, -lag, -2, -1).copy_(along)
    return matrix, profile


@check(part=PART, points=0.5, hint=DIAGONALS)
def test_lag_profile(student: Student) -> None:
    """lag_profile(weights) at k is the mean of weights[i, i-k] over the rows i that have a lag k."""
    matrix, profile = planted(student.draw, (), student.draw.integer(6, 9))
    expect_close(student.lag_profile(matrix), "profile", profile, FLOAT32)


@check(part=PART, points=0.5, hint=PEAK)
def test_dominant_lag(student: Student) -> None:
    """dominant_lag(profile) is the lag, 2 or more, at which the profile peaks, and 0 where it only decays."""
    for values, lag in (
        ([0.3, 0.1, 0.1, 0.2, 0.9, 0.2, 0.1], 4),
        ([0.9, 0.5, 0.1, 0.05, 0.04, 0.2, 0.02, 0.01], 5),
        ([0.5, 0.4, 0.3, 0.2, 0.1, 0.05], 0),
    ):
        profile = torch.tensor(values)
        answer = student.dominant_lag(profile)
        expect_count(answer, "lag", lag, source=f"profile is {values}")


@check(part=PART, points=0.5, hint=FORMULA)
def test_sinusoidal_positions(student: Student) -> None:
    """sinusoidal_positions(L, d_model) follows its formula: even columns sines, odd columns cosines, base 10000."""
    length, width = 10, student.draw.choice((6, 8, 12))
    wanted = torch.zeros(length, width)
    for t in range(length):
        for pair in range(width // 2):
            angle = t / 10000 ** (2 * pair / width)
            wanted[t, 2 * pair], wanted[t, 2 * pair + 1] = math.sin(angle), math.cos(angle)
    expect_close(student.sinusoidal_positions(length, width), "positions", wanted, POSITIONS)


@check(part=PART, points=0.5, hint=NEXT)
def test_next_step_pairs(student: Student) -> None:
    """next_step_pairs(series) pairs each value with the one after it."""
    ramp = torch.arange(7.0).repeat(3, 1) + 100 * torch.arange(3.0)[:, None]
    answer = student.next_step_pairs(ramp)
    expect_close(answer, "inputs", ramp[:, :6], FLOAT32, source="row 0 of the series counts 0, 1, 2, …")
    expect_close(answer, "targets", ramp[:, :6] + 1, FLOAT32, source="row 0 of the series counts 0, 1, 2, …")


@check(part=PART, points=0.75, hint=CAUSAL)
def test_forecaster_attends_to_the_past(student: Student) -> None:
    """AttentionForecaster returns forecasts (B, L) and causal weights (B, L, L), whose rows sum to one."""
    answer = series.forecaster(student)(student.draw.normal(3, 10))
    if not torch.isfinite(answer["forecasts"]).all():
        fail(answer, "some forecasts are not finite.")
    future = expected.forbidden_pairs(10, 10, causal=True)
    expect_zero(answer, "weights", future, lambda at: f"position {at[-1]} comes after position {at[-2]}")
    expect_rows_sum_to_one(answer)


@check(part=PART, points=1, needs="test_forecaster_attends_to_the_past", hint=LEAK)
def test_forecasts_know_nothing_of_the_future(student: Student) -> None:
    """Changing the values after t changes no forecast up to t; changing the value at t changes the forecast at t."""
    made, before = series.forecaster(student), student.draw.normal(2, 10)
    length = before.shape[1]
    for t in (2, 6):
        position = torch.arange(length)
        first = made(before)
        after = made(torch.where(position > t, 5 * student.draw.normal(2, length), before))
        source = f"what it was before the values after t = {t} were changed"
        expect_close(after, "forecasts", first["forecasts"], FLOAT32, source=source, only=position <= t)
        moved = made(torch.where(position == t, before + 1, before))
        if not ((moved["forecasts"] - first["forecasts"])[:, t].abs() > 1e-5).any():
            fail(moved, f"the forecast at t = {t} does not change with the value at {t}, which is the last that it knows.")


@check(part=PART, points=0.75, needs="test_forecaster_attends_to_the_past", hint=BEFORE)
def test_training_returns_its_errors(student: Student) -> None:
    """train_forecaster returns one float a step, the mean squared error before its update, and trains the model itself."""
    model = student.AttentionForecaster(series.WIDTH, series.LONGEST)
    sines = series.periodic(student.draw, 4, 12, 4)
    for steps in (1, 3):
        forecasts = model(sines[:, :-1])["forecasts"].double()
        wanted = float((forecasts - sines[:, 1:]).square().mean())
        answer = student.train_forecaster(model, sines, steps=steps, learning_rate=0.01)
        first = answer.numbers("errors", steps)[0]
        if not abs(first - wanted) <= 1e-4 * wanted + 1e-5:
            fail(answer, f"errors[0] is {first:.5g}, and the model's mean squared error before the first update is {wanted:.5g}.")
        if not ((model(sines[:, :-1])["forecasts"].double() - forecasts).abs() > 1e-7).any():
            fail(answer, "the model forecasts what it did before: nothing was updated.")


@check(part=PART, points=0.5, needs="test_training_returns_its_errors", hint=NEXT)
def test_learns_period_four(student: Student) -> None:
    """Trained on sines of period 4, it forecasts fresh ones far better than repeating the last value."""
    series.expect_learns(student, 4)
