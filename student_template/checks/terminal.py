"""What a student reads in the terminal: a pure function of the results, part by part; rich colours it where it is installed."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence

from . import written
from .parts import PartInfo
from .records import NOT_STARTED, Check, Outcome, Result, number
from .written import Answer

Line = tuple[str, str]  # the text, and a rich style ("" for none)
Progress = Callable[[Check | None], None]  # told what is about to run; None: nothing

_STYLES = {
    Outcome.PASSED: "green",
    Outcome.NOT_STARTED: "dim",
    Outcome.SKIPPED: "dim",
    Outcome.GRADER_ERROR: "bold magenta",
}
_MOST_PRINTED = 2000


def part_heading(part: PartInfo, points: float) -> list[Line]:
    extra = ", extra credit" if part.extra_credit else ""
    public = f"{number(points)} of its {number(part.points)} points are public"
    return [("", ""), (f"Part {part.number}  {part.title}  ({part.file}; {public}{extra})", "bold")]


def result_lines(result: Result) -> list[Line]:
    """One check: its outcome and title, and for a failure what was called, what came back, and what to look at."""
    style = _STYLES.get(result.outcome, "red")
    earned = f"{number(result.earned)}/{number(result.points)}"
    lines = [(f"  {result.outcome:<12} {earned:>5}  {result.title}", style)]
    if result.note:
        lines.append((f"      {result.note}", ""))
    if result.outcome is Outcome.PASSED or (result.outcome is Outcome.NOT_STARTED and result.message == NOT_STARTED):
        return lines
    details = result.message.splitlines() or [""]
    if result.where:
        details.append(f"Where: {result.where}")
    if result.hint and result.outcome in (Outcome.FAILED, Outcome.RAISED) and "Look at:" not in result.message:
        details.append(f"Look at: {result.hint}")
    if result.printed.strip():
        details.append("Your code printed:")
        details += [f"    {line}" for line in result.printed[:_MOST_PRINTED].rstrip().splitlines()]
    lines += [(f"      {line}", "") for line in details]
    return [*lines, ("", "")] if result.outcome is not Outcome.SKIPPED else lines


def summary(parts: Sequence[PartInfo], results: Sequence[Result], answers: Sequence[Answer] = ()) -> list[Line]:
    """Points by part, what has not been seen yet, how it stands with the written questions, and what to do next."""
    lines: list[Line] = [("", "")]
    for part in parts:
        mine = [result for result in results if result.part == part.slug]
        passed = sum(result.outcome is Outcome.PASSED for result in mine)
        points = f"{number(sum(result.earned for result in mine))} of {number(sum(result.points for result in mine))} points"
        lines.append((f"Part {part.number}  {passed} of {len(mine)} public checks, {points}  {part.slug}", ""))
    passed = sum(result.outcome is Outcome.PASSED for result in results)
    hidden = sum(part.hidden_checks for part in parts)
    hidden_points = number(sum(part.hidden_points for part in parts))
    lines.append(("", ""))
    lines.append(
        (f"{passed} of {len(results)} public checks; {hidden} more, worth {hidden_points} points, run when it is graded.", "bold")
    )
    if answers:
        lines.append((written.summary(answers), ""))
    return [*lines, *_next(parts, results)]


def _next(parts: Sequence[PartInfo], results: Sequence[Result]) -> list[Line]:
    broken = next((result for result in results if result.outcome is Outcome.GRADER_ERROR), None)
    if broken is not None:
        return [("A check itself went wrong, which is not your fault: show your instructor the text above.", "magenta")]
    for part in parts:
        mine = [result for result in results if result.part == part.slug]
        first = next((result for result in mine if result.outcome is not Outcome.PASSED), None)
        if first is not None:
            begin = "start" if first.outcome is Outcome.NOT_STARTED else "mend"
            lines = [(f"Next: {begin} part {part.number} in {part.file}. First check: {first.title}", "bold")]
            return [*lines, (f"To think about: {part.hints[0]}", "")] if first.outcome is Outcome.NOT_STARTED else lines
    return [
        ("Next: nothing that a public check can see. Read your code once more against its docstrings, and hand it in.", "bold")
    ]


def printer() -> Callable[[Sequence[Line]], None]:
    """Prints lines, wrapped to the terminal; coloured by rich where it is installed and the terminal takes colour."""
    try:
        from rich.console import Console
        from rich.text import Text
    except ImportError:
        return _print_plainly
    console = Console(highlight=False, soft_wrap=True)

    def show(lines: Sequence[Line]) -> None:
        width = console.width if console.is_terminal else 0
        for text, style in lines:
            for line in _wrap(text, width):
                console.print(Text(line, style=style))
        sys.stdout.flush()  # whatever a student's code does next, this has been said

    return show


def _print_plainly(lines: Sequence[Line]) -> None:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for text, _ in lines:
        print("\n".join(_wrap(text, width)), flush=True)


def progress() -> Progress:
    """Shows what is running, on a terminal only, on one line that the next output overwrites; None clears it."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return lambda check: None

    def show(check: Check | None) -> None:
        text = f"  running: {check.title}" if check else ""
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write("\r\x1b[K" + (text if len(text) <= width else text[: width - 1] + "…"))
        sys.stderr.flush()

    return show


def _wrap(text: str, width: int) -> list[str]:
    """Long lines folded under their own indentation, never cut."""
    if not width or len(text) <= width:
        return [text]
    indent = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(text, width, subsequent_indent=indent + "  ", break_long_words=False, drop_whitespace=True) or [text]
