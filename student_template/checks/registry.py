"""The `@check` mark, and the collection of marked functions into `Check` records.

The mark is an attribute of the function and nothing is registered anywhere: which checks there are follows from which
modules are collected, and pytest sees plain `test_` functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, TypeVar

from .errors import BadUsage
from .records import Check

Function = TypeVar("Function", bound=Callable[..., None])
_MARK = "__check__"


def check(
    *,
    part: str,
    points: float,
    hidden: bool = False,
    needs: str | Iterable[str] = (),
    category: str = "values",
    hint: str = "",
    memory_mib: int | None = None,
) -> Callable[[Function], Function]:
    """Mark a function of one argument, `student`, as a check of `part` that is worth `points`.

    `needs` names checks of the same part that have to pass first; where one did not, this one is skipped.
    `category` and `hint` are all that a student is told of a failed hidden check. `memory_mib` is a limit of memory in the
    grader, for a check that judges by it; on a student's desk, where nothing enforces one, such a check would judge nothing.
    """

    def mark(function: Function) -> Function:
        if not function.__doc__:
            raise BadUsage(f"{function.__name__} needs a docstring: it is the title a student reads")
        if hidden and not hint:
            raise BadUsage(f"{function.__name__} is hidden and needs a hint: it is what a student reads")
        if memory_mib is not None and not hidden:
            raise BadUsage(f"{function.__name__} limits memory and must be hidden: only the grader can hold it to that")
        record = Check(
            name=function.__name__,
            part=part,
            title=" ".join(function.__doc__.strip().split("\n\n")[0].split()),
            points=points,
            hidden=hidden,
            needs=(needs,) if isinstance(needs, str) else tuple(needs),
            category=category,
            hint=hint,
            function=function,
            memory_mib=memory_mib,
        )
        setattr(function, _MARK, record)
        return function

    return mark


def marked(function: Any) -> Check | None:
    """The record of a marked function, None of any other object."""
    record = getattr(function, _MARK, None)
    return record if isinstance(record, Check) else None


def collect(modules: Iterable[ModuleType]) -> list[Check]:
    """Every check of these modules, in the order in which they are written. A repeated name or an unknown need is an error."""
    checks: list[Check] = []
    for module in modules:
        checks += [record for value in vars(module).values() if (record := marked(value)) and value.__module__ == module.__name__]
    seen: set[str] = set()
    for record in checks:
        if record.id in seen:
            raise BadUsage(f"two checks are called {record.id}; give one of them another name")
        if unknown := [need for need in record.needs if f"{record.part}::{need}" not in seen]:
            raise BadUsage(f"{record.id} needs {unknown[0]}, which is not a check of {record.part} that comes before it")
        seen.add(record.id)
    return checks
