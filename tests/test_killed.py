"""A grader that is killed leaves each results.json absent or whole, and no process behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autograder import batch, report
from autograder.intake import Candidate
from autograder.report import Report
from checks.records import Outcome, Result

from .support import MANIFEST, ROOT, SAMPLES, all_checks

KILLS = 50
NAMES = [f"student{number:02}" for number in range(6)]
RESULTS = [
    Result(check=each.name, title=each.title, part=each.part, points=each.points, hidden=each.hidden, outcome=Outcome.PASSED)
    for each in all_checks()
]


def slowly(candidate: Candidate) -> Report:
    """A report as large as any, after a moment."""
    time.sleep(0.01)
    return report.build(submission=candidate.name, parts=MANIFEST.built, results=RESULTS, digest="d", isolation="strict")


def grade_forever(out: Path) -> None:
    """A class graded again and again, in a process that will be killed."""
    slugs = [part.slug for part in MANIFEST.built]
    while True:
        with ThreadPoolExecutor(2) as executor:
            batch.grade_all(slowly, [Candidate(name, out / name) for name in NAMES], out, slugs, executor)


def whole(path: Path) -> bool:
    """A finished report, or one that says that the grader did not finish."""
    document = json.loads(path.read_text("utf-8"))
    finished = document["score"] == 110 and len(document["tests"]) == len(RESULTS)
    return finished or "did not finish" in document["output"]


def test_fifty_kills_leave_every_report_absent_or_whole(tmp_path: Path) -> None:
    moments = random.Random(0)
    seen = set()
    for kill in range(KILLS):
        out = tmp_path / str(kill)
        pid = os.fork()
        if pid == 0:
            try:
                grade_forever(out)
            finally:
                os._exit(1)
        time.sleep(moments.uniform(0.0, 0.15))
        os.kill(pid, signal.SIGKILL)
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
        for name in NAMES:
            path = out / name / "results.json"
            assert not path.exists() or whole(path)
            seen.add(path.exists() and json.loads(path.read_text("utf-8"))["score"])
        table = out / "grades.csv"
        assert not table.exists() or table.read_text("utf-8").count("\n") == len(NAMES) + 1
    assert {0.0, 110.0} <= seen, "some were killed before and some after a report was done"


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
@pytest.mark.parametrize("seconds", [2.5, 5.0])
def test_a_real_run_that_is_killed_leaves_no_process(tmp_path: Path, seconds: float) -> None:
    command = [sys.executable, "-m", "autograder", "grade", str(SAMPLES / "reference_equal"), str(SAMPLES / "half_done")]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'student_template'}"}
    process = subprocess.Popen([*command, "--out", str(tmp_path)], cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    below = descendants(process.pid)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while (left := [pid for pid in below if Path(f"/proc/{pid}").exists()]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left
    for path in tmp_path.glob("*/results.json"):
        json.loads(path.read_text("utf-8"))


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    return [each for child in map(int, children) for each in (child, *descendants(child))]
