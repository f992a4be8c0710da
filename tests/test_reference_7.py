"""The reference of part 7 by hand-worked examples, by its own definitions, and by what it learns."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from solutions.attention.forecasting import (
    AttentionForecaster,
    circle_embedding,
    dominant_lag,
    lag_profile,
    next_step_pairs,
    sinusoidal_positions,
    train_forecaster,
)
from solutions.attention.scaled_dot_product import scaled_dot_product_attention

# The matrix of Code 12.1.4 as its code computes it; the chapter prints another one.
COMPUTED = """
1.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00
0.33 0.67 0.00 0.00 0.00 0.00 0.00 0.00
0.14 0.28 0.58 0.00 0.00 0.00 0.00 0.00
0.22 0.11 0.22 0.45 0.00 0.00 0.00 0.00
0.31 0.15 0.08 0.15 0.31 0.00 0.00 0.00
0.13 0.27 0.13 0.07 0.13 0.27 0.00 0.00
0.06 0.12 0.25 0.12 0.06 0.12 0.25 0.00
0.11 0.05 0.11 0.22 0.11 0.05 0.11 0.22
"""


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def model(width: int = 16, longest: int = 32, seed: int = 0) -> AttentionForecaster:
    torch.manual_seed(seed)
    return AttentionForecaster(width, longest)


def sines(items: int, length: int, period: int, seed: int = 0) -> Tensor:
    phase = 2 * math.pi * torch.rand(items, 1, generator=torch.Generator().manual_seed(seed))
    return torch.sin(2 * math.pi * torch.arange(length) / period + phase)


def error(trained: nn.Module, series: Tensor, first: int = 0) -> float:
    inputs, targets = next_step_pairs(series)
    with torch.no_grad():
        return float((trained(inputs)[0] - targets)[:, first:].square().mean())


def test_the_matrix_of_the_toy_series() -> None:
    embedding = circle_embedding(8, 4)
    _, weights = scaled_dot_product_attention(embedding, embedding, embedding, causal=True)
    printed = torch.tensor([[float(each) for each in row.split()] for row in COMPUTED.split("\n") if row])
    assert (weights - printed).abs().max() <= 0.0051
    assert dominant_lag(lag_profile(weights)) == 4


def test_the_circle_goes_round_once_in_a_period() -> None:
    assert circle_embedding(1, 4).tolist() == [[0, 1]]
    torch.testing.assert_close(circle_embedding(3, 4), torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0]]))
    torch.testing.assert_close(circle_embedding(22, 5.5)[11:], circle_embedding(11, 5.5), rtol=0, atol=1e-5)
    assert circle_embedding(30, 7).norm(dim=-1).allclose(torch.ones(30))


def test_a_profile_by_hand() -> None:
    weights = torch.tensor([[1.0, 9, 9], [0.2, 0.8, 9], [0.5, 0.1, 0.4]])
    torch.testing.assert_close(lag_profile(weights), torch.tensor([2.2 / 3, 0.15, 0.5]))


@pytest.mark.parametrize("lead", [(), (3,), (2, 1, 3)])
@pytest.mark.parametrize("length", [1, 2, 9])
def test_a_profile_is_the_mean_of_diagonals(lead: tuple[int, ...], length: int) -> None:
    weights = normal(*lead, length, length).double()
    diagonals = [weights.diagonal(-lag, -2, -1).mean(-1) for lag in range(length)]
    torch.testing.assert_close(lag_profile(weights), torch.stack(diagonals, -1))


@pytest.mark.parametrize(
    ("profile", "lag"),
    [
        ([0.5, 0.3, 0.1, 0.1, 0.4, 0.1], 4),
        ([0.5, 0.4, 0.3, 0.2], 0),
        ([0.5, 0.1, 0.3, 0.2, 0.3], 2),
        ([0.5, 0.9, 0.3, 0.2, 0.3], 4),
        ([0.5, 0.9, 0.3, 0.3], 0),
        ([0.1, 0.2], 0),
        ([], 0),
    ],
)
def test_dominant_lags(profile: list[float], lag: int) -> None:
    found = dominant_lag(torch.tensor(profile))
    assert (found, type(found)) == (lag, int)


@pytest.mark.parametrize(("length", "width"), [(1, 1), (5, 2), (9, 7), (512, 64), (512, 33)])
def test_positions_entry_by_entry(length: int, width: int) -> None:
    positions = sinusoidal_positions(length, width)
    assert positions.shape == (length, width)
    for t in (0, length // 2, length - 1):
        for column in range(width):
            angle = t / 10000 ** (2 * (column // 2) / width)
            assert positions[t, column].item() == pytest.approx(math.cos(angle) if column % 2 else math.sin(angle), abs=1e-6)


def test_positions_follow_the_default_dtype() -> None:
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        assert sinusoidal_positions(3, 4).dtype == torch.float64
    finally:
        torch.set_default_dtype(before)


def test_pairs_are_neighbours() -> None:
    inputs, targets = next_step_pairs(torch.tensor([[1, 2, 3], [7, 8, 9]]))
    assert (inputs.tolist(), targets.tolist()) == ([[1, 2], [7, 8]], [[2, 3], [8, 9]])


def test_a_forecast_knows_the_past_and_nothing_else() -> None:
    series = normal(1, 9).double().requires_grad_()
    forecasts, weights = model().double()(series)
    jacobian = torch.stack([torch.autograd.grad(each, series, retain_graph=True)[0][0] for each in forecasts[0]])
    assert torch.equal(jacobian, jacobian.tril())
    assert (jacobian.diagonal() != 0).all()
    assert torch.equal(weights, weights.tril())
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 9).double())


def test_a_model_moves_as_a_whole() -> None:
    for dtype in (torch.float64, torch.bfloat16):
        forecasts, weights = model().to(dtype)(normal(2, 5).to(dtype))
        assert forecasts.dtype == weights.dtype == dtype
    assert model().to("meta")(torch.empty(2, 5, device="meta"))[0].device.type == "meta"
    assert {name for name, _ in model().named_buffers()} == {"positions"}
    assert "positions" not in model().state_dict()


def test_every_parameter_has_a_gradient() -> None:
    made = model()
    (made(normal(3, 8))[0] * normal(3, 8, seed=1)).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in made.parameters())


def test_each_error_is_from_before_its_update() -> None:
    made, series = model(), sines(4, 12, 4)
    before = error(made, series)
    errors = train_forecaster(made, series, steps=2, learning_rate=0.01)
    after = error(made, series)
    assert errors[0] == pytest.approx(before)
    assert train_forecaster(made, series, 1, 0.01) == pytest.approx([after])
    assert train_forecaster(made, series, 0, 0.01) == []
    assert all(type(each) is float for each in errors)


def test_the_same_seed_gives_the_same_training() -> None:
    runs = [train_forecaster(model(seed=5), sines(4, 12, 4), 20, 0.01) for _ in range(2)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("period", [4, 7])
def test_it_learns_a_period(period: int) -> None:
    made = model()
    train_forecaster(made, sines(32, 24, period), steps=300, learning_rate=0.01)
    fresh = sines(64, 24, period, seed=1)
    repeating = float((fresh[:, 1:] - fresh[:, :-1])[:, period:].square().mean())
    assert error(made, fresh, first=period) < repeating / 5


def test_it_learns_nothing_of_noise() -> None:
    made = model()
    train_forecaster(made, normal(32, 24), steps=200, learning_rate=0.01)
    assert error(made, normal(256, 24, seed=1)) > 0.98


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: circle_embedding(0, 4), "length=0, period=4"),
        (lambda: circle_embedding(4, 0), "length=4, period=0"),
        (lambda: lag_profile(normal(2, 3, 4)), r"weights must be \(..., L, L\): got \(2, 3, 4\)"),
        (lambda: lag_profile(normal(3)), r"weights must be .*got \(3,\)"),
        (lambda: dominant_lag(normal(2, 3)), r"profile must be \(L,\): got \(2, 3\)"),
        (lambda: sinusoidal_positions(0, 4), "length=0, d_model=4"),
        (lambda: sinusoidal_positions(4, 0), "length=4, d_model=0"),
        (lambda: next_step_pairs(normal(4)), r"series must be .*got \(4,\)"),
        (lambda: next_step_pairs(normal(2, 1)), r"series must be .*got \(2, 1\)"),
        (lambda: AttentionForecaster(0, 4), "d_model=0, max_length=4"),
        (lambda: AttentionForecaster(4, 0), "d_model=4, max_length=0"),
        (lambda: model(longest=6)(normal(2, 7)), r"L at most 6: got \(2, 7\)"),
        (lambda: model()(normal(7)), r"series must be .*got \(7,\)"),
        (lambda: train_forecaster(model(), sines(2, 5, 4), -1, 0.1), "steps=-1"),
        (lambda: train_forecaster(model(), sines(2, 5, 4), 1, 0.0), r"learning_rate=0\.0"),
    ],
)
def test_what_cannot_be_right_is_refused(call: object, reason: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=reason):
        call()
