"""`python -m checks [--part N]`: the public checks on the package in this folder. Exit status 0 only if all pass."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import desk, parts, run, terminal
from .errors import BadUsage
from .records import Outcome, Result


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
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130


def check(root: Path, part: str | None = None, device: str | None = None) -> int:
    """Run the public checks on the package in `root` and print the report; 0 if all pass, 1 otherwise."""
    assignment = parts.read()
    chosen = assignment.chosen(part)
    opener = desk.opener(root.resolve(), assignment, device)
    show, progress = terminal.printer(), terminal.progress()
    results: list[Result] = []
    for one in chosen:
        checks = desk.public_checks((one,))
        progress(None)
        show(terminal.part_heading(one, sum(each.points for each in checks)))
        for result in run.run(checks, opener, desk.desk_seed, starting=progress):
            progress(None)
            show(terminal.result_lines(result))
            results.append(result)
    show(terminal.summary(chosen, results))
    return 0 if all(result.outcome is Outcome.PASSED for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
