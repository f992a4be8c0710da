"""What several test modules share: the checks, sources of submissions, and a run of checks in this very process."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

from autograder import catalog, grading, manifest
from checks import run
from checks.calls import Transport
from checks.draw import seed_for
from checks.executor import Direct, seed_everything
from checks.package import Package, read_folder
from checks.records import Check, Outcome, Result

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "tests" / "submissions"
MANIFEST = manifest.load(manifest.default_path())
LAYOUT = grading.layout(MANIFEST)


@functools.cache
def all_checks() -> tuple[Check, ...]:
    return catalog.load(MANIFEST)


def reference() -> dict[str, str]:
    """The reference's sources."""
    return read_folder(ROOT / "solutions")[0]


def changed(file: str, *edits: tuple[str, str]) -> dict[str, str]:
    """The reference with edits in one file; each replaces text that has to be there."""
    sources = reference()
    for old, new in edits:
        assert old in sources[file], f"{file} no longer holds {old!r}"
        sources[file] = sources[file].replace(old, new)
    return sources


def grade_directly(sources: Mapping[str, str], part: str | None = None, secret: str = "test") -> dict[str, Result]:
    """The results, by check id, of all checks (or one part's) on these sources, without a sandbox."""

    @contextlib.contextmanager
    def open_transport(slug: str, seed: int, memory_mib: int | None = None) -> Iterator[Transport]:
        seed_everything(seed)
        yield Direct(Package(sources), LAYOUT)

    chosen = [check for check in all_checks() if part in (None, check.part)]
    results = run.run(chosen, open_transport, lambda check: seed_for(secret, check.id))
    return {f"{result.part}::{result.check}": result for result in results}


def lost(results: Mapping[str, Result]) -> dict[str, Outcome]:
    """The checks that did not pass, and how they ended."""
    return {name: result.outcome for name, result in results.items() if result.outcome is not Outcome.PASSED}
