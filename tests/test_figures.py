"""The committed figures are what the code draws, and the code draws what is right."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from autograder.figures import causal_matrix, collection, saturation
from checks.errors import BadUsage

HANDOUT = collection.FOLDER.parent / "handout.md"


def test_committed_figures_are_what_the_code_draws() -> None:
    assert collection.stale() == [], "run `make figures`"


def test_a_figure_that_was_changed_or_is_left_over_is_noticed(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(collection.FOLDER, tmp_path / "figures"))
    masks = folder / "masks.svg"
    masks.write_text(masks.read_text("utf-8").replace("path", "Path", 1), "utf-8")
    (folder / "old.svg").write_text("<svg/>", "utf-8")
    (folder / "paths.svg").unlink()
    assert collection.stale(folder) == ["masks.svg", "old.svg", "paths.svg"]
    assert {path.name for path in collection.write(folder)} == {path.name for path in collection.FOLDER.glob("*.svg")}
    assert collection.stale(folder) == ["old.svg"]


def test_without_a_measurement_it_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="figures --measure"):
        collection.write(tmp_path)


def test_the_matrix_is_the_one_that_the_handout_prints() -> None:
    rows = [" ".join(f"{weight:.2f}" for weight in row) for row in causal_matrix.matrix()]
    assert "\n".join(rows) in HANDOUT.read_text("utf-8")


def test_the_curves_tell_what_the_text_says() -> None:
    curves = saturation.curves()
    assert (curves["sensitivity", False][0], curves["sensitivity", False][-1]) == pytest.approx((0.93, 0.10), abs=0.02)
    assert (curves["max_weight", False][0], curves["max_weight", False][-1]) == pytest.approx((0.17, 0.93), abs=0.02)
    for name in ("sensitivity", "max_weight"):
        assert max(curves[name, True]) - min(curves[name, True]) <= 0.02


def test_every_figure_is_in_the_handout_and_has_a_caption_and_a_description() -> None:
    text = HANDOUT.read_text("utf-8")
    shown = re.findall(r"!\[([^\]]{40,})\]\(figures/(\w+\.svg)\)\{#fig-\w+ (?:width=\d+% )?alt=\"([^\"]{40,})\"\}", text)
    assert sorted(name for _, name, _ in shown) == sorted(path.name for path in collection.FOLDER.glob("*.svg"))


def test_figures_need_nothing_from_elsewhere() -> None:
    for path in collection.FOLDER.glob("*.svg"):
        text = path.read_text("utf-8")
        assert not re.search(r'(href|src)="(?!#)', text)
        assert "<text" not in text, "a font of the reader's would change it"
