"""Running checks: each on a transport of its own, in order, what it needs first; every way of ending becomes an outcome."""

from __future__ import annotations

import functools
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from .calls import Load, Transport
from .draw import Draw
from .errors import CheckFailed, StudentRaised, WorkerCrashed, WorkerTimedOut, is_stub
from .records import NOT_STARTED, Check, Outcome, Result
from .student import Student

_SAID_ABOVE = "The file of this part does not load: see the first check of the part."
_NOT_ITS_OWN = (Outcome.FAILED, Outcome.NOT_STARTED, Outcome.RAISED, Outcome.TIMED_OUT, Outcome.CRASHED)


class Opener(Protocol):
    """Opens a fresh transport for a part's slug, with a seed for what the student's code draws itself, and with the files of
    some other parts exchanged for right ones. A limit of memory other than the part's own is kept where memory is limited.
    """

    def __call__(
        self, part: str, seed: int, substitutes: Collection[str] = (), memory_mib: int | None = None, /
    ) -> AbstractContextManager[Transport]: ...


@dataclass(frozen=True)
class Ending:
    """How a check, or the import of a part's file, ended."""

    outcome: Outcome
    message: str = ""
    note: str = ""
    raised: str = ""
    where: str = ""
    printed: str = ""
    seconds: float = 0.0
    loaded: bool = True  # whether it came as far as the check itself


def run(
    checks: Sequence[Check],
    opener: Opener,
    seed: Callable[[Check], int],
    *,
    uses: Mapping[str, Sequence[str]] | None = None,
    starting: Callable[[Check], None] = lambda check: None,
) -> Iterator[Result]:
    """Yield one result per check, in order. `seed` gives the seed of a check's inputs; `starting` hears what is about to run.

    `uses` says of a part which others it may call, all of which come before it. Where a check does not pass and one of those
    did not pass all of its own checks, or was not checked at all, it is run once more with a right one in its place: each
    part is graded alone.
    """
    results: dict[str, list[Result]] = {}
    loads: dict[tuple[str, tuple[str, ...]], Ending] = {}
    for check in checks:
        starting(check)
        of_part = results.setdefault(check.part, [])
        attempt = functools.partial(_attempt, check, opener, seed(check), of_part, loads)
        ending = attempt(())
        if ending.outcome in _NOT_ITS_OWN and (suspects := _suspects(check.part, uses or {}, results)):
            ending = _second_opinion(ending, attempt(suspects), suspects)
        of_part.append(result(check, ending))
        yield of_part[-1]


def load(part: str, opener: Opener, substitutes: Collection[str] = ()) -> Ending:
    """Import the part's file alone: what a broken file costs is found out once, and is the same for all its checks."""
    ending = _ending(lambda transport: transport.perform(Load(part)), lambda: opener(part, 0, substitutes))
    if ending.outcome in (Outcome.RAISED, Outcome.TIMED_OUT, Outcome.CRASHED):
        ending = replace(ending, message=f"The file of this part does not load: {ending.message}")
    return replace(ending, loaded=ending.outcome is Outcome.PASSED)


def run_one(check: Check, opener: Opener, seed: int, substitutes: Collection[str] = ()) -> Ending:
    """One check on one fresh transport."""
    return _ending(
        lambda transport: check.function(Student(transport, Draw(seed))),
        lambda: opener(check.part, seed, substitutes, check.memory_mib),
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
        note=ending.note,
        category=check.category if ending.loaded else "",  # otherwise it is not what the check is about that is wrong
        hint=check.hint if ending.loaded else "",
        raised=ending.raised,
        where=ending.where,
        printed=ending.printed,
        seconds=ending.seconds,
    )


def _attempt(
    check: Check,
    opener: Opener,
    seed: int,
    before: Sequence[Result],
    loads: dict[tuple[str, tuple[str, ...]], Ending],
    substitutes: tuple[str, ...],
) -> Ending:
    """The check, if its part's file loads and nothing that it needs failed `before`. Why a file does not load is told once."""
    key = check.part, substitutes
    if key not in loads:
        loads[key] = load(check.part, opener, substitutes)
    ending = loads[key]
    if ending.loaded:
        return _blocked(check, before) or run_one(check, opener, seed, substitutes)
    loads[key] = replace(ending, message=_SAID_ABOVE, printed="") if ending.message else ending
    return ending


def _suspects(part: str, uses: Mapping[str, Sequence[str]], results: Mapping[str, Sequence[Result]]) -> tuple[str, ...]:
    """The parts that this one may call and that are not known to be right."""
    return tuple(
        slug
        for slug in uses.get(part, ())
        if not results.get(slug) or any(each.outcome is not Outcome.PASSED for each in results[slug])
    )


def _second_opinion(first: Ending, again: Ending, substitutes: tuple[str, ...]) -> Ending:
    """What to believe of a check that did not pass, and of the same one with the files of other parts exchanged.

    A pass is a pass, and where it fails in another way the message is about this part alone. If it comes to no answer, as
    where the student's parts share more than their public names, things stay as they were.
    """
    files = " and ".join(f"{slug}.py" for slug in substitutes)
    again = replace(again, seconds=first.seconds + again.seconds)
    match again.outcome:
        case Outcome.PASSED:
            return replace(
                again, note=f"It passes with a right {files} in place of yours: what is wrong there is not charged here."
            )
        case Outcome.FAILED if again.message != first.message:
            return replace(again, note=f"With a right {files} in place of yours it fails, too, and as follows.")
        case Outcome.GRADER_ERROR:
            return again
    return replace(first, seconds=again.seconds)


def _blocked(check: Check, before: Sequence[Result]) -> Ending | None:
    """What becomes of a check whose needs did not pass. A function that was not started leaves its checks not started."""
    for need in (each for each in before if each.check in check.needs):
        if need.outcome is Outcome.NOT_STARTED:
            return Ending(Outcome.NOT_STARTED, NOT_STARTED)
        if need.outcome is not Outcome.PASSED:
            return Ending(Outcome.SKIPPED, f"Skipped until this passes: {need.title}")
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
            return Ending(outcome, message, raised=error.kinds[0], where=error.where)
        case WorkerTimedOut():
            return Ending(Outcome.TIMED_OUT, str(error))
        case WorkerCrashed():
            return Ending(Outcome.CRASHED, str(error))
        case _:
            return Ending(Outcome.GRADER_ERROR, "".join(traceback.format_exception(error)))


def _raised(error: StudentRaised) -> tuple[Outcome, str]:
    if is_stub(error):
        return Outcome.NOT_STARTED, NOT_STARTED
    if error.kinds[0] == "ModuleNotFoundError" and error.message.startswith("there is no file"):
        return Outcome.NOT_STARTED, f"{error.message[0].upper()}{error.message[1:]}."
    return Outcome.RAISED, str(error)
