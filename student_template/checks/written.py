"""The written questions: which of them a report answers. Nothing here reads an answer; a person does that.

A question is a heading `## Question 2: …`. What a student adds under it, beyond the paragraphs that were there from the start,
is the answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

FILE = "report.md"

_HEADING = re.compile(r"^\s{0,3}#{1,6}\s*Question\s+(\d{1,3})\b", re.IGNORECASE)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Question:
    number: int
    title: str
    given: tuple[str, ...]  # the paragraphs under the heading of the untouched report, one line each


@dataclass(frozen=True)
class Answer:
    """How it stands with a question. `words` counts what the student added; None where the heading itself is missing."""

    number: int
    words: int | None

    @property
    def standing(self) -> str:
        if self.words is None:
            return "missing"
        return f"answered, {self.words} word{'' if self.words == 1 else 's'}" if self.words else "untouched"


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text, each on one line with single spaces, so that folding lines anew changes nothing."""
    gathered: list[list[str]] = [[]]
    for line in _without_comments(text).splitlines():
        if words := line.split():
            gathered[-1] += words
        else:
            gathered.append([])
    return [" ".join(words) for words in gathered if words]


def sections(text: str) -> dict[int, str]:
    """What stands under each question's heading, by number; where a heading is there twice, under both."""
    found: dict[int, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if heading := _HEADING.match(line):
            current = found.setdefault(int(heading[1]), [])
        else:
            current.append(line)
    return {number: "\n".join(lines) for number, lines in found.items()}


def look(text: str | None, questions: Sequence[Question]) -> tuple[Answer, ...]:
    """How each question is answered in a report; `None` where no report was handed in."""
    found = sections(text or "")
    return tuple(Answer(each.number, _words(found[each.number], each) if each.number in found else None) for each in questions)


def summary(answers: Sequence[Answer]) -> str:
    """One sentence: `report.md: question 1 answered, 120 words; 2 untouched.` Questions in a row that stand alike go together."""
    groups: list[tuple[str, list[int]]] = []
    for answer in answers:
        if groups and groups[-1][0] == answer.standing and not answer.words:
            groups[-1][1].append(answer.number)
        else:
            groups.append((answer.standing, [answer.number]))
    told = "; ".join(f"question{'s' if len(numbers) > 1 else ''} {_listed(numbers)} {standing}" for standing, numbers in groups)
    return f"{FILE}: {told}."


def _without_comments(text: str) -> str:
    """Without `<!-- … -->`. By hand, since the pattern for it takes quadratic time on a text that opens many and closes none."""
    first, *rest = text.split("<!--")
    return first + "".join(
        after if closed else f"<!--{inside}" for inside, closed, after in (each.partition("-->") for each in rest)
    )


def _words(section: str, question: Question) -> int:
    added = [each for each in paragraphs(section) if each not in question.given]
    return sum(len(_WORD.findall(each)) for each in added)


def _listed(numbers: Sequence[int]) -> str:
    *others, last = map(str, numbers)
    return f"{', '.join(others)} and {last}" if others else last
