"""A class in the terminal: a table of submissions and a paragraph under it. Colour and rules only where a terminal shows them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from autograder.report import GRADED, PROVISIONAL, PartScore, Report
from checks.records import number

from .text import clean_line

_STYLES = {GRADED: "", PROVISIONAL: "yellow"}


def show_class(reports: Sequence[Report], console: Console) -> None:
    """Print the table and the paragraph. rich itself drops colour where NO_COLOR is set or the output is no terminal."""
    if reports:
        console.print(class_table(reports, plain=not console.is_terminal), "")
    console.print(Text(summary(reports)))


def class_table(reports: Sequence[Report], *, plain: bool = False) -> Table:
    """One row per submission: score, a column per part, and how it stands. `plain` leaves out the rules.

    Columns are headed by the parts' numbers, so that eight parts fit in 80 columns; long names are folded, never cut.
    """
    parts = _parts(reports)
    table = Table(box=None if plain else box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("submission", overflow="fold")
    table.add_column(f"score/{number(max((report.max_score for report in reports), default=0))}", justify="right", no_wrap=True)
    for part in parts:
        table.add_column(f"{part.number}{'+' if part.extra_credit else ''}", justify="right", no_wrap=True)
    table.add_column("outcome", overflow="fold")
    for report in sorted(reports, key=lambda report: (report.submission, report.digest)):
        scores = {part.slug: number(part.score) for part in report.parts}
        table.add_row(
            Text(clean_line(report.submission)),
            number(report.score),
            *(scores.get(part.slug, "") for part in parts),
            Text(clean_line(report.standing), style=_STYLES.get(report.standing, "red")),
        )
    return table


def summary(reports: Sequence[Report]) -> str:
    """What an instructor wants to know first: how many, the median, what needs a second look, and how isolated."""
    if not reports:
        return "No submissions were graded."
    graded = [report for report in reports if report.outcome == GRADED]
    sentences = [f"{len(graded)} of {len(reports)} submissions graded"]
    if graded:
        sentences[0] += f", median score {number(round(statistics.median(report.score for report in graded), 2))}"
    if provisional := sum(report.provisional for report in reports):
        sentences += [f"{provisional} provisional: the grader itself failed on a check, so grade again"]
    if unread := [clean_line(report.submission) for report in reports if report.problems or report.outcome != GRADED]:
        sentences += [f"Not all could be read of {', '.join(sorted(unread))}: the reports say why"]
    if any(report.isolation for report in reports):
        sentences += [_isolation(reports)]
    legend = "; ".join(f"{part.number}{' (extra credit)' if part.extra_credit else ''} {part.title}" for part in _parts(reports))
    if legend:
        sentences += [f"Parts: {legend}"]
    return ". ".join(sentences) + "."


def _isolation(reports: Sequence[Report]) -> str:
    tiers = sorted({clean_line(report.isolation) for report in reports if report.isolation})
    return f"Isolation of student code: {', '.join(tiers)}"


def _parts(reports: Sequence[Report]) -> list[PartScore]:
    """The parts that any of the reports has, in the assignment's order."""
    by_slug = {part.slug: part for report in reports for part in report.parts}
    return sorted(by_slug.values(), key=lambda part: part.number)
