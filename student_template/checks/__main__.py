"""`python -m checks [--part N]`: the public checks on the package in this folder. Exit status 0 only if all pass."""

from __future__ import annotations

import argparse
import contextlib
import pdb
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from .errors import BadUsage

try:
    from . import desk, parts, run, terminal, written
    from .records import Check, Outcome, Result
except ModuleNotFoundError as error:
    if error.name not in ("torch", "numpy"):
        raise
    sys.exit(f"{error.name} is not installed here: run `python -m pip install -r requirements.txt`, or `make check`.")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m checks", description="Run the public checks on your own code.")
    parser.add_argument("--part", metavar="N", help="only this part, by number or name")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where the code runs")
    parser.add_argument("--submission", metavar="DIR", type=Path, default=Path.cwd(), help="the folder that holds attention/")
    given = parser.parse_args(arguments)
    try:
        return check(given.submission, given.part, None if given.device == "cpu" else given.device)
    except BadUsage as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        print(f"\nStopped{_where(error, given.submission.resolve())}.", file=sys.stderr)
        return 130


def check(root: Path, part: str | None = None, device: str | None = None) -> int:
    """Run the public checks on the package in `root` and print the report; 0 if all pass, 1 otherwise."""
    assignment = parts.read()
    chosen = assignment.chosen(part)
    opener = desk.opener(root.resolve(), assignment, device)
    show, progress = terminal.printer(), terminal.progress()
    checks = desk.public_checks(chosen)
    parts_left = list(chosen)

    def starting(check: Check) -> None:
        if parts_left and parts_left[0].slug == check.part:
            progress(None)
            show(terminal.part_heading(parts_left.pop(0), sum(each.points for each in checks if each.part == check.part)))
        progress(check)

    results: list[Result] = []
    with _debugger(progress):
        for result in run.run(checks, opener, desk.desk_seed, uses=assignment.uses, starting=starting):
            progress(None)
            show(terminal.result_lines(result))
            results.append(result)
    answers = written.look(_report(root), assignment.questions) if part is None else ()
    show(terminal.summary(chosen, results, answers))
    return 0 if all(result.outcome is Outcome.PASSED for result in results) else 1


def _report(root: Path) -> str | None:
    """The written answers that lie in `root`, if any."""
    try:
        return (root / written.FILE).read_text("utf-8", errors="replace")
    except OSError:
        return None


class _Debugger:
    """What `breakpoint()` calls: a debugger on the terminal itself, since what the code prints is kept for the report."""

    def __init__(self, progress: terminal.Progress) -> None:
        self._progress = progress

    def __call__(self, *args: object, **kwargs: object) -> None:
        self._progress(None)
        pdb.Pdb(stdout=sys.__stdout__).set_trace(sys._getframe(1))


@contextlib.contextmanager
def _debugger(progress: terminal.Progress) -> Iterator[None]:
    before, sys.breakpointhook = sys.breakpointhook, _Debugger(progress)
    try:
        yield
    finally:
        sys.breakpointhook = before


def _where(error: BaseException, root: Path) -> str:
    """The student's line that was running."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(root / "attention")
    ]
    return f" in {Path(frames[-1].filename).relative_to(root)}:{frames[-1].lineno}" if frames else ""


if __name__ == "__main__":
    sys.exit(main())
