"""A class: every submission graded and its report written, several at a time; then the table."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, as_completed
from pathlib import Path

from checks.errors import BadUsage

from . import report
from .intake import Candidate
from .render.gradescope import results_json
from .render.table import grades_csv
from .report import Report

UNFINISHED = "the grader did not finish"


def grade_all(
    grade: Callable[[Candidate], Report],
    candidates: Sequence[Candidate],
    out: Path,
    parts: Sequence[str],
    executor: Executor,
    done: Callable[[Report], None] = lambda report: None,
) -> list[Report]:
    """Grade every candidate on the executor; write `out/<name>/results.json` as each is done, and `out/grades.csv` at the end.

    Until it is done, a submission's results.json says that the grader did not finish. Reports come back in the order of the
    candidates; `done` hears of each as it is done.
    """
    for candidate in candidates:
        unfinished = report.build(submission=candidate.name, parts=(), results=(), outcome=UNFINISHED)
        write(out / candidate.name / "results.json", results_json(unfinished))
    futures = {executor.submit(grade, candidate): candidate for candidate in candidates}
    reports: dict[str, Report] = {}
    try:
        for future in as_completed(futures):
            one = future.result()
            write(out / one.submission / "results.json", results_json(one))
            reports[one.submission] = one
            done(one)
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        raise
    ordered = [reports[candidate.name] for candidate in candidates]
    write(out / "grades.csv", grades_csv(ordered, parts))
    return ordered


def write(path: Path, text: str) -> None:
    """Write the file whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise BadUsage(f"{path} cannot be written ({error.strerror}): choose another folder with --out.") from error
