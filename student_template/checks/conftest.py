"""Plain `pytest` runs the same checks: one fresh `student` each, a need that failed skips what builds on it."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from . import desk, parts, run
from .draw import Draw
from .errors import CheckFailed, StudentRaised
from .records import Check, Outcome
from .registry import marked
from .student import Student

_PASSED = pytest.StashKey[set[str]]()


@pytest.fixture
def student(request: pytest.FixtureRequest) -> Iterator[Student]:
    """The package in the folder that pytest was started in (or in $SUBMISSION)."""
    check = marked(request.function)
    assert check is not None, f"{request.function.__name__} is not marked with @check"
    missing = [need for need in check.needs if f"{check.part}::{need}" not in request.config.stash.get(_PASSED, set())]
    chosen = {record.id for item in request.session.items if (record := _check_of(item))}
    if waiting := [need for need in missing if f"{check.part}::{need}" in chosen]:
        pytest.skip(f"needs {waiting[0]}")
    seed = desk.desk_seed(check)
    with _opener()(check.part, seed) as transport:
        yield Student(transport, Draw(seed))


def _opener() -> run.Opener:
    root = Path(os.environ.get("SUBMISSION", Path(__file__).parent.parent))
    return desk.opener(root.resolve(), parts.read())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed check shows its message and nothing of the kit's insides."""
    report = yield
    check = _check_of(item)
    if check is None or report.when != "call":
        return report
    if report.failed and (note := _passes_with_right_parts(check)):
        report.outcome, report.longrepr = "passed", None
        report.sections.append((check.name, note))
    if report.passed:
        item.config.stash.setdefault(_PASSED, set()).add(check.id)
    elif call.excinfo is not None and isinstance(call.excinfo.value, CheckFailed | StudentRaised):
        report.longrepr = _told(check, call.excinfo.value)
    return report


def _passes_with_right_parts(check: Check) -> str:
    """What `run.run` says where the parts that this one may call are to blame; "" where they are not."""
    uses = parts.read().uses
    alone = run.run([replace(check, needs=())], _opener(), desk.desk_seed, uses=uses) if uses.get(check.part) else ()
    return next((result.note for result in alone if result.outcome is Outcome.PASSED), "")


def _told(check: Check, error: BaseException) -> str:
    ending = run.ending_of(error)
    return "\n".join([check.title, ending.message, *([f"Where: {ending.where}"] if ending.where else [])])


def _check_of(item: pytest.Item) -> Check | None:
    return marked(getattr(item, "function", None))
