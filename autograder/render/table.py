"""The class as `grades.csv`: one row per submission, for a spreadsheet or a gradebook. The same bytes on every regrade."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from autograder.report import Report
from checks.records import number

from .text import clean_line


def grades_csv(reports: Iterable[Report], part_slugs: Sequence[str]) -> str:
    """The table's text: rows by submission, a column per part; a part that a report says nothing of has an empty cell."""
    header = ["submission", "score", "max_score", "extra_credit", *part_slugs, "outcome", "isolation", "digest"]
    rows = [_row(report, part_slugs) for report in sorted(reports, key=lambda report: (report.submission, report.digest))]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()


def _row(report: Report, part_slugs: Sequence[str]) -> list[str]:
    scores = {part.slug: number(part.score) for part in report.parts}
    return [
        _text_cell(report.submission),
        number(report.score),
        number(report.max_score),
        number(report.extra_credit),
        *(scores.get(slug, "") for slug in part_slugs),
        _text_cell(report.standing),
        _text_cell(report.isolation),
        _text_cell(report.digest),
    ]


def _text_cell(text: str) -> str:
    """The text on one line. A spreadsheet would run what starts like a formula, so an apostrophe goes before it."""
    text = clean_line(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
