"""What the divisor does: largest weight and sensitivity over the width, with it and without, by the reference's statistics."""

from __future__ import annotations

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from solutions.attention.saturation import score_statistics

from .style import BLUE, VERMILION, figure, plot_frame

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
_KEYS, _SEED = 256, 0


def curves() -> dict[tuple[str, bool], list[float]]:
    """For each statistic, scaled or not, its value at each of WIDTHS, to two decimals: machines differ in the last digits."""
    generator = torch.Generator().manual_seed(_SEED)
    drawn = [torch.randn(2, _KEYS, width, generator=generator, dtype=torch.float64) for width in WIDTHS]
    return {
        (name, scaled): [round(getattr(score_statistics(Q, K, scaled=scaled), name), 2) for Q, K in drawn]
        for name in ("max_weight", "sensitivity")
        for scaled in (False, True)
    }


def draw() -> Figure:
    """Two panels over the width, one for each statistic."""
    made, (left, right) = figure(8, 3.2, columns=2)
    found = curves()
    _panel(left, "Largest weight of a row", found["max_weight", False], found["max_weight", True], ((58, 0.88), (40, 0.11)))
    _panel(
        right,
        "Sensitivity of a row, Σ p (1 − p)",
        found["sensitivity", False],
        found["sensitivity", True],
        ((150, 0.31), (50, 0.91)),
    )
    return made


def _panel(axes: Axes, title: str, unscaled: list[float], scaled: list[float], places: tuple[tuple[float, float], ...]) -> None:
    plot_frame(axes)
    axes.plot(WIDTHS, unscaled, "o-", color=VERMILION, markersize=4.5)
    axes.plot(WIDTHS, scaled, "s--", color=BLUE, markersize=4.5)
    (x, y), below = places
    axes.text(x, y, "without the divisor", color=VERMILION, ha="right" if y > 0.5 else "left", va="center")
    axes.text(*below, "divided by $\\sqrt{d_k}$", color=BLUE, va="center")
    axes.set_xscale("log", base=2)
    axes.set_xticks(WIDTHS[::2], [str(width) for width in WIDTHS[::2]])
    axes.set_xticks([], minor=True)
    axes.set(ylim=(0, 1.04), xlabel="width $d_k$", title=title)
