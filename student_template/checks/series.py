"""Series to forecast, models to forecast them with, and what may be asked of a forecast: for the checks of part 7."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from .compare import fail
from .draw import Draw
from .student import Answer, Student, Target

WIDTH, LONGEST = 16, 32  # of the models that are trained
ATTEMPTS = (
    (200, 0.01),
    (200, 0.03),
    (1200, 0.003),
    (1200, 0.03),
    (1200, 0.1),
)  # steps and learning rate: which will do depends on the optimiser


def periodic(draw: Draw, items: int, length: int, period: int) -> Tensor:
    """Sines of one period, each with a phase of its own: (items, length)."""
    phase = 2 * math.pi * draw.normal(items, 1)
    return torch.sin(2 * math.pi * torch.arange(length) / period + phase)


def noise(draw: Draw, items: int, length: int) -> Tensor:
    """White noise of variance one: nothing of it can be known beforehand."""
    return draw.normal(items, length)


def walk(draw: Draw, items: int, length: int) -> Tensor:
    """A random walk with steps of variance one: all that can be known of the next value is the last."""
    return draw.normal(items, length).cumsum(-1)


def forecaster(student: Student, max_length: int = LONGEST, dtype: torch.dtype = torch.float32) -> Target:
    """An AttentionForecaster of the student's whose parameters are drawn, none of them zero: what they do then shows."""
    made: Target = student.AttentionForecaster(WIDTH, max_length, dtype=dtype)
    made.assign({name: _drawn(student.draw, shape).to(dtype) for name, shape in made.parameters.items()})
    return made


def _drawn(draw: Draw, shape: tuple[int, ...]) -> Tensor:
    """Weights that keep the size of what they are applied to; what has one dimension or none may be a gain, and is near one."""
    return draw.normal(*shape) * (0.5 / max(1, shape[-1])) ** 0.5 if len(shape) > 1 else 1 + 0.3 * draw.normal(*shape)


@dataclass(frozen=True)
class Trained:
    """A model after some training, and its errors on series that it has not seen."""

    call: str  # "train_forecaster(model, series, steps=200, learning_rate=0.01)"
    forecast: Answer
    error: float  # mean squared error of its forecasts
    fresh: Tensor  # the series, (B, L)

    def error_of(self, guess: Tensor, first: int = 0) -> float:
        """The mean squared error of another guess (B, L - 1) of the same values, from position `first` on."""
        return float((guess - self.fresh[:, 1:]).double().square()[:, first:].mean())


def trainings(student: Student, series: Tensor, fresh: Tensor, first: int = 0) -> Iterator[Trained]:
    """Fresh models of the student's, trained on `series` in each of the ATTEMPTS, and their errors on `fresh` from `first` on."""
    for steps, learning_rate in ATTEMPTS:
        model: Target = student.AttentionForecaster(WIDTH, LONGEST)
        told: Answer = student.train_forecaster(model, series, steps=steps, learning_rate=learning_rate)
        told.numbers("errors", steps)
        forecast = model(fresh[:, :-1])
        error = (forecast["forecasts"] - fresh[:, 1:]).double().square()[:, first:].mean()
        yield Trained(told.call, forecast, float(error), fresh)


def expect_learns(student: Student, period: int) -> None:
    """Trained on sines of this period, a model's error on fresh ones is below a third of that of repeating the last value."""
    series, fresh = periodic(student.draw, 32, 24, period), periodic(student.draw, 64, 24, period)
    best: Trained | None = None
    for trained in trainings(student, series, fresh, first=period):
        repeating = trained.error_of(fresh[:, :-1], first=period)
        if trained.error < repeating / 3:
            return
        best = trained if best is None or trained.error < best.error or math.isnan(best.error) else best
    assert best is not None
    told = f"after {best.call}, the best of {len(ATTEMPTS)} attempts, its error on fresh sines of period {period}"
    fail(
        best.forecast,
        f"{told} is {best.error:.3g}.\nRepeating the last value has {repeating:.3g}, and it must be below a third of that.",
        "next_step_pairs first; then a parameter that the optimiser is not given, or gradients that are never set back to zero.",
    )
