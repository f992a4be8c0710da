"""Hidden checks of part 7."""

from __future__ import annotations

import functools
import itertools
import math

import torch
from torch import Tensor

from checks import series
from checks.calls import Value
from checks.compare import FLOAT32, Tolerance, expect_close, expect_count, expect_dtype, expect_error, expect_tells, fail
from checks.registry import check
from checks.student import Answer, Student
from checks.test_forecasting import POSITIONS, planted

from . import common

PART = "forecasting"
EXACT = Tolerance(0, 0)
hidden = functools.partial(check, part=PART, hidden=True)


def _is_same(value: Value, tensor: Tensor) -> bool:
    """Whether what came back is this very tensor; it may be anything."""
    return isinstance(value, Tensor) and value.dtype == tensor.dtype and torch.equal(value, tensor)


@hidden(
    points=0.5,
    needs="test_circle_embedding",
    category="values",
    hint="what the code assumes of length and period: a period may be longer than the series, and need not be a whole number.",
)
def test_circle_of_any_period(student: Student) -> None:
    """circle_embedding is right for any length and any period, also one that is no whole number."""
    for length, period in ((1, 4), (8, 4), (5, 12), (30, 7), (21, 5.5), (16, 2)):
        angle = 2 * math.pi * torch.arange(length, dtype=torch.float64) / period
        wanted = torch.view_as_real(torch.polar(torch.ones_like(angle), angle)).flip(-1)
        expect_close(student.circle_embedding(length, period), "embedding", wanted, Tolerance(1e-4, 2e-5))


@hidden(
    points=0.5,
    needs="test_lag_profile",
    category="shapes",
    hint="axes counted from the end: any number of dimensions may stand before (L, L), none included. The dtype stays.",
)
def test_lag_profile_of_many_matrices(student: Student) -> None:
    """lag_profile takes any leading dimensions and any length, keeps the dtype, and ignores the future."""
    for lead, length in (((2,), 5), ((2, 3), 7), ((1, 4, 2), 3), ((3,), 1), ((), 40), ((6,), 6)):
        matrix, profile = planted(student.draw, lead, length)
        expect_close(student.lag_profile(matrix), "profile", profile, FLOAT32)
        answer = student.lag_profile(matrix.double())
        expect_close(answer, "profile", profile, FLOAT32)
        expect_dtype(answer, "profile", torch.float64)


@hidden(
    points=0.5,
    needs="test_dominant_lag",
    category="edge cases",
    hint="ties, plateaus, lags 0 and 1, and profiles too short to have a lag 2. Both conditions are on the same lag.",
)
def test_dominant_lag_in_doubt(student: Student) -> None:
    """dominant_lag takes the smallest of equal peaks, passes over a plateau's later lags and a maximum without a rise."""
    for values, lag in (
        ([1.0, 0.5, 0.1, 0.7, 0.1, 0.7, 0.1], 3),  # two equal peaks
        ([0.0, 0.2, 0.5, 0.5, 0.1], 2),  # a plateau
        ([0.0, 0.9, 0.5, 0.2, 0.5, 0.1], 4),  # the first maximum is no rise
        ([0.0, 0.9, 0.6, 0.5, 0.1, 0.5], 0),  # the maximum is no rise, and the rise no maximum
        ([0.0, 0.9, 0.1, 0.2, 0.3, 0.4], 5),  # at the very end
        ([0.1, 0.2, 0.3], 2),
        ([0.2, 0.2, 0.2, 0.2], 0),
        ([0.1, 0.9], 0),
        ([0.7], 0),
        ([-0.5, -0.9, -0.6, -0.2, -0.4], 3),
        ([0.0, 9.0, 0.0, 0.0, 1e-6, 0.0], 4),
        ([0.1, 0.1, 0.3, 0.1, 0.301, 0.1], 4),  # nearly equal peaks are not equal
    ):
        for dtype in (torch.float32, torch.float64):
            expect_count(student.dominant_lag(torch.tensor(values, dtype=dtype)), "lag", lag, source=f"profile is {values}")


@hidden(
    points=0.5,
    needs="test_sinusoidal_positions",
    category="shapes",
    hint="odd widths, which end with a sine; a width of one; long series. What is computed from a position must not lose it.",
)
def test_positions_of_any_size(student: Student) -> None:
    """sinusoidal_positions is right on odd widths, at width 1 and 2, and at length 512."""
    for length, width in ((512, 64), (512, 7), (9, 1), (5, 2), (1, 6), (12, 33)):
        angle = torch.arange(length).double()[:, None] * 10000.0 ** (-torch.arange(0, width, 2).double() / width)
        wanted = torch.stack((angle.sin(), angle.cos()), -1).flatten(-2)[:, :width]
        expect_close(student.sinusoidal_positions(length, width), "positions", wanted, POSITIONS)


