"""The four kinds of series of the exploration, each with its true period and the least error that a forecast can have."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

TRAINING, FRESH = 128, 256  # how many series of each kind to train on, and to measure on
NOISE = 0.2  # standard deviation of what is added to each value of a season of amplitude 1


@dataclass(frozen=True)
class Series:
    name: str
    period: int | None  # the true one, in steps; None: there is none
    floor: float  # mean squared error of a forecast that knows all but the noise, which nobody can know
    training: Tensor  # (TRAINING, L)
    fresh: Tensor  # (FRESH, L): drawn in the same way, never trained on


def four(length: int, seed: int, device: str) -> tuple[Series, ...]:
    """Period 4, period 7, trend plus season, white noise; the same numbers for the same seed, on whatever device."""
    draw = torch.Generator().manual_seed(seed)  # on the CPU, so that a GPU sees the same series

    def made(name: str, period: int | None, rise: float = 0.0) -> Series:
        floor = 1.0 if period is None else NOISE**2
        training, fresh = (_draw(number, length, period, rise, draw).to(device) for number in (TRAINING, FRESH))
        return Series(name, period, floor, training, fresh)

    return (made("period 4", 4), made("period 7", 7), made("trend plus season", 6, rise=2.0), made("white noise", None))


def rising(length: int) -> Tensor:
    """A trend plus a season of period 6, without noise, as an embedding of width 1: (length, 1)."""
    time = torch.arange(length)
    return (2 * time / length + torch.sin(2 * math.pi * time / 6))[:, None]


def noise(length: int, seed: int) -> Tensor:
    """White noise as an embedding of width 1: (length, 1)."""
    return torch.randn(length, 1, generator=torch.Generator().manual_seed(seed))


def _draw(number: int, length: int, period: int | None, rise: float, draw: torch.Generator) -> Tensor:
    """(number, length). Each series has a phase of its own, and rises by an amount of its own, of standard deviation `rise`."""
    phase = torch.rand(number, 1, generator=draw)  # in periods
    slope = torch.randn(number, 1, generator=draw)
    noise = torch.randn(number, length, generator=draw)
    if period is None:
        return noise
    time = torch.arange(length)
    season = torch.sin(2 * math.pi * (time / period + phase))
    return season + rise * slope * time / length + NOISE * noise
