"""Every way of ending a check becomes an outcome; what a check needs comes first; points are earned by passing alone."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from types import ModuleType
from typing import Any

import pytest

from checks import run
from checks.calls import Load, Reply, Request, Transport
from checks.errors import BadUsage, CheckFailed, StudentRaised, WorkerCrashed, WorkerTimedOut
from checks.records import Check, Outcome, Result, number
from checks.registry import check, collect, marked


class Silent:
    printed = "hello"

    def __init__(self, broken: Exception | None = None) -> None:
        self.broken = broken

    def perform(self, request: Request) -> Reply:
        if self.broken and isinstance(request, Load):
            raise self.broken
        return Reply()


def results(*functions: Any, broken: Exception | None = None) -> list[Result]:
    @contextlib.contextmanager
    def opener(part: str, seed: int, substitutes: Collection[str] = (), memory_mib: int | None = None) -> Iterator[Transport]:
        yield Silent(broken)

    checks = [record for function in functions if (record := marked(function))]
    return list(run.run(checks, opener, lambda check: 1))


def ending(error: BaseException | None) -> Result:
    @check(part="p", points=2)
    def test_it(student: object) -> None:
        """It holds."""
        if error is not None:
            raise error

    return results(test_it)[0]


@pytest.mark.parametrize(
    ("error", "outcome", "message"),
    [
        (None, Outcome.PASSED, ""),
        (CheckFailed("weights are wrong"), Outcome.FAILED, "weights are wrong"),
        (StudentRaised(("NotImplementedError", "Exception"), "part 1: f"), Outcome.NOT_STARTED, "This is not started yet."),
        (StudentRaised(("NotImplementedError", "Exception"), "no kernel"), Outcome.RAISED, "NotImplementedError: no kernel"),
        (StudentRaised(("KeyError",), "x", "attention/a.py:3"), Outcome.RAISED, "KeyError: x"),
        (WorkerTimedOut("took too long"), Outcome.TIMED_OUT, "took too long"),
        (WorkerCrashed("died"), Outcome.CRASHED, "died"),
    ],
)
def test_outcomes(error: Exception | None, outcome: Outcome, message: str) -> None:
    result = ending(error)
    assert (result.outcome, result.message) == (outcome, message)
    assert result.earned == (2 if error is None else 0)
    assert result.printed == "hello"


def test_the_graders_own_fault_is_never_a_failure() -> None:
    for error in (ValueError("oops"), AssertionError("oops")):
        result = ending(error)
        assert result.outcome is Outcome.GRADER_ERROR
        assert "oops" in result.message


def test_control_c_is_the_users() -> None:
    with pytest.raises(KeyboardInterrupt):
        ending(KeyboardInterrupt())


def chain(error: Exception | None) -> list[Result]:
    @check(part="p", points=1)
    def test_first(student: object) -> None:
        """First."""
        if error is not None:
            raise error

    @check(part="p", points=1, needs="test_first")
    def test_second(student: object) -> None:
        """Second."""

    @check(part="p", points=1, needs=("test_second",))
    def test_third(student: object) -> None:
        """Third."""

    return results(test_first, test_second, test_third)


def test_what_a_check_needs_comes_first() -> None:
    assert [each.outcome for each in chain(None)] == [Outcome.PASSED] * 3
    failed = chain(CheckFailed("no"))
    assert [each.outcome for each in failed] == [Outcome.FAILED, Outcome.SKIPPED, Outcome.SKIPPED]
    assert failed[2].message == "Skipped until this passes: Second."
    stub = chain(StudentRaised(("NotImplementedError",), "part 2: f"))
    assert [each.outcome for each in stub] == [Outcome.NOT_STARTED] * 3


@pytest.mark.parametrize(
    ("broken", "outcome"),
    [
        (StudentRaised(("SyntaxError",), "invalid syntax", "attention/p.py:3"), Outcome.RAISED),
        (WorkerTimedOut("for ever"), Outcome.TIMED_OUT),
        (StudentRaised(("ModuleNotFoundError",), "there is no file attention/p.py"), Outcome.NOT_STARTED),
    ],
)
def test_a_file_that_does_not_load_decides_all_its_checks(broken: Exception, outcome: Outcome) -> None:
    @check(part="p", points=1)
    def test_one(student: object) -> None:
        """One."""
        raise AssertionError("never run")

    @check(part="p", points=1)
    def test_two(student: object) -> None:
        """Two."""
        raise AssertionError("never run")

    assert [each.outcome for each in results(test_one, test_two, broken=broken)] == [outcome, outcome]


def module(*functions: Any) -> ModuleType:
    made = ModuleType("made")
    for function in functions:
        function.__module__ = "made"
        setattr(made, function.__name__, function)
    return made


def test_collection_refuses_what_would_be_lost_in_silence() -> None:
    @check(part="p", points=1)
    def test_a(student: object) -> None:
        """A."""

    @check(part="p", points=1, needs="test_nowhere")
    def test_b(student: object) -> None:
        """B."""

    found: list[Check] = collect([module(test_a)])
    assert [each.id for each in found] == ["p::test_a"]
    with pytest.raises(BadUsage, match="two checks are called p::test_a"):
        collect([module(test_a), module(test_a)])
    with pytest.raises(BadUsage, match="needs test_nowhere, which is not a check of p that comes before it"):
        collect([module(test_b)])
    with pytest.raises(BadUsage, match="needs a docstring"):
        check(part="p", points=1)(lambda student: None)
    with pytest.raises(BadUsage, match="is hidden and needs a hint"):
        check(part="p", points=1, hidden=True)(test_a)
    with pytest.raises(BadUsage, match="limits memory and must be hidden"):
        check(part="p", points=1, memory_mib=64)(test_a)


def test_numbers() -> None:
    assert [number(each) for each in (20, 7.5, 0.1 + 0.2, 0)] == ["20", "7.5", "0.3", "0"]


def test_bad_usage_is_not_an_outcome() -> None:
    assert ending(BadUsage("x")).outcome is Outcome.GRADER_ERROR