@hidden(
    points=0.25,
    needs="test_next_step_pairs",
    category="leaks",
    hint="the values themselves: they stay as they are. A mean over the whole series tells an input about its future.",
)
def test_pairs_tell_nothing_of_the_future(student: Student) -> None:
    """next_step_pairs hands on the very values: no input changes with a later value."""
    for shape in ((3, 9), (1, 2), (5, 5)):
        for dtype in (torch.float32, torch.float64):
            values = 50 + 20 * student.draw.normal(*shape, dtype=dtype)
            answer = student.next_step_pairs.observe(values, after=True)
            expect_close(answer, "inputs", values[:, :-1], EXACT)
            expect_close(answer, "targets", values[:, 1:], EXACT)
            expect_dtype(answer, "inputs", dtype)
            if not _is_same(answer.after["series"], values):
                fail(answer, "the series was changed by the call.")


@hidden(
    points=0.5,
    needs="test_forecaster_attends_to_the_past",
    category="shapes",
    hint="the slice of the positions: by the length of this series, neither by the batch nor all of them; a ValueError beyond.",
)
def test_any_length_up_to_the_longest(student: Student) -> None:
    """It takes any batch and any length up to max_length, each item by itself, and raises a ValueError beyond."""
    for max_length in (12, 5):
        made = series.forecaster(student, max_length)
        values = student.draw.normal(4, max_length)
        whole = made(values)
        for items, length in ((4, 1), (1, max_length), (2, max_length - 1), (3, 3)):
            answer = made(values[:items, :length])
            source = "what a longer series, or more items beside it, gave at the same place"
            expect_close(answer, "forecasts", whole["forecasts"][:items, :length], FLOAT32, source=source)
            expect_close(answer, "weights", whole["weights"][:items, :length, :length], FLOAT32, source=source)
        long = student.draw.normal(2, max_length + 1)
        expect_error(functools.partial(made, long), f"{made.shown} with series (2, {max_length + 1})", why="it is too long")


@hidden(
    points=1,
    needs="test_forecasts_know_nothing_of_the_future",
    category="leaks",
    hint="what a forecast takes from a later value: a mask one off, a statistic of the whole series, a wrong shift.",
)
def test_no_later_value_reaches_a_forecast(student: Student) -> None:
    """Changing any one value moves the forecast there, and none before it."""
    length = 9
    made, values = series.forecaster(student), student.draw.normal(3, length)
    first = made(values)
    position = torch.arange(length)
    for t in range(length):
        for size in (300.0, 1.0):
            answer = made(torch.where(position == t, values + size, values))
            source = f"what it was before the value at t = {t} was changed"
            earlier = position < t
            expect_close(answer, "forecasts", first["forecasts"], FLOAT32, source=source, only=earlier)
            expect_close(answer, "weights", first["weights"], FLOAT32, source=source, only=earlier[:, None])
        if not ((answer["forecasts"] - first["forecasts"])[:, t].abs() > 1e-5).any():
            fail(answer, f"the forecast at t = {t} does not change with the value at {t}, which is the last that it knows.")


@hidden(
    points=0.5,
    needs="test_forecaster_attends_to_the_past",
    category="positions",
    hint="whether the positions reach the head at all, and whether row t of the table is added at position t.",
)
def test_order_matters(student: Student) -> None:
    """Putting the past in another order changes the forecast: positions are added."""
    made, values = series.forecaster(student), student.draw.normal(3, 10)
    before = made(values)["forecasts"][:, -1]
    for _ in range(3):
        order = torch.cat([student.draw.permutation(9), torch.tensor([9])])
        answer = made(values[:, order])
        if not ((answer["forecasts"][:, -1] - before).abs() > 1e-4 * before.abs() + 1e-5).any():
            fail(answer, "the last forecast is the same when the values before it change places.")


@hidden(
    points=1,
    needs="test_forecaster_attends_to_the_past",
    category="gradients",
    hint="what cuts the graph: detach, no_grad, .data, NumPy; a layer that is made and never used; a head without projections.",
)
def test_every_parameter_learns(student: Student) -> None:
    """The head has projections of its own, and a gradient reaches every parameter and the series."""
    made = series.forecaster(student, 10)
    numbers = sum(math.prod(shape) for shape in made.parameters.values())
    values, upstream = student.draw.normal(4, 10), student.draw.normal(4, 10)
    answer = student.gradients(made, values, upstream=(upstream, None))
    if numbers < series.WIDTH**2:
        fail(answer, f"it has {numbers} numbers to learn, which is less than one projection of width {series.WIDTH}.")
    for name, shape in made.parameters.items():
        gradient = answer.gradient(name)
        if not torch.isfinite(gradient).all():
            fail(answer, f"the gradient of {name} is not finite.")
        if len(shape) > 1 and not (gradient.abs() > 0).any():  # that of a bias of the keys is zero: a softmax ignores it
            fail(answer, f"the gradient of {name} is zero: nothing depends on it.")
    if not (answer.gradient("series").abs() > 0).any(0).all():
        fail(answer, "no gradient reaches some of the values.")


