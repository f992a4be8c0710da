"""What a check is and what became of it: the two records that everything shown or written is made from."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Outcome(enum.StrEnum):
    """How one check ended. Only PASSED earns its points; GRADER_ERROR is never a student's zero."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_STARTED = "not started"
    RAISED = "raised"
    TIMED_OUT = "timed out"
    CRASHED = "crashed"
    SKIPPED = "skipped"
    GRADER_ERROR = "grader error"


NOT_STARTED = "This is not started yet."


@dataclass(frozen=True)
class Check:
    """One check: a plain function of a `student`, whose docstring is the title a student reads."""

    name: str  # "test_padded_keys_get_no_weight"
    part: str  # the part's slug
    title: str
    points: float
    hidden: bool
    needs: tuple[str, ...]  # names of checks of the same part that must pass first
    category: str  # what kind of property it is: all that a student reads of a failed hidden check, besides the hint
    hint: str
    function: Callable[[Any], None]
    memory_mib: int | None = None  # what the student's code may take meanwhile, where that is not the part's own limit

    @property
    def id(self) -> str:
        return f"{self.part}::{self.name}"


@dataclass(frozen=True)
class Result:
    """What became of one check on one submission."""

    check: str  # the check's name
    part: str
    title: str
    points: float  # what it is worth, not what was earned
    hidden: bool
    outcome: Outcome
    message: str = ""  # the whole story, for whoever may see the check's inputs
    note: str = ""  # what anyone may know besides: that it took a right version of another part to pass
    category: str = ""
    hint: str = ""
    mistake: str = ""  # the name of the mistake it looks like, where one was recognised
    raised: str = ""  # the class of the exception that the student's code raised
    where: str = ""  # "attention/masking.py:41, in masked_attention": the student's own line, where one raised
    printed: str = ""  # what the student's code printed meanwhile
    seconds: float = 0.0

    @property
    def earned(self) -> float:
        return self.points if self.outcome is Outcome.PASSED else 0.0


def number(value: float) -> str:
    """Points as a person writes them: 20, 7.5."""
    return f"{value:.6f}".rstrip("0").rstrip(".")
