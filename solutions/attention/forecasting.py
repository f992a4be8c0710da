"""Part 7: seeing attention, and forecasting with it. Code 12.1.4 of the chapter, and its Exercise 12.1.3.

The first half is for looking: the toy series, and two readings of an attention matrix by lag, which is how far back a row
looks. The second half is a small model that forecasts the next value by one causal head. It is fine to call your own
`scaled_dot_product_attention` here, or to write the few lines again.
"""

from __future__ import annotations

import torch
from torch import nn

# BEGIN SOLUTION
from .scaled_dot_product import scaled_dot_product_attention

# END SOLUTION


def circle_embedding(length: int, period: float) -> torch.Tensor:
    """The toy series of Code 12.1.4: `(length, 2)`, whose row `t` is `sin(2 pi t / period), cos(2 pi t / period)`.

    Time runs round a circle once in a period, which need not be a whole number; the first row is `0, 1`.

    Raises `ValueError`, naming the argument, when the length or the period is not positive.
    """
    # BEGIN SOLUTION
    if length < 1 or period <= 0:
        raise ValueError(f"length and period must be positive: got length={length}, period={period}")
    angle = 2 * torch.pi * torch.arange(length) / period  # (L,)
    return torch.stack((angle.sin(), angle.cos()), dim=-1)  # (L, 2)
    # END SOLUTION


def lag_profile(weights: torch.Tensor) -> torch.Tensor:
    """How much attention goes how far back: `(..., L, L)` -> `(..., L)`, the mean weight at each lag.

    Entry `k` is the mean of `weights[..., i, i - k]` over the rows `i >= k`, the only ones that can look back so far:
    `L - k` of them. Lag 0 is the diagonal; what a row gives to later positions is not looked at.

    Raises `ValueError`, naming the shape it got, when the last two dimensions are not equal.
    """
    # BEGIN SOLUTION
    if weights.ndim < 2 or weights.shape[-1] != weights.shape[-2]:
        raise ValueError(f"weights must be (..., L, L): got {tuple(weights.shape)}")
    L = weights.shape[-1]
    row, lag = torch.meshgrid(*[torch.arange(L, device=weights.device)] * 2, indexing="ij")
    key = (row - lag).clamp(min=0)  # (L, L): where the weight of this row at this lag stands
    by_lag = weights.gather(-1, key.expand(weights.shape)).masked_fill(lag > row, 0)  # (..., L, L), rows by lags
    return by_lag.sum(-2) / (L - lag[0])  # (..., L)
    # END SOLUTION


def dominant_lag(profile: torch.Tensor) -> int:
    """The lag at which a profile `(L,)` peaks, as a plain `int`; 0 if there is none.

    It is the smallest lag `k >= 2` with `profile[k] == max(profile[2:])` and `profile[k] > profile[k - 1]`. Lags 0 and 1 are
    left out because a position always resembles itself and its neighbour, and the second condition because a profile that
    only decays has its maximum at lag 2 and no peak at all.

    Raises `ValueError`, naming the shape it got, when the profile is not `(L,)`.
    """
    # BEGIN SOLUTION
    if profile.ndim != 1:
        raise ValueError(f"profile must be (L,): got {tuple(profile.shape)}")
    if len(profile) < 3:
        return 0
    peaks = (profile[2:] == profile[2:].max()) & (profile[2:] > profile[1:-1])  # (L - 2,): entry 0 is lag 2
    return 2 + int(peaks.nonzero()[0]) if peaks.any() else 0
    # END SOLUTION


def sinusoidal_positions(length: int, d_model: int) -> torch.Tensor:
    """What is added to an embedding to tell positions apart: `(length, d_model)`, in torch's default dtype.

    Column `2i` of row `t` is `sin(t / 10000^(2i / d_model))` and column `2i + 1` is the cosine of the same angle, so that the
    first row is `0, 1, 0, 1, ...`. An odd width ends with a sine.

    Raises `ValueError`, naming the argument, when the length or the width is not positive.
    """
    # BEGIN SOLUTION
    if length < 1 or d_model < 1:
        raise ValueError(f"length and d_model must be positive: got length={length}, d_model={d_model}")
    column = torch.arange(d_model)
    frequency = 10000.0 ** -((column - column % 2).double() / d_model)  # (d_model,): the two of a pair share one
    angle = torch.arange(length)[:, None] * frequency  # (L, d_model)
    return torch.where(column % 2 == 0, angle.sin(), angle.cos()).to(torch.get_default_dtype())
    # END SOLUTION


