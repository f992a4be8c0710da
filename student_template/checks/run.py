"""Running checks: each on a transport of its own, in order, what it needs first; every way of ending becomes an outcome."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from .calls import Load, Transport
from .draw import Draw
from .errors import CheckFailed, StudentRaised, WorkerCrashed, WorkerTimedOut
from .records import NOT_STARTED, Check, Outcome, Result
from .student import Student


class Opener(Protocol):
    """Opens a fresh transport."""

    def __call__(self, part: str, seed: int, memory_mib: int | None = None, /) -> AbstractContextManager[Transport]:
        """For a part's slug, with a seed for what the student's code draws itself; a limit of memory other than the part's
        own is kept where memory is limited at all.
        """
        ...


_SAID_ABOVE = "The file of this part does not load: see the first check of the part."


@dataclass(frozen=True)
class Ending:
    """How a check, or the import of a part's file, ended."""

    outcome: Outcome
    message: str = ""
    raised: str = ""
    where: str = ""
    printed: str = ""
    seconds: float = 0.0


def run(
    checks: Sequence[Check],
    opener: Opener,
    seed: Callable[[Check], int],
    *,
    starting: Callable[[Check], None] = lambda check: None,
) -> Iterator[Result]:
    """Yield one result per check, in order. `seed` gives the seed of a check's inputs; `starting` hears what is about to run."""
    outcomes: dict[str, Outcome] = {}
    loads: dict[str, Ending] = {}
    titles = {check.id: check.title for check in checks}
    for check in checks:
        starting(check)
        if check.part not in loads:
            loads[check.part] = load(check.part, opener)
        ending = loads[check.part]
        if ending.outcome is not Outcome.PASSED:
            loads[check.part] = replace(ending, message=_SAID_ABOVE, printed="") if ending.message else ending
            check = replace(check, category="", hint="")  # it is not what the check is about that is wrong
        else:
            needs = [f"{check.part}::{need}" for need in check.needs]
            ending = _blocked(needs, outcomes, titles) or run_one(check, opener, seed(check))
        outcomes[check.id] = ending.outcome
        yield result(check, ending)


def load(part: str, opener: Opener) -> Ending:
    """Import the part's file alone: what a broken file costs is found out once, and is the same for all its checks."""
    ending = _ending(lambda transport: transport.perform(Load(part)), lambda: opener(part, 0))
    if ending.outcome in (Outcome.RAISED, Outcome.TIMED_OUT, Outcome.CRASHED):
        return replace(ending, message=f"The file of this part does not load: {ending.message}")
    return ending


def run_one(check: Check, opener: Opener, seed: int) -> Ending:
    """One check on one fresh transport."""
    return _ending(
        lambda transport: check.function(Student(transport, Draw(seed))), lambda: opener(check.part, seed, check.memory_mib)
    )


def result(check: Check, ending: Ending) -> Result:
    return Result(
        check=check.name,
        part=check.part,
        title=check.title,
        points=check.points,
        hidden=check.hidden,
        outcome=ending.outcome,
        message=ending.message,
        category=check.category,
        hint=check.hint,
        raised=ending.raised,
        where=ending.where,
        printed=ending.printed,
        seconds=ending.seconds,
    )


def _blocked(needs: Iterable[str], outcomes: dict[str, Outcome], titles: dict[str, str]) -> Ending | None:
    """What becomes of a check whose needs did not pass. A function that was not started leaves its checks not started."""
    for need in needs:
        if outcomes.get(need, Outcome.PASSED) is Outcome.NOT_STARTED:
            return Ending(Outcome.NOT_STARTED, NOT_STARTED)
        if outcomes.get(need, Outcome.PASSED) is not Outcome.PASSED:
            return Ending(Outcome.SKIPPED, f"Skipped until this passes: {titles[need]}")
    return None


def _ending(body: Callable[[Transport], object], open_transport: Callable[[], AbstractContextManager[Transport]]) -> Ending:
    started, transport, ending = time.perf_counter(), None, Ending(Outcome.PASSED)
    try:
        with open_transport() as transport:
            body(transport)
    except Exception as error:
        ending = ending_of(error)
    printed = transport.printed if transport is not None else ""
    return replace(ending, printed=printed, seconds=time.perf_counter() - started)


def ending_of(error: BaseException) -> Ending:
    """What an error that ended a check makes of it. One that no student's code can have caused is the grader's own."""
    match error:
        case CheckFailed():
            return Ending(Outcome.FAILED, str(error))
        case StudentRaised():
            outcome, message = _raised(error)
            return Ending(outcome, message, error.kinds[0], error.where)
        case WorkerTimedOut():
            return Ending(Outcome.TIMED_OUT, str(error))
        case WorkerCrashed():
            return Ending(Outcome.CRASHED, str(error))
        case _:
            return Ending(Outcome.GRADER_ERROR, "".join(traceback.format_exception(error)))


def _raised(error: StudentRaised) -> tuple[Outcome, str]:
    if error.not_started:
        return Outcome.NOT_STARTED, NOT_STARTED
    if error.kinds[0] == "ModuleNotFoundError" and error.message.startswith("there is no file"):
        return Outcome.NOT_STARTED, f"{error.message[0].upper()}{error.message[1:]}."
    return Outcome.RAISED, str(error)
