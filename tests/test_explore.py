"""The exploration as a student runs it, on a copy of the template: as a script and as a notebook, done or not done, or broken."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from explore_kit import series

from .support import ROOT

PICTURES = ("1-content-only", "2-series", "3-matrices", "4-lags", "5-errors")
FEW = "12"  # steps: enough to draw, too few to learn


def template(folder: Path) -> Path:
    """The template as it is handed out, in a folder with a space in its name."""
    ignore = shutil.ignore_patterns("__pycache__", ".venv", ".pytest_cache", "explore")
    return Path(shutil.copytree(ROOT / "student_template", folder / "my homework", ignore=ignore))


def solution(copy: Path) -> Path:
    shutil.copytree(ROOT / "solutions" / "attention", copy / "attention", dirs_exist_ok=True)
    return copy


@pytest.fixture
def stubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # of a notebook's kernel, whose numbers are compared with a script's
    return template(tmp_path)


@pytest.fixture
def solved(stubs: Path) -> Path:
    return solution(stubs)


def run(copy: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "DISPLAY", "MPLBACKEND")}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(copy / "explore.py"), *words]
    return subprocess.run(command, cwd=cwd or copy, env=environment, capture_output=True, text=True, timeout=300, check=False)


def edit(copy: Path, file: str, old: str, new: str) -> None:
    path = copy / file
    text = path.read_text("utf-8")
    assert old in text, f"{file} no longer holds {old!r}"
    path.write_text(text.replace(old, new, 1), "utf-8")


def refused(ran: subprocess.CompletedProcess[str]) -> str:
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    return ran.stderr


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """A run of the script on the reference, started in another folder."""
    copy = solution(template(tmp_path_factory.mktemp("script")))
    ran = run(copy, "--steps", FEW, cwd=copy.parent)
    for name in PICTURES:
        picture = copy / "explore" / f"{name}.png"
        assert picture.read_bytes().startswith(b"\x89PNG"), ran.stderr
        assert f"Picture: {picture}" in ran.stdout
    return ran


def test_the_script_draws_and_tells(script: subprocess.CompletedProcess[str]) -> None:
    assert (script.returncode, script.stderr) == (0, "")
    assert f"Running on the CPU: {FEW} training steps" in script.stdout
    assert script.stdout.count(": training, error on fresh series from ") == 4
    rows = re.findall(
        r"^(\S.*?) {2,}(\d|none) +(?:\d+|none) +(?:\d+|none) +[\d.]+ +[\d.]+ +([\d.]+)$", script.stdout, re.MULTILINE
    )
    assert rows == [
        ("period 4", "4", "0.040"),
        ("period 7", "7", "0.040"),
        ("trend plus season", "6", "0.040"),
        ("white noise", "none", "1.000"),
    ]


def executed(copy: Path) -> Any:
    """The notebook, run with few steps; raises CellExecutionError where a cell does."""
    notebook = nbformat.read(copy / "explore.ipynb", as_version=4)
    assert "steps=800" in notebook.cells[1].source
    notebook.cells[1].source = notebook.cells[1].source.replace("steps=800", f"steps={FEW}")
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(copy)}}).execute()
    return notebook


def test_the_notebook_shows_the_same_inline(solved: Path, script: subprocess.CompletedProcess[str]) -> None:
    outputs = [output for cell in executed(solved).cells for output in cell.get("outputs", ())]
    assert len([output for output in outputs if "image/png" in output.get("data", ())]) == len(PICTURES)
    assert not (solved / "explore").exists()
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    table = printed.split("Dominant lags")[1]
    assert table == script.stdout.split("Dominant lags")[1], "the same seed gives the same numbers"


def test_another_seed_gives_other_series() -> None:
    first, again, other = (series.four(9, seed, "cpu") for seed in (1, 1, 2))
    for one, same, different in zip(first, again, other, strict=True):
        assert torch.equal(one.training, same.training)
        assert torch.equal(one.fresh, same.fresh)
        assert not torch.equal(one.training, different.training)
        assert not torch.equal(one.training[:9], one.fresh[:9])


def test_the_untouched_template_says_where_to_begin(stubs: Path) -> None:
    told = refused(run(stubs))
    assert told.startswith("Part 7 is not done yet: write circle_embedding in attention/forecasting.py, run `make check PART=7`")
    assert len(told.splitlines()) == 1


def test_part_1_is_named_where_part_7_is_done(solved: Path) -> None:
    shutil.copy(ROOT / "student_template/attention/scaled_dot_product.py", solved / "attention")
    told = refused(run(solved))
    assert "Part 1 is not done yet: write scaled_dot_product_attention in attention/scaled_dot_product.py" in told
    assert "`make check PART=1`" in told


def test_a_notebook_on_stubs_says_so_in_a_sentence(stubs: Path) -> None:
    with pytest.raises(CellExecutionError) as caught:
        executed(stubs)
    assert "Part 7 is not done yet: write circle_embedding in attention/forecasting.py" in caught.value.traceback
    assert "run this notebook again from its first cell" in caught.value.traceback
    assert "NotImplementedError" not in caught.value.traceback


def test_an_error_of_the_students_is_told_with_file_and_line(solved: Path) -> None:
    wrong = "    weights.shape[7]"
    edit(solved, "attention/forecasting.py", "    L = weights.shape[-1]\n", f"    L = weights.shape[-1]\n{wrong}\n")
    line = (solved / "attention/forecasting.py").read_text("utf-8").splitlines().index(wrong) + 1
    told = refused(run(solved))
    assert f"Your own code stopped in attention/forecasting.py:{line}, in lag_profile." in told
    assert "IndexError: tuple index out of range" in told


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("attention/forecasting.py", "def lag_profile(", "def lag_profile(:", "attention/forecasting.py:"),
        ("attention/forecasting.py", "def lag_profile(", "def lags(", "Your package lacks something that was in it"),
        ("attention/forecasting.py", "[..., 0], weights", "[..., 0], weights[0]", "must answer series (256, 48) with forecasts"),
        ("attention/scaled_dot_product.py", "@ V, weights ", "@ V, weights, None ", "run them first"),
        ("explore.py", "import torch\n", "raise ModuleNotFoundError(name='matplotlib')\n", "-m pip install matplotlib"),
    ],
)
def test_what_else_can_be_amiss(solved: Path, file: str, old: str, new: str, told: str) -> None:
    edit(solved, file, old, new)
    assert told in refused(run(solved, "--steps", "1"))


def test_without_the_folders_it_says_what_to_put_there(solved: Path) -> None:
    shutil.rmtree(solved / "attention")
    assert "There is no folder attention/ in " in refused(run(solved))
    shutil.rmtree(solved / "explore_kit")
    assert refused(run(solved)).startswith("There is no folder explore_kit/ here")


@pytest.mark.parametrize(("words", "status"), [(["--steps", "0"], 1), (["--steps", "many"], 2), (["--learning-rate", "-1"], 1)])
def test_wrong_settings(stubs: Path, words: list[str], status: int) -> None:
    ran = run(stubs, *words)
    assert ran.returncode == status
    assert "Traceback" not in ran.stderr