def next_step_pairs(series: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What a forecaster is shown and what it has to say: `(B, L)` -> `(inputs (B, L - 1), targets (B, L - 1))`.

    `targets[:, t]` is the value that follows `inputs[:, t]`. The values themselves stay as they are: whatever were taken
    from a whole series, such as its mean, would tell an input about its future.

    Raises `ValueError`, naming the shape it got, when the series is not `(B, L)` with `L >= 2`.
    """
    # BEGIN SOLUTION
    if series.ndim != 2 or series.shape[1] < 2:
        raise ValueError(f"series must be (B, L) with L >= 2: got {tuple(series.shape)}")
    return series[:, :-1], series[:, 1:]
    # END SOLUTION


class AttentionForecaster(nn.Module):
    """Forecasts each next value of a series by one head of causal attention.

    An input projection lifts each value to width `d_model`, positions are added, a head with projections of its own for
    queries, keys and values looks back, and a read-out makes one number of what it found.
    """

    def __init__(self, d_model: int, max_length: int) -> None:
        """Make the model for series of up to `max_length` values; the names of its layers are yours to choose.

        Raises `ValueError`, naming the argument, when `d_model` or `max_length` is not positive.
        """
        super().__init__()
        # BEGIN SOLUTION
        if d_model < 1 or max_length < 1:
            raise ValueError(f"d_model and max_length must be positive: got d_model={d_model}, max_length={max_length}")
        self.embed = nn.Linear(1, d_model)
        self.positions: torch.Tensor  # a buffer moves with the module, to another device and dtype
        self.register_buffer("positions", sinusoidal_positions(max_length, d_model), persistent=False)
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, d_model, bias=False)
        self.W_v = nn.Linear(d_model, d_model, bias=False)
        self.read_out = nn.Linear(d_model, 1)
        # END SOLUTION

    def forward(self, series: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Forecast the next value at every position of `series (B, L)`, for any `L` up to `max_length`.

        Returns `(forecasts (B, L), weights (B, L, L))`, in the dtype and on the device of the series, which are the
        module's. `forecasts[:, t]` is of the value at `t + 1` and is made from the values at `0` to `t` alone; the weights are
        those of the head.

        Raises `ValueError`, naming the shape it got, when the series is not `(B, L)` or is longer than `max_length`.
        """
        # BEGIN SOLUTION
        max_length = self.positions.shape[0]
        if series.ndim != 2 or series.shape[1] > max_length:
            raise ValueError(f"series must be (B, L) with L at most {max_length}: got {tuple(series.shape)}")
        x = self.embed(series[..., None]) + self.positions[: series.shape[1]]  # (B, L, d_model)
        head, weights = scaled_dot_product_attention(self.W_q(x), self.W_k(x), self.W_v(x), causal=True)
        return self.read_out(head)[..., 0], weights  # (B, L), (B, L, L)
        # END SOLUTION


def train_forecaster(model: nn.Module, series: torch.Tensor, steps: int, learning_rate: float) -> list[float]:
    """Train the model, in place, to forecast each next value of `series (B, L)`; any optimiser of torch's will do.

    Every step takes all the pairs of `next_step_pairs` at once.

    Returns the mean squared error of each step, `steps` plain floats, each taken before the step's update: the first is the
    error of the model as it came.

    Raises `ValueError`, naming the argument, when `steps` is negative or `learning_rate` not positive.
    """
    # BEGIN SOLUTION
    if steps < 0 or learning_rate <= 0:
        raise ValueError(f"steps must not be negative, learning_rate positive: got {steps=}, {learning_rate=}")
    inputs, targets = next_step_pairs(series)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    errors = []
    for _ in range(steps):
        forecasts, _ = model(inputs)
        error = (forecasts - targets).square().mean()
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        errors.append(error.item())
    return errors
    # END SOLUTION
