"""The report of one graded submission: the one record that everything shown or written about it is made from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from checks.records import Outcome, Result
from checks.written import Answer

GRADED = "graded"
PROVISIONAL = "provisional"


class Part(Protocol):
    """What a report needs to know of a part of the assignment; the manifest's own record has it."""

    @property
    def slug(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def title(self) -> str: ...
    @property
    def extra_credit(self) -> bool: ...


@dataclass(frozen=True)
class PartScore:
    """What one submission earned on one part."""

    slug: str
    number: int
    title: str
    score: float
    max_score: float
    extra_credit: bool


@dataclass(frozen=True)
class Report:
    """One submission, graded or not: `outcome` is "graded", or the reason why it could not be."""

    submission: str
    digest: str
    isolation: str
    device: str
    results: tuple[Result, ...]
    parts: tuple[PartScore, ...]
    notes: tuple[str, ...]
    problems: tuple[str, ...]  # a sentence for each file that could not be read
    outcome: str
    provisional: bool  # a check could not be decided, through a fault of the grader's: the score may still rise
    execution_time: float  # seconds
    written: tuple[Answer, ...] = ()  # which of the written questions are answered; a person gives the points

    @property
    def standing(self) -> str:
        """How it stands with the submission: "graded", "provisional", or why it was not graded."""
        return PROVISIONAL if self.provisional and self.outcome == GRADED else self.outcome

    @property
    def score(self) -> float:
        """All points earned, those of extra credit included."""
        return total(part.score for part in self.parts)

    @property
    def max_score(self) -> float:
        """The points that there are without extra credit."""
        return total(part.max_score for part in self.parts if not part.extra_credit)

    @property
    def extra_credit(self) -> float:
        """The points of `score` that are extra credit."""
        return total(part.score for part in self.parts if part.extra_credit)


def total(points: Iterable[float]) -> float:
    """The sum of some points, without the dust of binary fractions: ten times 0.1 is 1.0."""
    return round(math.fsum(points), 6)


def build(
    *,
    submission: str,
    parts: Sequence[Part],
    results: Sequence[Result],
    digest: str = "",
    isolation: str = "",
    device: str = "cpu",
    notes: Sequence[str] = (),
    problems: Sequence[str] = (),
    outcome: str = GRADED,
    execution_time: float = 0.0,
    written: Sequence[Answer] = (),
) -> Report:
    """The report of these results, points summed for each of `parts`. Every result has to be of one of them (ValueError)."""
    if strangers := {result.part for result in results} - {part.slug for part in parts}:
        raise ValueError(f"there are results of {', '.join(sorted(strangers))}, which is no part of this assignment")
    return Report(
        submission=submission,
        digest=digest,
        isolation=isolation,
        device=device,
        results=tuple(results),
        parts=tuple(_part_score(part, results) for part in parts),
        notes=tuple(notes),
        problems=tuple(problems),
        outcome=outcome,
        provisional=any(result.outcome is Outcome.GRADER_ERROR for result in results),
        execution_time=execution_time,
        written=tuple(written),
    )


def _part_score(part: Part, results: Sequence[Result]) -> PartScore:
    of_part = [result for result in results if result.part == part.slug]
    return PartScore(
        slug=part.slug,
        number=part.number,
        title=part.title,
        score=total(result.earned for result in of_part),
        max_score=total(result.points for result in of_part),
        extra_credit=part.extra_credit,
    )
