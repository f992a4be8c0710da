"""The command line, run for real: the sample class, regrades, wrong calls, an interruption."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from autograder import secret
from autograder.manifest import Part
from checks.errors import BadUsage

from .support import MANIFEST, ROOT, SAMPLES, all_checks

SECRET = "a secret that only these tests use"
FULL = [part.points for part in MANIFEST.built]

# Score of parts 1, 2 and 3, and how their checks end besides passing; `*` stands for all of the part's checks. Each of the other
# parts is right where the sample has a file for it, and not started where it has none or the stub.
CLASS: dict[str, tuple[Any, ...]] = {
    "chapter_as_printed": (18, 0, 2, {"masking": {"not started": "*"}}),
    "endless_import": (20, 20, 0, {"multi_head": {"timed out": "*"}}),
    "endless_loop": (20, 1.5, 25, {"masking": {"timed out": 1, "skipped": None}}),
    "exits": (0, 20, 25, {"scaled_dot_product": {"crashed": None, "skipped": None}}),
    "half_done": (20, 1.5, 0, {"masking": {"not started": None}, "multi_head": {"not started": "*"}}),
    "latin1": (20, 0, 25, {"masking": {"raised": "*"}}),
    "memory_hog": (20, 1.5, 25, {"masking": {"crashed": None, "skipped": None}}),
    "mixed": (20, None, None, {"masking": {"failed": None, "skipped": None}, "multi_head": {"failed": None, "skipped": None}}),
    "reference_equal": (*FULL, {}),
    "segfault": (20, 20, 1, {"multi_head": {"crashed": None, "skipped": None, "failed": 0}}),
    "syntax_error": (20, 0, 25, {"masking": {"raised": "*"}}),
    "untouched_template": (*[0] * len(FULL), {part.slug: {"not started": "*"} for part in MANIFEST.built}),
    "zipped": (*FULL, {}),
}


def begun(name: str, part: Part) -> bool:
    folder = ROOT / "tests" / "zip_sample" / "alice_hw" if name == "zipped" else SAMPLES / name
    file, stub = folder / part.file, ROOT / "student_template" / part.file
    return file.is_file() and file.read_bytes() != stub.read_bytes()


def autograder(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autograder", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, **options)


@pytest.fixture(scope="module")
def secret_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("secret") / "secret"
    path.write_text(SECRET)
    return path


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory, secret_file: Path) -> Path:
    """The whole sample class, graded once."""
    out = tmp_path_factory.mktemp("class")
    run = autograder("grade", SAMPLES, "--out", out, "--secret-file", secret_file)
    assert run.returncode == 0, run.stderr
    assert "13 of 13 submissions graded" in run.stdout
    assert "Traceback" not in run.stdout + run.stderr
    return out


def results(out: Path, name: str) -> dict[str, Any]:
    return dict(json.loads((out / name / "results.json").read_text("utf-8")))


def outcomes(report: dict[str, Any], part: str) -> Counter[str]:
    return Counter(test["extra_data"]["outcome"] for test in report["tests"] if part in test["tags"])


@pytest.mark.parametrize("name", CLASS)
def test_each_sample_loses_what_it_should_and_no_more(graded: Path, name: str) -> None:
    *scores, ends = CLASS[name]
    for part in MANIFEST.built[len(scores) :]:
        scores.append(part.points if begun(name, part) else 0)
        ends = ends if begun(name, part) else {**ends, part.slug: {"not started": "*"}}
    report = results(graded, name)
    for part, score in zip(MANIFEST.built, scores, strict=False):
        earned = report["extra_data"]["parts"][part.slug]
        assert earned["max_score"] == part.points
        assert score is None or earned["score"] == score, part.slug
        found = outcomes(report, part.slug)
        if score == part.points:
            assert set(found) == {"passed"}
        for outcome, count in ends.get(part.slug, {}).items():
            assert found[outcome] == found.total() if count == "*" else found[outcome] >= (count or 0), (part.slug, found)
        if part.slug in ends:
            assert set(found) <= {"passed", *ends[part.slug]}, (part.slug, found)
    assert report["extra_data"]["provisional"] is False
    assert report["score"] == sum(test["score"] for test in report["tests"])


def test_the_table(graded: Path) -> None:
    rows = list(csv.DictReader((graded / "grades.csv").read_text("utf-8").splitlines()))
    slugs = [part.slug for part in MANIFEST.built]
    assert list(rows[0]) == ["submission", "score", "max_score", "extra_credit", *slugs, "outcome", "isolation", "digest"]
    assert [row["submission"] for row in rows] == sorted(CLASS)
    for row in rows:
        assert float(row["score"]) == results(graded, row["submission"])["score"]
        assert row["outcome"] == "graded"
        assert row["digest"] == results(graded, row["submission"])["extra_data"]["digest"]


def test_what_is_wrong_is_told_where_it_can_be_mended(graded: Path) -> None:
    def output(name: str, check: str) -> str:
        return str(next(test["output"] for test in results(graded, name)["tests"] if test["extra_data"]["check"] == check))

    assert "attention/masking.py is not UTF-8 text" in output("latin1", "test_causal_mask")
    assert "SyntaxError" in output("syntax_error", "test_causal_mask")
    assert "attention/masking.py:" in output("syntax_error", "test_causal_mask")
    assert "took more than 2 seconds of processor time" in output("endless_loop", "test_masked_returns_a_pair")
    assert "the code ended the process itself (exit status 0)" in output("exits", "test_returns_a_pair")
    assert "SIGSEGV" in output("segfault", "test_one_sequence")
    assert "needed more than 512 MiB of memory" in output("memory_hog", "test_masked_returns_a_pair")
    batch = output("chapter_as_printed", "test_batch")
    assert "with x (2, " in batch
    assert "raised ValueError: too many values to unpack" in batch
    assert "Where: attention/multi_head.py:" in batch
    assert "Look at: " in batch


def test_a_hidden_check_tells_no_input(graded: Path) -> None:
    for name in CLASS:
        for test in results(graded, name)["tests"]:
            if "hidden" in test["tags"]:
                assert not re.search(r"\[\d|came back|must be -?\d", test["output"])
                assert "Your code printed" not in test["output"]


def test_a_regrade_gives_the_same_bytes(graded: Path, tmp_path: Path, secret_file: Path) -> None:
    again = ["mixed", "half_done", "zipped.zip"]
    run = autograder("grade", *(SAMPLES / name for name in again), "--out", tmp_path, "--secret-file", secret_file, "--jobs", 1)
    assert run.returncode == 0, run.stderr
    before, after = ((out / "grades.csv").read_text("utf-8").splitlines() for out in (graded, tmp_path))
    assert set(after) < set(before)
    for name in ("mixed", "half_done", "zipped"):
        reports = [results(out, name) for out in (graded, tmp_path)]
        for report in reports:
            report.pop("execution_time")
        assert reports[0] == reports[1]


def test_reference_and_template(tmp_path: Path, secret_file: Path) -> None:
    run = autograder("grade", "solutions", "student_template", "--out", tmp_path / "x", "--secret-file", secret_file)
    assert run.returncode == 0, run.stderr
    full, nothing = results(tmp_path / "x", "solutions"), results(tmp_path / "x", "student_template")
    assert full["score"] == sum(part.points for part in MANIFEST.built)
    assert nothing["score"] == 0
    assert {test["extra_data"]["outcome"] for test in nothing["tests"]} == {"not started"}
    assert len(nothing["tests"]) == len(all_checks())


def test_a_submission_without_the_folder_gets_a_report_of_its_own(tmp_path: Path, secret_file: Path) -> None:
    shutil.copytree(ROOT / "solutions", tmp_path / "class" / "right")
    (tmp_path / "class" / "lost").mkdir()
    (tmp_path / "class" / "lost" / "masking.py").write_text("")
    run = autograder("grade", tmp_path / "class", "--out", tmp_path / "out", "--secret-file", secret_file)
    assert run.returncode == 0, run.stderr
    assert "holds no folder attention/" in results(tmp_path / "out", "lost")["output"]
    assert results(tmp_path / "out", "lost")["score"] == 0
    rows = list(csv.DictReader((tmp_path / "out" / "grades.csv").read_text("utf-8").splitlines()))
    most = str(sum(part.points for part in MANIFEST.built if not part.extra_credit))
    assert [(row["submission"], row["max_score"]) for row in rows] == [("lost", most), ("right", most)]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["grade", "/nonexistent"], "There is no file or folder /nonexistent"),
        (["grade", "EMPTY"], "EMPTY holds no folder attention/"),
        (["grade", "WITHOUT"], "WITHOUT holds no folder attention/."),
        (["grade", "TEXT"], "is neither a folder nor a zip file"),
        (["grade", "BROKEN"], "BROKEN.zip"),
        (["grade", "solutions", "--out", "TEXT"], "cannot be written"),
        (["grade", "solutions", "--secret-file", "EMPTY"], "The grading secret"),
        (["grade", "solutions", "--secret-file", "TEXT"], "is too short"),
        (["grade", "solutions", "--jobs", "0"], "--jobs"),
        (["grade"], "PATHS"),
        (["check", "solutions", "--part", "9"], "There is no part '9': choose one of 1 (scaled_dot_product)"),
        (["check", "/nonexistent"], "There is no folder attention/ in /nonexistent"),
        (["check", "EMPTY"], "There is no folder attention/"),
        (["check", "solutions", "--device", "cuda"], "no GPU"),
        (["nonsense"], "nonsense"),
    ],
)
def test_a_wrong_call_is_one_sentence_and_status_2(arguments: list[str], told: str, tmp_path: Path) -> None:
    (tmp_path / "EMPTY").mkdir()
    (tmp_path / "WITHOUT" / "alice").mkdir(parents=True)
    (tmp_path / "TEXT").write_text("text")
    (tmp_path / "BROKEN.zip").write_bytes(b"PK\x03\x04 and then nothing")
    named = {"EMPTY", "WITHOUT", "TEXT"}
    filled = [tmp_path / each if each in named else tmp_path / "BROKEN.zip" if each == "BROKEN" else each for each in arguments]
    if "--out" not in arguments and "grade" in arguments:
        filled += ["--out", tmp_path / "out"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    run = autograder(*filled, env=environment)
    assert run.returncode == 2, run.stderr
    assert told in run.stderr
    assert "Traceback" not in run.stderr
    assert run.stdout == ""


def test_control_c_leaves_whole_reports_and_no_process(tmp_path: Path, secret_file: Path) -> None:
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "autograder",
        "grade",
        SAMPLES / "endless_loop",
        SAMPLES / "endless_import",
    ]
    command += ["--out", tmp_path / "out", "--secret-file", secret_file, "--jobs", "1"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "out" / "endless_import").is_dir() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in told
    assert "Stopped" in told
    assert "the grader did not finish" in results(tmp_path / "out", "endless_loop")["output"]
    assert not (tmp_path / "out" / "grades.csv").exists()
    assert not [each for each in (tmp_path / "out").rglob("*") if each.name.endswith(".part")]


def test_seeds_differ_by_submission_check_and_secret() -> None:
    seeds = {secret.seed(key, digest, check) for key in (b"one", b"two") for digest in ("d1", "d2") for check in ("p::a", "p::b")}
    assert len(seeds) == 8
    assert all(0 <= seed < 2**56 for seed in seeds)


def test_the_secret_is_made_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret, "default_path", lambda: tmp_path / "secret")
    first = secret.load()
    assert secret.load() == first
    assert len(first) >= 32
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    with pytest.raises(BadUsage, match="cannot be used"):
        secret.load(tmp_path / "nowhere")
