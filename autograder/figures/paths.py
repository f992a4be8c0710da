"""Relayed path and direct access: Figure 12.1.1 of the chapter, in a drawing of this assignment's own."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import BLUE, INK, VERMILION, bare, figure

_POSITIONS = 6
_STATE = 1.0  # height of the row of states or outputs above the inputs


def draw() -> Figure:
    """Two panels: a recurrence, through which position 1 fades on its way to position 6, and attention."""
    made, (left, right) = figure(8, 2.7, columns=2)
    _recurrence(bare(left))
    _attention(bare(right))
    return made


def _recurrence(axes: Axes) -> None:
    axes.set_title("Recurrence: 5 steps from position 1 to position 6")
    for position in range(_POSITIONS):
        left = 1.0 * 0.6**position  # of what position 1 had to tell
        _arrow(axes, (position, 0), (position, _STATE), VERMILION if position == 0 else INK, 0.9 if position == 0 else 0.25)
        if position:
            _arrow(axes, (position - 1, _STATE), (position, _STATE), VERMILION, max(left / 0.6, 0.12), width=1 + 2.2 * left / 0.6)
        _node(axes, position, _STATE, VERMILION, left, "h")
    _inputs(axes)
    axes.annotate("fading", (_POSITIONS - 1, _STATE + 0.3), ha="center", color=VERMILION, fontsize=9)


def _attention(axes: Axes) -> None:
    axes.set_title("Self-attention: 1 step from any position to any other")
    for position in range(_POSITIONS):
        for other in range(_POSITIONS - 1):
            _arrow(axes, (position, 0), (other, _STATE), INK, 0.08)
    for position in range(_POSITIONS):
        _arrow(axes, (position, 0), (_POSITIONS - 1, _STATE), BLUE, 0.95, width=1.6)
        _node(axes, position, _STATE, BLUE, 1.0 if position == _POSITIONS - 1 else 0.25, "y")
    _inputs(axes)


def _inputs(axes: Axes) -> None:
    for position in range(_POSITIONS):
        _node(axes, position, 0, "white", 1.0, "x")
    axes.set_xlim(-0.5, _POSITIONS - 0.5)
    axes.set_ylim(-0.35, _STATE + 0.5)


def _node(axes: Axes, x: float, y: float, colour: str, strength: float, letter: str) -> None:
    axes.plot([x], [y], "o", markersize=23, markerfacecolor="white", markeredgecolor=INK, zorder=3)
    axes.plot([x], [y], "o", markersize=23, markerfacecolor=colour, markeredgecolor=INK, alpha=strength, zorder=4)
    dark = colour != "white" and strength > 0.5
    axes.text(x, y, f"${letter}_{int(x) + 1}$", ha="center", va="center", color="white" if dark else INK, zorder=5)


def _arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str, strength: float, width: float = 1.2
) -> None:
    line = {"arrowstyle": "-|>", "color": colour, "alpha": strength, "linewidth": width, "shrinkA": 13, "shrinkB": 13}
    axes.annotate("", end, start, arrowprops=line, zorder=1)
