"""A report as Gradescope's `results.json`: one entry per check, which students read.

A hidden check's entry tells its title, how it ended, what kind of property it is about, and a hint. Its message, its inputs
and what the code printed are never in it: a student's code sees the hidden inputs, and whatever it prints or raises may
carry them. Of an exception only the class and the line are told, which `grading` has held to what it knows of both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from autograder.report import GRADED, Report
from checks import written
from checks.records import NOT_STARTED, Outcome, Result, number

from .text import clean, clean_line

# What an outcome means, in words that tell nothing of a check's inputs.
_MEANING = {
    Outcome.PASSED: "Passed.",
    Outcome.FAILED: "Failed: your code answered, and the answer is wrong.",
    Outcome.NOT_STARTED: NOT_STARTED,
    Outcome.RAISED: "Your code raised an exception.",
    Outcome.TIMED_OUT: "Timed out: your code did not answer within this part's time limit.",
    Outcome.CRASHED: "Crashed: the process that ran your code ended before it answered (an exit, a crash, or too much memory).",
    Outcome.SKIPPED: "Skipped: a check that this one stands on did not pass.",
    Outcome.GRADER_ERROR: "The grader itself failed here. This is no fault of yours: your instructor has to grade it again.",
}
# The outcomes whose message says all that the words above do, and those that a hint can help with.
_SAID_BY_MESSAGE = (Outcome.FAILED, Outcome.SKIPPED, Outcome.NOT_STARTED)
_ABOUT_THE_ANSWER = (Outcome.FAILED, Outcome.RAISED)


def results_json(report: Report) -> str:
    """The file's text. Apart from `execution_time` it is the same for the same submission."""
    document = {
        "score": report.score,
        "execution_time": round(report.execution_time, 1),
        "output": _summary(report),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [_entry(number_, result) for number_, result in _numbered(report)],
        "extra_data": {
            "parts": {part.slug: {"score": part.score, "max_score": part.max_score} for part in report.parts},
            "mistakes": [{"check": result.check, "mistake": result.mistake} for result in report.results if result.mistake],
            "isolation": report.isolation,
            "digest": report.digest,
            "device": report.device,
            "provisional": report.provisional,
            "written": {f"question {answer.number}": answer.standing for answer in report.written},
        },
    }
    return json.dumps(document, indent=2) + "\n"


def _numbered(report: Report) -> Iterator[tuple[str, Result]]:
    """Each result with its number: 2.3 is the third check of part 2."""
    for part in report.parts:
        for index, result in enumerate((result for result in report.results if result.part == part.slug), start=1):
            yield f"{part.number}.{index}", result


def _summary(report: Report) -> str:
    """The text above the entries: the score, each part's, what is provisional, and the notes."""
    lines = []
    if report.outcome != GRADED:
        lines += [f"Not graded: {clean(report.outcome)}"]
    if report.provisional:
        failed = sum(result.outcome is Outcome.GRADER_ERROR for result in report.results)
        lines += [f"This grade is provisional: the grader itself failed on {failed} of {len(report.results)} checks."]
        lines += ["That is no fault of yours, and your score may still rise."]
    if report.parts:
        lines += [f"Score: {number(report.score)} of {number(report.max_score)}"]
    for part in report.parts:
        extra = ", extra credit" if part.extra_credit else ""
        lines += [f"Part {part.number}, {part.title}{extra}: {number(part.score)} of {number(part.max_score)}"]
    for kind, hidden in (("public", False), ("hidden", True)):
        of_kind = [result for result in report.results if result.hidden is hidden]
        if of_kind:
            passed = sum(result.outcome is Outcome.PASSED for result in of_kind)
            lines += [f"{passed} of {len(of_kind)} {kind} checks passed"]
    if report.written:
        lines += [f"{written.summary(report.written)} A person reads the answers; they are no part of this score."]
    return "\n".join([*lines, *(clean(note) for note in (*report.notes, *report.problems))])


def _entry(number_: str, result: Result) -> dict[str, Any]:
    return {
        "name": f"{number_} {result.title}",
        "number": number_,
        "score": float(result.earned),
        "max_score": float(result.points),
        "status": "passed" if result.outcome is Outcome.PASSED else "failed",
        "output": "\n".join(_hidden_output(result) if result.hidden else _public_output(result)),
        "output_format": "text",
        "visibility": "visible",
        "tags": [result.part, "hidden" if result.hidden else "public"],
        "extra_data": {"check": result.check, "outcome": result.outcome.value, "mistake": result.mistake},
    }


def _hidden_output(result: Result) -> Iterator[str]:
    yield _MEANING[result.outcome]
    if result.note:
        yield clean_line(result.note)
    if result.outcome is Outcome.RAISED:
        if result.raised:
            yield f"Exception: {clean_line(result.raised)}"
        if result.where:
            yield f"Where: {clean_line(result.where)}"
    if result.outcome in _ABOUT_THE_ANSWER:
        if result.category:
            yield f"About: {result.category}"
        if result.hint:
            yield f"Look at: {result.hint}"


def _public_output(result: Result) -> Iterator[str]:
    """All there is to know, but for a grader error: its message is the grader's own traceback, which helps no student."""
    message = "" if result.outcome is Outcome.GRADER_ERROR else clean(result.message)
    if not (message and result.outcome in _SAID_BY_MESSAGE):
        yield _MEANING[result.outcome]
    if result.note:
        yield clean_line(result.note)
    if message:
        yield message
    if result.where:
        yield f"Where: {clean_line(result.where)}"
    if result.hint and result.outcome in _ABOUT_THE_ANSWER and "Look at:" not in message:
        yield f"Look at: {result.hint}"
    if result.printed.strip():
        yield f"Your code printed:\n{clean(result.printed)}"
