"""All the figures by name, and how they are written and compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from matplotlib.figure import Figure

from . import causal_matrix, cost, masks, paths, saturation
from .style import style, svg

FOLDER = Path(__file__).resolve().parents[2] / "assignment" / "figures"
MEASURED = "cost.json"

_DRAWN: Mapping[str, Callable[[], Figure]] = {
    "causal_matrix": causal_matrix.draw,
    "masks": masks.draw,
    "paths": paths.draw,
    "saturation": saturation.draw,
}


def texts(measured: Path = FOLDER / MEASURED) -> dict[str, str]:
    """Every figure's SVG by the name of its file."""
    with style():
        made = {f"{name}.svg": svg(draw()) for name, draw in _DRAWN.items()}
        return made | {"cost.svg": svg(cost.draw(measured))}


def measure(progress: Callable[[str], None], folder: Path = FOLDER) -> None:
    """Measure time and memory anew, and keep the measurement."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MEASURED).write_text(json.dumps(cost.measure(progress), indent=1) + "\n", encoding="utf-8")


def stale(folder: Path = FOLDER) -> list[str]:
    """The figures in the folder that are not what the code draws, by the names of their files."""
    kept = {path.name: path.read_text("utf-8") for path in folder.glob("*.svg")}
    drawn = texts(folder / MEASURED)
    return sorted(name for name in drawn.keys() | kept.keys() if drawn.get(name) != kept.get(name))


def write(folder: Path = FOLDER) -> list[Path]:
    """Draw all figures into the folder. The same code and measurement give the same bytes with the same matplotlib."""
    written = []
    for name, text in texts(folder / MEASURED).items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
        written.append(folder / name)
    return written