@hidden(
    points=0.25,
    needs="test_forecaster_attends_to_the_past",
    category="dtypes",
    hint="tensors made with a dtype of their own, the positions above all: a buffer moves with the module.",
)
def test_keeps_the_dtype(student: Student) -> None:
    """A model moved to float64, float32 or bfloat16 works in that dtype."""
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        answer = series.forecaster(student, dtype=dtype)(student.draw.normal(2, 8, dtype=dtype))
        for name in answer.results:
            expect_dtype(answer, name, dtype)
            if not torch.isfinite(answer[name]).all():
                fail(answer, f"{name} is not finite.")


@hidden(
    points=0.25,
    needs="test_forecaster_attends_to_the_past",
    category="devices",
    hint="tensors made outside of the module's own: register the positions as a buffer, and give what forward makes `device=`.",
)
def test_works_on_any_device(student: Student) -> None:
    """Nothing is made on a device of its own choice, so the model also runs on a GPU."""
    common.expect_any_device(series.forecaster(student), student.draw.normal(2, 8))
    common.expect_any_device(student.lag_profile, student.draw.normal(2, 6, 6))
    common.expect_any_device(student.next_step_pairs, student.draw.normal(2, 6))


@hidden(
    points=0.5,
    needs=("test_forecaster_attends_to_the_past", "test_lag_profile"),
    category="vectorisation",
    hint="a Python loop over positions, lags, columns or items: one tensor operation does them all at once.",
)
def test_takes_no_loop(student: Student) -> None:
    """The number of tensor operations does not grow with batch, length or width; only the training has its steps."""
    draw, made = student.draw, series.forecaster(student)

    def counted(B: int, L: int, width: int) -> list[Answer]:
        return [
            made.observe(draw.normal(B, L), count=True),
            student.lag_profile.observe(draw.normal(B, L, L), count=True),
            student.circle_embedding.observe(L, 4, count=True),
            student.sinusoidal_positions.observe(L, width, count=True),
            student.next_step_pairs.observe(draw.normal(B, L), count=True),
        ]

    for fewer, more in zip(counted(2, 5, 6), counted(4, 11, 14), strict=True):
        common.expect_vectorised(fewer, more, "batch, length and width grow")


@hidden(
    points=0.25,
    category="own work",
    hint="this part asks for your own attention: part 1's, or the few lines again.",
)
def test_no_ready_made_attention(student: Student) -> None:
    """It uses no ready-made attention of the library's."""
    common.expect_own_work(series.forecaster(student), student.draw.normal(2, 8))


@hidden(
    points=0.25,
    category="errors",
    hint="what the docstrings say of errors: a ValueError that names the argument and shows the shape or the number it got.",
)
def test_what_cannot_be_right_raises(student: Student) -> None:
    """What cannot be right raises a ValueError that says so."""
    draw, made = student.draw, student.AttentionForecaster(series.WIDTH, 8)
    cases = [
        ("circle_embedding(0, 4)", lambda: student.circle_embedding(0, 4), ("length",), (0,)),
        ("circle_embedding(8, -3)", lambda: student.circle_embedding(8, -3), ("period",), (3,)),
        ("lag_profile with weights (2, 5, 6)", lambda: student.lag_profile(draw.normal(2, 5, 6)), ("weights",), (5, 6)),
        ("dominant_lag with profile (2, 7)", lambda: student.dominant_lag(draw.normal(2, 7)), ("profile",), (2, 7)),
        ("sinusoidal_positions(0, 6)", lambda: student.sinusoidal_positions(0, 6), ("length",), (0,)),
        ("sinusoidal_positions(5, -2)", lambda: student.sinusoidal_positions(5, -2), ("d_model",), (2,)),
        ("next_step_pairs with series (6,)", lambda: student.next_step_pairs(draw.normal(6)), ("series",), (6,)),
        ("AttentionForecaster(0, 8)", lambda: student.AttentionForecaster(0, 8), ("d_model",), (0,)),
        ("AttentionForecaster(16, -9)", lambda: student.AttentionForecaster(16, -9), ("max_length",), (9,)),
        (f"{made.shown} with series (2, 13)", lambda: made(draw.normal(2, 13)), ("series", "length", "L"), (13,)),
    ]
    for called, call, names, numbers in cases:
        expect_tells(expect_error(call, called, why="it cannot be right"), called, names, numbers)


