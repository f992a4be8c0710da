"""What the figures have in common: colours that colour-blind readers tell apart, and bytes that do not change."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

# Okabe and Ito's colours; each is used with a line style, marker or hatching of its own as well.
BLUE, ORANGE, GREEN, VERMILION, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6B6B6B"
INK, FAINT = "#222222", "#DDDDDD"

_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "attention",  # ids in the file would be random without it
    "svg.fonttype": "path",  # no fonts needed where it is read
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.unicode_minus": True,
    "hatch.linewidth": 0.8,
    "mathtext.fontset": "dejavusans",
}


@contextmanager
def style() -> Iterator[None]:
    """Draw in the house style, whatever a user's own matplotlib is set to."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


def figure(width: float, height: float, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure of this size in inches, with one row of axes. Made without pyplot, and so without a display or global state."""
    made = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.08), facecolor="white")
    return made, [made.add_subplot(1, columns, number) for number in range(1, columns + 1)]


def bare(axes: Axes) -> Axes:
    """The axes without frame and ticks, for diagrams."""
    axes.set_axis_off()
    return axes


def plot_frame(axes: Axes) -> Axes:
    """The axes without the two sides of the frame that say nothing."""
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def svg(made: Figure) -> str:
    """The figure as SVG text, the same for the same figure."""
    buffer = io.StringIO()
    made.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
