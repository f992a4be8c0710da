"""The written questions, from the model answers in `solutions/report.md`: the student's copy, and what the kit knows of it.

A model answer stands between `<!-- BEGIN SOLUTION -->` and `<!-- END SOLUTION -->`, once under each `## Question N: title`.
"""

from __future__ import annotations

import re

from checks.errors import BadUsage
from checks.written import FILE, Question, paragraphs, sections

PLACEHOLDER = "*Write your answer here, in place of this line.*"

_ANSWER = re.compile(r"<!-- BEGIN SOLUTION -->\n.*?\n<!-- END SOLUTION -->", re.DOTALL)
_TITLE = re.compile(r"^## Question (\d+): (.+)$", re.MULTILINE)


def strip(report: str) -> str:
    """The report as students get it: every model answer replaced. Raises BadUsage where a question has not just one."""
    titles = dict(_TITLE.findall(report))
    under = sections(report)
    for number in titles:
        if len(_ANSWER.findall(under[int(number)])) != 1:
            raise BadUsage(
                f"solutions/{FILE}: question {number} needs one answer between <!-- BEGIN SOLUTION --> and <!-- END SOLUTION -->"
            )
    if list(titles) != [str(number) for number in range(1, len(titles) + 1)]:
        raise BadUsage(f"solutions/{FILE}: questions are numbered in order, from 1, under headings `## Question 1: title`")
    text = _ANSWER.sub(PLACEHOLDER, report)
    if "SOLUTION -->" in text or _TITLE.findall(text) != _TITLE.findall(report):
        raise BadUsage(f"solutions/{FILE}: a marker of a model answer stands outside of the questions, or alone")
    return text


def questions(given: str) -> list[Question]:
    """The questions of the report as students get it."""
    under = sections(given)
    return [Question(int(number), title, tuple(paragraphs(under[int(number)]))) for number, title in _TITLE.findall(given)]