@hidden(
    points=0.5,
    needs="test_training_returns_its_errors",
    category="training",
    hint="a model that is trained again goes on from where it was; the errors are plain floats and mean squares over all pairs.",
)
def test_training_goes_on(student: Student) -> None:
    """Each error is that of the model before its update, training changes every weight, and its errors fall."""
    model = student.AttentionForecaster(series.WIDTH, series.LONGEST)
    values = series.periodic(student.draw, 6, 16, 5) * torch.tensor([[0.5], [1.0], [2.0]]).repeat(2, 1)
    before = model.state()
    errors = []
    for steps in (1, 1, 2, 60):
        forecasts = model(values[:, :-1])["forecasts"].double()
        wanted = float((forecasts - values[:, 1:]).square().mean())
        answer = student.train_forecaster.observe(model, values, steps=steps, learning_rate=0.01, after=True)
        errors += answer.numbers("errors", steps)
        if not abs(errors[-steps] - wanted) <= 1e-4 * wanted + 1e-5:
            fail(answer, f"errors[0] is {errors[-steps]:.5g}, and the model's mean squared error was {wanted:.5g}.")
        if not _is_same(answer.after["series"], values):
            fail(answer, "the series was changed by the call.")
    after = model.state()
    if still := [name for name, shape in model.parameters.items() if len(shape) > 1 and torch.equal(before[name], after[name])]:
        fail(answer, f"{still[0]} is what it was before all of the training.")
    if not errors[-1] < errors[0]:
        fail(answer, f"after 64 steps the error is {errors[-1]:.3g}, and it began with {errors[0]:.3g}.")


@hidden(
    points=0.25,
    needs="test_training_returns_its_errors",
    category="training",
    hint="the two numbers of train_forecaster: no step is left out because the error is small already, and no rate is your own.",
)
def test_training_does_as_it_is_told(student: Student) -> None:
    """It takes as many steps as it is told, however small the error gets, and at a larger learning rate larger ones."""
    flat = student.train_forecaster(
        student.AttentionForecaster(series.WIDTH, series.LONGEST), torch.zeros(3, 6), steps=200, learning_rate=0.01
    )
    flat.numbers("errors", 200)
    sines, first = series.periodic(student.draw, 6, 16, 5), series.forecaster(student)
    start = {name: value for name, value in first.state().items() if name in first.parameters}
    moved = []
    for rate in (1e-4, 1e-2):
        model = student.AttentionForecaster(series.WIDTH, series.LONGEST)
        model.assign(start)
        answer = student.train_forecaster(model, sines, steps=1, learning_rate=rate)
        answer.numbers("errors", 1)
        after = model.state()
        moved.append(max((float((after[name] - value).abs().max()) for name, value in start.items()), default=0.0))
    if not moved[1] > 5 * moved[0]:
        fail(answer, f"one step moves the weights by {moved[1]:.3g}; at a hundredth of this learning rate it is {moved[0]:.3g}.")


@hidden(
    points=0.5,
    needs="test_learns_period_four",
    category="training",
    hint="what the head can find: the next value of a sine follows from two earlier ones, or from a whole period before.",
)
def test_learns_period_seven(student: Student) -> None:
    """Trained on sines of period 7, it forecasts fresh ones far better than repeating the last value."""
    series.expect_learns(student, 7)


def _expect_honest(student: Student, values: Tensor, fresh: Tensor, guess: Tensor, what: str) -> None:
    """No trained model's error on fresh series is below that of the best guess there is; chance alone comes nowhere near 5 %."""
    for trained in itertools.islice(series.trainings(student, values, fresh), 2):
        possible = trained.error_of(guess)
        if trained.error < 0.95 * possible:
            told = f"after {trained.call}, its error on fresh series is {trained.error:.3g}, and {what} has {possible:.3g}"
            fail(trained.forecast, f"{told}: nobody can do better, so it knows the future. There is a leak.")


HONEST = "where the future comes in. An error below the possible is never skill: look for the forecast value among the inputs."


@hidden(points=0.5, needs="test_learns_period_four", category="leaks", hint=HONEST)
def test_white_noise_cannot_be_forecast(student: Student) -> None:
    """Trained on white noise, it is no better on fresh noise than its variance; if it were, there would be a leak."""
    values, fresh = series.noise(student.draw, 32, 24), series.noise(student.draw, 128, 24)
    _expect_honest(student, values, fresh, torch.zeros(128, 23), "the mean, zero,")


@hidden(points=0.5, needs="test_learns_period_four", category="leaks", hint=HONEST)
def test_random_walk_cannot_be_forecast(student: Student) -> None:
    """Trained on random walks, it is no better on fresh ones than the last value; if it were, there would be a leak."""
    values, fresh = series.walk(student.draw, 32, 24), series.walk(student.draw, 128, 24)
    _expect_honest(student, values, fresh, fresh[:, :-1], "repeating the last value")
