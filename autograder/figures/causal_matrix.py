"""The causal attention matrix of the toy series, Code 12.1.4 of the chapter, computed by the reference."""

from __future__ import annotations

import matplotlib
from matplotlib.figure import Figure

from solutions.attention.forecasting import circle_embedding
from solutions.attention.scaled_dot_product import scaled_dot_product_attention

from .style import INK, figure

LENGTH, PERIOD = 8, 4


def matrix() -> list[list[float]]:
    """The weights of one causal head over the series, queries, keys and values alike, to two decimals as they are printed."""
    series = circle_embedding(LENGTH, PERIOD)
    _, weights = scaled_dot_product_attention(series, series, series, causal=True)
    return [[round(weight, 2) for weight in row] for row in weights.tolist()]


def draw() -> Figure:
    """A heat map with its numbers."""
    made, (axes,) = figure(5.4, 4.6)
    weights = matrix()
    shade = matplotlib.colormaps["Blues"]
    for query, row in enumerate(weights):
        for key, weight in enumerate(row):
            allowed = key <= query
            colour = shade(0.04 + 0.9 * weight) if allowed else "white"
            axes.add_patch(matplotlib.patches.Rectangle((key - 0.5, query - 0.5), 1, 1, facecolor=colour, edgecolor="white"))
            if allowed:
                tone = "white" if weight > 0.5 else INK
                axes.text(key, query, f"{weight:.2f}", ha="center", va="center", fontsize=9, color=tone)
    axes.text(5.1, 1.3, "the future:\nno weight", ha="center", va="center", fontsize=9, color=INK)
    axes.set(xlim=(-0.5, LENGTH - 0.5), ylim=(LENGTH - 0.5, -0.5), aspect="equal")
    axes.set(xlabel="key: the position that is looked at", ylabel="query: the position that looks")
    axes.set(xticks=range(LENGTH), yticks=range(LENGTH))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return made
