"""The commands of `python -m autograder`. Exit status: 0 all well, 1 a check failed or a grade is provisional, 2 a wrong call."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from checks.errors import BadUsage
from checks.records import Outcome, number

from . import batch, catalog, intake, manifest, secret, template
from .render.terminal import show_class
from .report import Report

_ROOT = Path(__file__).resolve().parent.parent


class _Commands(click.Group):
    """A user's mistake is one sentence on stderr and exit status 2; Control-C is 130."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BadUsage as error:
            click.echo(str(error), err=True)
            ctx.exit(2)
        except KeyboardInterrupt:
            click.echo("\nStopped. Reports that were finished are kept; run the same command again for the others.", err=True)
            ctx.exit(130)


@click.group(cls=_Commands)
def main() -> None:
    """The autograder of the self-attention assignment."""


@main.command()
@click.argument("submission", type=click.Path(path_type=Path), default=Path("solutions"))
@click.option("--part", metavar="N", help="Only this part, by number or name.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
def check(submission: Path, part: str | None, device: str) -> None:
    """Run the public checks on the code in SUBMISSION, in this very process: for code that you trust."""
    from checks.__main__ import check as run_public_checks

    sys.exit(run_public_checks(submission, part, None if device == "cpu" else device))


@main.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=Path("grades"), show_default=True, help="Where reports go.")
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, show_default="all cores", help="How many at a time.")
@click.option("--secret-file", type=click.Path(path_type=Path), help="The grading secret; by default .grading-secret, made once.")
def grade(paths: Sequence[Path], out: Path, jobs: int, secret_file: Path | None) -> None:
    """Grade submissions: each of PATHS is one (a folder or a zip), or a folder of them."""
    import torch

    from .grading import Grader
    from .sandbox.client import Sandbox

    described = manifest.load(manifest.default_path())
    candidates = intake.discover(paths, described.package)
    checks = catalog.load(described)
    torch.set_num_threads(1)  # the work is many small tensors, graded side by side
    with Sandbox() as sandbox, ThreadPoolExecutor(jobs) as executor, _progress(len(candidates)) as done:
        grader = Grader(described, checks, sandbox, secret.load(secret_file))
        slugs = [part.slug for part in described.built]
        reports = batch.grade_all(grader.grade, candidates, out, slugs, executor, done)
    _show(reports, out)
    sys.exit(1 if any(report.provisional for report in reports) else 0)


@main.command("template")
def write_template() -> None:
    """Write the generated files of student_template/ anew."""
    described = manifest.load(manifest.default_path())
    for path in template.write(described, _ROOT, catalog.hidden_counts(described)):
        click.echo(f"wrote {path.relative_to(_ROOT)}")


def _show(reports: Sequence[Report], out: Path) -> None:
    show_class(reports, Console())
    click.echo(f"Reports: {out}/<submission>/results.json. Table: {out / 'grades.csv'}.")
    errors = {result.message: result for report in reports for result in report.results if result.outcome is Outcome.GRADER_ERROR}
    for message, result in errors.items():
        click.echo(f"\nGrader error in {result.part}::{result.check}, which is no student's fault:\n{message}", err=True)


@contextmanager
def _progress(count: int) -> Iterator[Callable[[Report], None]]:
    """A bar on a terminal, a line per submission elsewhere; both on stderr."""
    console = Console(stderr=True)
    if not console.is_terminal:
        finished = iter(range(1, count + 1))
        yield lambda report: click.echo(f"{next(finished)}/{count} {report.submission}: {_score(report)}", err=True)
        return
    columns = (TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=count)
        yield lambda report: progress.update(task, advance=1, description=f"{report.submission}: {_score(report)}")


def _score(report: Report) -> str:
    return f"{number(report.score)} of {number(report.max_score)}"
