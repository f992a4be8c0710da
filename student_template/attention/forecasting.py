"""Part 7: seeing attention, and forecasting with it. Code 12.1.4 of the chapter, and its Exercise 12.1.3.

The first half is for looking: the toy series, and two readings of an attention matrix by lag, which is how far back a row
looks. The second half is a small model that forecasts the next value by one causal head. It is fine to call your own
`scaled_dot_product_attention` here, or to write the few lines again.
"""

from __future__ import annotations

import torch
from torch import nn


def circle_embedding(length: int, period: float) -> torch.Tensor:
    """The toy series of Code 12.1.4: `(length, 2)`, whose row `t` is `sin(2 pi t / period), cos(2 pi t / period)`.

    Time runs round a circle once in a period, which need not be a whole number; the first row is `0, 1`.

    Raises `ValueError`, naming the argument, when the length or the period is not positive.
    """
    raise NotImplementedError("part 7: circle_embedding")


def lag_profile(weights: torch.Tensor) -> torch.Tensor:
    """How much attention goes how far back: `(..., L, L)` -> `(..., L)`, the mean weight at each lag.

    Entry `k` is the mean of `weights[..., i, i - k]` over the rows `i >= k`, the only ones that can look back so far:
    `L - k` of them. Lag 0 is the diagonal; what a row gives to later positions is not looked at.

    Raises `ValueError`, naming the shape it got, when the last two dimensions are not equal.
    """
    raise NotImplementedError("part 7: lag_profile")


def dominant_lag(profile: torch.Tensor) -> int:
    """The lag at which a profile `(L,)` peaks, as a plain `int`; 0 if there is none.

    It is the smallest lag `k >= 2` with `profile[k] == max(profile[2:])` and `profile[k] > profile[k - 1]`. Lags 0 and 1 are
    left out because a position always resembles itself and its neighbour, and the second condition because a profile that
    only decays has its maximum at lag 2 and no peak at all.

    Raises `ValueError`, naming the shape it got, when the profile is not `(L,)`.
    """
    raise NotImplementedError("part 7: dominant_lag")


def sinusoidal_positions(length: int, d_model: int) -> torch.Tensor:
    """What is added to an embedding to tell positions apart: `(length, d_model)`, in torch's default dtype.

    Column `2i` of row `t` is `sin(t / 10000^(2i / d_model))` and column `2i + 1` is the cosine of the same angle, so that the
    first row is `0, 1, 0, 1, ...`. An odd width ends with a sine.

    Raises `ValueError`, naming the argument, when the length or the width is not positive.
    """
    raise NotImplementedError("part 7: sinusoidal_positions")


def next_step_pairs(series: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What a forecaster is shown and what it has to say: `(B, L)` -> `(inputs (B, L - 1), targets (B, L - 1))`.

    `targets[:, t]` is the value that follows `inputs[:, t]`. The values themselves stay as they are: whatever were taken
    from a whole series, such as its mean, would tell an input about its future.

    Raises `ValueError`, naming the shape it got, when the series is not `(B, L)` with `L >= 2`.
    """
    raise NotImplementedError("part 7: next_step_pairs")


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
        raise NotImplementedError("part 7: AttentionForecaster.__init__")

    def forward(self, series: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Forecast the next value at every position of `series (B, L)`, for any `L` up to `max_length`.

        Returns `(forecasts (B, L), weights (B, L, L))`, in the dtype and on the device of the series, which are the
        module's. `forecasts[:, t]` is of the value at `t + 1` and is made from the values at `0` to `t` alone; the weights are
        those of the head.

        Raises `ValueError`, naming the shape it got, when the series is not `(B, L)` or is longer than `max_length`.
        """
        raise NotImplementedError("part 7: AttentionForecaster.forward")


def train_forecaster(model: nn.Module, series: torch.Tensor, steps: int, learning_rate: float) -> list[float]:
    """Train the model, in place, to forecast each next value of `series (B, L)`; any optimiser of torch's will do.

    Every step takes all the pairs of `next_step_pairs` at once.

    Returns the mean squared error of each step, `steps` plain floats, each taken before the step's update: the first is the
    error of the model as it came.

    Raises `ValueError`, naming the argument, when `steps` is negative or `learning_rate` not positive.
    """
    raise NotImplementedError("part 7: train_forecaster")
