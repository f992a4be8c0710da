"""Padding and causal masks together, for a sequence that is padded on the left."""

from __future__ import annotations

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from solutions.attention.masking import causal_mask

from .style import INK, ORANGE, VERMILION, bare, figure

_LENGTH = 6
_PADDED = 2  # keys 0 and 1

_VISIBLE, _PADDING, _FUTURE = ("#BFE3F2", ""), (ORANGE, "///"), ("#9A9A9A", "...")  # colour, and a pattern for print in grey


def draw() -> Figure:
    """Three grids of queries by keys: the padding, the future, and both."""
    made, panels = figure(8, 3.3, columns=3)
    padding = torch.zeros(_LENGTH, dtype=torch.bool)
    padding[:_PADDED] = True
    none, future = torch.zeros(_LENGTH, _LENGTH, dtype=torch.bool), causal_mask(_LENGTH)
    _grid(panels[0], "Key padding: one row, $(B, L_k)$", padding, none)
    _grid(panels[1], "Causal: a matrix, $(L_q, L_k)$", torch.zeros_like(padding), future)
    _grid(panels[2], "Both together", padding, future)
    handles = [
        matplotlib.patches.Patch(facecolor=colour, hatch=hatch, edgecolor=INK, label=name)
        for (colour, hatch), name in ((_VISIBLE, "seen"), (_PADDING, "padding"), (_FUTURE, "future"))
    ]
    handles.append(matplotlib.patches.Patch(facecolor="none", edgecolor=VERMILION, linewidth=2, label="a query that sees no key"))
    made.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, handlelength=1.6)
    return made


def _grid(axes: Axes, title: str, padding: torch.Tensor, future: torch.Tensor) -> None:
    bare(axes)
    for query in range(_LENGTH):
        for key in range(_LENGTH):
            kind = _PADDING if padding[key] else _FUTURE if future[query, key] else _VISIBLE
            cell = matplotlib.patches.Rectangle((key, query), 1, 1, facecolor=kind[0], hatch=kind[1], edgecolor="white")
            axes.add_patch(cell)
        if bool((future[query] | padding).all()):
            row = matplotlib.patches.Rectangle(
                (0.03, query + 0.05), _LENGTH - 0.06, 0.9, fill=False, edgecolor=VERMILION, linewidth=2
            )
            axes.add_patch(row)
        axes.text(-0.25, query + 0.5, str(query), ha="right", va="center", fontsize=9)
        axes.text(query + 0.5, _LENGTH + 0.2, str(query), ha="center", va="top", fontsize=9)
    axes.text(_LENGTH / 2, _LENGTH + 0.85, "key", ha="center", va="top")
    axes.text(-0.85, _LENGTH / 2, "query", ha="right", va="center", rotation=90)
    axes.set(xlim=(-1.3, _LENGTH + 0.1), ylim=(_LENGTH + 1.5, -0.1), aspect="equal")
    axes.set_title(title, pad=8)
