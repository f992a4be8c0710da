"""What a student's code could carry out of a hidden check is held to what the grader knows; sleeping is not waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder import grading
from autograder.grading import Grader
from autograder.intake import Candidate
from autograder.report import Report
from autograder.sandbox.client import Sandbox
from checks.records import Outcome

from .support import MANIFEST, all_checks

PART_1 = [check for check in all_checks() if check.part == "scaled_dot_product"]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as opened:
        yield opened


def graded(sandbox: Sandbox, folder: Path, body: str) -> Report:
    text = f"import time\ndef scaled_dot_product_attention(Q, K, V, causal=False):\n{body}\n"
    (folder / "attention").mkdir()
    (folder / "attention" / "scaled_dot_product.py").write_text(text)
    return Grader(MANIFEST, PART_1, sandbox, b"secret").grade(Candidate("mallory", folder))


def test_names_of_classes_and_places_carry_nothing_out_of_a_hidden_check(sandbox: Sandbox, tmp_path: Path) -> None:
    body = """
    text = "def f_%d():\\n    raise kind" % int(abs(Q.flatten()[0]) * 1e6)
    kind = type("Leak%d" % int(abs(Q.flatten()[0]) * 1e6), (Exception,), {})
    space = {"kind": kind}
    exec(compile("\\n" * 4000 + text, "attention/scaled_dot_product.py", "exec"), space)
    [value for name, value in space.items() if name.startswith("f_")][0]()
"""
    for result in graded(sandbox, tmp_path, body).results:
        if result.hidden and result.outcome is Outcome.RAISED:
            assert result.raised == "an exception of your own"
            assert result.where == ""
    assert any(result.hidden and result.outcome is Outcome.RAISED for result in graded_again(sandbox, tmp_path).results)


def graded_again(sandbox: Sandbox, folder: Path) -> Report:
    return Grader(MANIFEST, PART_1, sandbox, b"secret").grade(Candidate("mallory", folder))


def test_an_honest_exception_is_told_with_its_line(sandbox: Sandbox, tmp_path: Path) -> None:
    results = graded(sandbox, tmp_path, "    return Q.nonsense").results
    told = {(result.raised, result.where) for result in results if result.hidden and result.outcome is Outcome.RAISED}
    assert told == {("AttributeError", "attention/scaled_dot_product.py:3")}


def test_code_that_sleeps_is_waited_for_a_few_times_only(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grading, "_PATIENCE", 1)
    started = time.monotonic()
    results = graded(sandbox, tmp_path, "    time.sleep(1000)").results
    timed_out = [result for result in results if result.outcome is Outcome.TIMED_OUT]
    seconds = MANIFEST.part("scaled_dot_product").limits.seconds
    assert "gave no answer within 10 seconds" in timed_out[0].message
    assert {result.message for result in timed_out[1:]} == {f"gave no answer within {seconds} seconds"}
    assert time.monotonic() - started > 10, "the first one had its full time"
