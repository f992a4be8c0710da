"""Measured time and memory of one layer of attention and of a recurrence, over the length of the sequence.

A measurement is different each time, so it is kept, in `cost.json`, and the figure is drawn from what was kept.
"""

from __future__ import annotations

import datetime
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from checks.errors import BadUsage

from .style import BLUE, GREY, VERMILION, figure, plot_frame

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
_WIDTH, _RUNS = 64, 15
_LABELS = {"attention": ("attention", "o-", BLUE), "recurrence": ("recurrence", "s--", VERMILION)}


def measure(progress: Callable[[str], None]) -> dict[str, Any]:
    """Time (median of some runs, seconds) and memory (largest sum of bytes allocated at once during a call) at each length.

    Both layers are of width 64 and read one sequence, forward only: attention is its two products and the softmax between
    them, with the weights stored; the recurrence is `nn.RNN`. Projections are in neither but for the one inside `nn.RNN`.
    """
    torch.manual_seed(0)
    torch.set_num_threads(1)  # a machine that is shared by others delays what has to wait for its threads
    recurrence = nn.RNN(_WIDTH, _WIDTH, batch_first=True)
    layers: dict[str, Callable[[Tensor], object]] = {"attention": _attention, "recurrence": recurrence}
    found: dict[str, Any] = {"lengths": list(LENGTHS), "seconds": {}, "bytes": {}}
    with torch.no_grad():
        for name, layer in layers.items():
            found["seconds"][name], found["bytes"][name] = [], []
            for length in LENGTHS:
                x = torch.randn(1, length, _WIDTH)
                found["bytes"][name].append(_peak(layer, x))
                found["seconds"][name].append(float(f"{_seconds(layer, x):.3g}"))
                progress(f"{name}, length {length}: {found['seconds'][name][-1]} s, {found['bytes'][name][-1]:,} bytes")
    processor = platform.processor() or platform.machine()
    found["machine"] = f"{processor}, one thread, torch {torch.__version__.split('+')[0]}"
    found["date"] = datetime.date.today().isoformat()
    return found


def _attention(x: Tensor) -> Tensor:
    return torch.softmax(x @ x.transpose(-2, -1) / _WIDTH**0.5, dim=-1) @ x


def _seconds(layer: Callable[[Tensor], object], x: Tensor) -> float:
    taken = []
    for _ in range(_RUNS):
        started = time.perf_counter()
        layer(x)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def _peak(layer: Callable[[Tensor], object], x: Tensor) -> int:
    """What is allocated and freed, in order, summed up: the most that there was at once."""
    layer(x)  # buffers that are made once and kept are no part of a call
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        layer(x)
    events = (event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]")
    now = most = 0
    for event in sorted(events, key=lambda each: each.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def draw(data: Path) -> Figure:
    """Two log-log panels, time and memory."""
    try:
        found = json.loads(data.read_text("utf-8"))
    except FileNotFoundError:
        raise BadUsage(f"There is no measurement {data}: run `python -m autograder figures --measure`.") from None
    made, (left, right) = figure(8, 3.5, columns=2)
    _panel(
        left, found["lengths"], {name: [1e3 * s for s in each] for name, each in found["seconds"].items()}, "Time, milliseconds"
    )
    mebibytes = {name: [count / 2**20 for count in each] for name, each in found["bytes"].items()}
    _panel(right, found["lengths"], mebibytes, "Memory, MiB")
    made.supxlabel(f"length of the sequence $L$    (width {_WIDTH}, one sequence, forward; {found['machine']})", fontsize=8.5)
    return made


def _panel(axes: Axes, lengths: list[int], values: dict[str, list[float]], title: str) -> None:
    plot_frame(axes)
    for name, (label, line, colour) in _LABELS.items():
        axes.plot(lengths, values[name], line, color=colour, markersize=4.5)
        axes.annotate(label, (lengths[-1], values[name][-1]), (6, 0), textcoords="offset points", color=colour, va="center")
    last = values["attention"][-1]
    axes.plot([1024, 8192], [last / 64 / 3, last / 3], ":", color=GREY)
    axes.text(3200, last / 64 / 3 * 3.0, "slope of $L^2$", color=GREY, fontsize=9)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths[::2], [str(length) for length in lengths[::2]])
    axes.set_xticks([], minor=True)
    axes.set(title=title, xlim=(lengths[0] / 1.2, lengths[-1] * 4.5))
