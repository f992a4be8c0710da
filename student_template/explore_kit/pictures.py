"""The pictures: each function makes one figure, and `show` puts it into the notebook or into a file below explore/."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from torch import Tensor

from .messages import HERE, notebook
from .results import Content, Look
from .series import Series

# Okabe and Ito's colours, which stay apart for colour-blind eyes, and in grey.
_BLACK, _ORANGE, _BLUE, _GREEN = "#000000", "#E69F00", "#0072B2", "#009E73"
_FORBIDDEN = "#DDDDDD"
_KEY, _QUERY = "key: the position looked at", "query: the position that looks"
_SPREAD, _SHARP = 0.15, 0.5  # the brightest weights: the few larger ones, as of the first rows, would leave the rest in the dark
_DPI = 130


def show(figure: Figure, name: str) -> None:
    """Put the figure below a notebook's cell, or into `explore/<name>.png` and say so; no display is needed."""
    if notebook():
        from IPython.display import Image, display

        png = io.BytesIO()
        figure.savefig(png, dpi=_DPI)
        display(Image(png.getvalue(), alt=name))
        return
    file = HERE / "explore" / f"{name}.png"
    file.parent.mkdir(exist_ok=True)
    figure.savefig(file, dpi=_DPI)
    print(f"Picture: {file}")


def content_only(contents: Sequence[Content]) -> Figure:
    """Each matrix above its lag profile."""
    figure = Figure(figsize=(15, 7), layout="constrained")
    axes = figure.subplots(2, len(contents), squeeze=False, height_ratios=(2, 1))
    for content, above, below in zip(contents, axes[0], axes[1], strict=True):
        _heat_map(above, content.weights, content.name, _SPREAD)
        above.set_xlabel(_KEY)
        _mark_periods(below, content.period, len(content.profile))
        _profile(below, content.profile, content.peak, "content", _BLUE, "o")
        _finish_lags(below, "mean weight by lag")
        below.set_ylim(top=1.6 * below.get_ylim()[1])  # room for the legend
    axes[0, 0].set_ylabel(_QUERY)
    _colour_bar(figure, axes[0])
    figure.suptitle("Content alone: queries, keys and values are all the embedded series")
    return figure


def examples(kinds: Sequence[Series]) -> Figure:
    """One fresh series of each kind."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    for axis, kind in zip(figure.subplots(2, 2, sharex=True).flat, kinds, strict=True):
        axis.plot(kind.fresh[0].cpu(), ".-", color=_BLUE, linewidth=1)
        axis.set_title(kind.name)
        axis.set_ylabel("value")
        axis.grid(alpha=0.3)
    for axis in figure.axes[-2:]:
        axis.set_xlabel("time (steps)")
    figure.suptitle("One series of each kind, of those that no model is trained on")
    return figure


def before_and_after(kinds: Sequence[Series], before: Mapping[str, Look], after: Mapping[str, Look]) -> Figure:
    """The weights of one series, the untrained head's above the trained one's."""
    figure = Figure(figsize=(15, 8), layout="constrained")
    axes = figure.subplots(2, len(kinds), sharex=True, sharey=True)
    for column, kind in enumerate(kinds):
        _heat_map(axes[0, column], before[kind.name].weights, f"{kind.name}\nbefore training", _SPREAD)
        _heat_map(axes[1, column], after[kind.name].weights, "after training", _SHARP)
        axes[1, column].set_xlabel(_KEY)
    for row in axes:
        row[0].set_ylabel(_QUERY)
        _colour_bar(figure, row)
    figure.suptitle("The head's weights for one fresh series of each kind")
    return figure


def lags(kinds: Sequence[Series], before: Mapping[str, Look], after: Mapping[str, Look]) -> Figure:
    """The lag profiles before and after training, with their dominant lags."""
    figure = Figure(figsize=(12, 7.5), layout="constrained")
    for axis, kind in zip(figure.subplots(2, 2).flat, kinds, strict=True):
        _mark_periods(axis, kind.period, len(after[kind.name].profile))
        for looks, when, colour, marker in ((before, "before", _ORANGE, "s"), (after, "after", _BLUE, "o")):
            look = looks[kind.name]
            _profile(axis, look.profile, look.peak, f"{when} training", colour, marker)
        _finish_lags(axis, kind.name)
    figure.suptitle("How far back the head looks: mean weight by lag, over all fresh series")
    return figure


def errors(kinds: Sequence[Series], curves: Mapping[str, Sequence[float]], after: Mapping[str, Look]) -> Figure:
    """The error of each training step; and on fresh series those of the trained model and of the last value."""
    figure = Figure(figsize=(12, 7.5), layout="constrained")
    for axis, kind in zip(figure.subplots(2, 2, sharex=True).flat, kinds, strict=True):
        curve, last = curves[kind.name], after[kind.name]
        axis.plot(range(1, len(curve) + 1), curve, color=_BLUE, label="in training, all positions")
        axis.plot([len(curve)], [last.error_everywhere], "o", color=_BLUE, label="fresh series, all positions")
        axis.plot([len(curve)], [last.error], "D", color=_BLUE, markeredgecolor=_BLACK, label="fresh series, second half")
        axis.axhline(last.repeating, color=_ORANGE, linestyle="--", label="repeating the last value, second half")
        axis.axhline(kind.floor, color=_GREEN, linestyle=":", linewidth=2, label="noise floor")
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter(NullFormatter())
        axis.set_title(kind.name)
        axis.set_ylabel("mean squared error")
        axis.grid(alpha=0.3, which="both")
    for axis in figure.axes[-2:]:
        axis.set_xlabel("training step")
    figure.axes[0].legend()
    figure.suptitle("Errors of the forecasts, over all positions and over the second half")
    return figure


def _heat_map(axis: Axes, weights: Tensor, title: str, brightest: float) -> None:
    future = torch.ones_like(weights, dtype=torch.bool).triu(1)
    axis.set_facecolor(_FORBIDDEN)
    axis.imshow(weights.masked_fill(future, torch.nan), cmap="viridis", vmin=0, vmax=brightest, interpolation="nearest")
    axis.set_title(title)


def _colour_bar(figure: Figure, axes: Sequence[Axes]) -> None:
    """One for a row of heat maps of the same scale."""
    figure.colorbar(axes[0].images[0], ax=axes, label="attention weight\n(grey: the future)", extend="max")


def _mark_periods(axis: Axes, period: int | None, count: int) -> None:
    for lag in range(period, count, period) if period else ():
        first = lag == period
        style = {"linewidth": 2.0, "label": f"true period, {period}"} if first else {"linewidth": 1.0}
        axis.axvline(lag, color=_GREEN, linestyle="-" if first else ":", **style)


def _profile(axis: Axes, profile: Tensor, peak: int, label: str, colour: str, marker: str) -> None:
    axis.plot(profile, color=colour, marker=marker, markersize=4, linewidth=1, label=f"{label}; dominant lag {peak or 'none'}")
    if peak:
        axis.plot(
            [peak], [profile[peak]], marker, markersize=12, markerfacecolor="none", markeredgecolor=colour, markeredgewidth=2
        )


def _finish_lags(axis: Axes, title: str) -> None:
    axis.set_title(title)
    axis.set_xlabel("lag (steps back from the position that looks)")
    axis.set_ylabel("mean weight")
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.legend(loc="upper right")
