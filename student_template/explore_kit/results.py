"""What is kept of a look at a model, and the table of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from .messages import Told
from .series import Series

_ROW = "{:<17}  {:>11}  {:>10}  {:>9}  {:>7}  {:>9}  {:>11}"


@dataclass(frozen=True)
class Content:
    """The attention of a series to itself, without any learnt weights."""

    name: str
    period: int | None  # the true one; None: there is none
    weights: Tensor  # (L, L)
    profile: Tensor  # (L,), mean weight at each lag
    peak: int  # the dominant lag; 0: there is none


@dataclass(frozen=True)
class Look:
    """A model's attention and its errors on fresh series (mean squared, and of the second half unless said otherwise)."""

    weights: Tensor  # (L, L), of one series
    profile: Tensor  # (K,), mean weight at lags below K, over all series
    peak: int  # the dominant lag; 0: there is none
    error: float
    error_everywhere: float  # over all positions, the first ones included, as training counts it
    repeating: float  # the error of repeating the last value


def answer_of(model: nn.Module, series: Tensor) -> tuple[Tensor, Tensor]:
    """The model's forecasts (B, L) and weights (B, L, L) of `series (B, L)`. Raises Told where they have other shapes."""
    answer = model(series)
    shapes = tuple(tuple(part.shape) for part in answer) if isinstance(answer, tuple) else type(answer).__name__
    expected = (tuple(series.shape), (*series.shape, series.shape[1]))
    if shapes != expected:
        raise Told(
            f"Your AttentionForecaster must answer series {expected[0]} with forecasts and weights {expected}, and it gave "
            f"{shapes}: run `make check PART=7` (or `python -m checks --part 7`)."
        )
    return answer[0], answer[1]


def table(kinds: Sequence[Series], before: Mapping[str, Look], after: Mapping[str, Look]) -> str:
    """One line for each kind of series."""
    lines = [
        "Dominant lags in steps; errors are mean squares on fresh series.",
        "",
        _ROW.format("", "", "lag before", "lag after", "", "repeating", ""),
        _ROW.format("series", "true period", "training", "training", "error", "the last", "noise floor"),
    ]
    for kind in kinds:
        first, last = before[kind.name], after[kind.name]
        lags = (kind.period or "none", first.peak or "none", last.peak or "none")
        lines.append(_ROW.format(kind.name, *lags, *(f"{error:.3f}" for error in (last.error, last.repeating, kind.floor))))
    return "\n".join(lines)
