"""The commands of `python -m autograder`. Exit status: 0 all well, 1 a check failed or a grade is provisional, 2 a wrong call."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from checks import parts
from checks.errors import BadUsage
from checks.records import Outcome, number

from . import batch, catalog, intake, manifest, secret, template
from .render.terminal import show_class
from .report import Report
from .sandbox import confinement
from .sandbox.confinement import STRICT, TIERS

_WIDE = 200  # columns of a table that goes to a file or a pipe
_ROOT = Path(__file__).resolve().parent.parent


def main() -> NoReturn:
    """Run a command. A user's mistake is one sentence on stderr and status 2; Control-C is 130; a closed pipe ends in silence."""
    try:
        sys.exit(commands.main(standalone_mode=False))
    except click.UsageError as error:
        click.echo(f"{error.format_message().rstrip('.')}. See {error.ctx.command_path if error.ctx else ''} --help.", err=True)
        sys.exit(2)
    except BadUsage as error:
        click.echo(str(error), err=True)
        sys.exit(2)
    except (KeyboardInterrupt, click.Abort):
        click.echo("\nStopped: reports that were finished are kept, and grades.csv was not written.", err=True)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains once more at its end
        sys.exit(1)


@click.group()
def commands() -> None:
    """The autograder of the self-attention assignment."""


@commands.command()
@click.argument("submission", type=click.Path(path_type=Path), default=Path("solutions"))
@click.option("--part", metavar="N", help="Only this part, by number or name.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
def check(submission: Path, part: str | None, device: str) -> None:
    """Run the public checks on the code in SUBMISSION, in this very process: for code that you trust."""
    from checks.__main__ import check as run_public_checks

    catalog.load(manifest.load(manifest.default_path()))  # refuses checks that don't add up
    sys.exit(run_public_checks(submission, part, None if device == "cpu" else device))


@commands.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=Path("grades"), show_default=True, help="Where reports go.")
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, show_default="all cores", help="How many at a time.")
@click.option("--secret-file", type=click.Path(path_type=Path), help="The grading secret; by default .grading-secret, made once.")
@click.option("--accept-tier", type=click.Choice(TIERS), default=STRICT, show_default=True, help="The weakest to accept.")
def grade(paths: Sequence[Path], out: Path, jobs: int, secret_file: Path | None, accept_tier: str) -> None:
    """Grade submissions: each of PATHS is one (a folder or a zip), or a folder of them."""
    import torch

    from . import doctor
    from .grading import Grader
    from .sandbox.client import Sandbox

    described = manifest.load(manifest.default_path())
    candidates = intake.discover(paths, described.package)
    checks = catalog.load(described)
    torch.set_num_threads(1)  # the work is many small tensors, graded side by side
    key = secret.load(secret_file)
    confinement.forbid_looking_inside()
    # The sandbox ends first, so that after a Ctrl-C no thread waits for a student's code.
    with ThreadPoolExecutor(jobs) as executor, Sandbox(accept=accept_tier) as sandbox:
        preflight = sandbox.preflight(secret_file or secret.default_path())
        if not confinement.reaches(preflight.tier, accept_tier):
            raise BadUsage(doctor.refusal(preflight))
        grader = Grader(described, checks, sandbox, key, parts.read().questions)
        slugs = [part.slug for part in described.built]
        with _progress(len(candidates)) as done:
            reports = batch.grade_all(grader.grade, candidates, out, slugs, executor, done)
    _show(reports, out)
    _mention(paths, out, reports)
    sys.exit(1 if any(report.provisional for report in reports) else 0)


@commands.command("doctor")
def show_findings() -> None:
    """Say what this machine gives the grader, layer by layer; exit with 1 where something needed is missing."""
    from . import doctor

    marks = {True: "ok", False: "MISSING", None: "-"}
    good = True
    secret.load()  # makes the file that workers must not be able to read
    for finding in doctor.findings(secret.default_path()):
        good = good and finding.good is not False
        click.echo(f"{marks[finding.good]:<8} {finding.what}")
        if finding.advice:
            click.echo(f"         {finding.advice}")
    sys.exit(0 if good else 1)


@commands.command("template")
def write_template() -> None:
    """Write the generated files of student_template/ anew."""
    described = manifest.load(manifest.default_path())
    for path in template.write(described, _ROOT, catalog.hidden_counts(described)):
        click.echo(f"wrote {path.relative_to(_ROOT)}")


@commands.command("handout")
@click.option("--out", type=click.Path(path_type=Path), default=Path("dist"), show_default=True, help="Where the two files go.")
def write_handout(out: Path) -> None:
    """Make the handout: one HTML page that needs nothing else, and a PDF."""
    from .handout import build

    for path in build.write(out):
        click.echo(f"wrote {path}")


@commands.command()
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit with 1 where a committed figure is another.")
@click.option("--measure", is_flag=True, help="Measure time and memory anew first (a quiet machine, half a minute).")
def figures(only_check: bool, measure: bool) -> None:
    """Draw the handout's figures into assignment/figures/."""
    from .figures import collection

    if only_check and measure:
        raise click.UsageError("--check compares with what was measured, and --measure replaces it: give one of the two")
    if measure:
        collection.measure(click.echo)
    stale = collection.stale()
    if only_check:
        click.echo(
            f"Not as the code draws them: {', '.join(stale)}. Run make figures." if stale else "All figures are up to date."
        )
        sys.exit(1 if stale else 0)
    for path in collection.write():
        click.echo(f"wrote {path.relative_to(_ROOT)}")


def _show(reports: Sequence[Report], out: Path) -> None:
    console = Console()
    show_class(reports, console if console.is_terminal else Console(width=_WIDE))
    click.echo(f"Reports: {out}/<submission>/results.json. Table: {out / 'grades.csv'}.")
    errors = {result.message: result for report in reports for result in report.results if result.outcome is Outcome.GRADER_ERROR}
    for message, result in errors.items():
        click.echo(f"\nGrader error in {result.part}::{result.check}, which is no student's fault:\n{message}", err=True)


def _mention(paths: Sequence[Path], out: Path, reports: Sequence[Report]) -> None:
    """What was passed over, and what lies in `out` from before: nothing handed in may vanish in silence."""
    if strays := intake.strays(paths):
        click.echo(f"Passed over, being neither folders nor zips: {', '.join(strays)}.", err=True)
    graded = {report.submission for report in reports}
    if old := sorted(each.parent.name for each in out.glob("*/results.json") if each.parent.name not in graded):
        click.echo(f"In {out} there are also reports of an earlier run: {', '.join(old)}.", err=True)


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
