"""What several test modules share: the checks, sources of submissions, and a run of checks in this very process."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from autograder import catalog, manifest
from checks import parts, run
from checks.calls import Transport
from checks.draw import seed_for
from checks.executor import Direct, seed_everything
from checks.package import Package, read_folder
from checks.records import Check, Outcome, Result
from checks.substitutes import exchanged

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "tests" / "submissions"
VARIANTS = ROOT / "tests" / "variants"
MANIFEST = manifest.load(manifest.default_path())
LAYOUT = parts.read().layout


@functools.cache
def all_checks() -> tuple[Check, ...]:
    return catalog.load(MANIFEST)


def direct_checks() -> tuple[Check, ...]:
    """All but those that judge by a limit of memory, which nothing enforces here: tests/sandbox has them."""
    return tuple(check for check in all_checks() if check.memory_mib is None)


def reference() -> dict[str, str]:
    """The reference's sources."""
    return read_folder(ROOT / "solutions")[0]


def variants(part: str) -> dict[str, dict[str, str]]:
    """The sources of right solutions of a part in other styles than the reference's, by name."""
    file = next(each.file for each in MANIFEST.built if each.slug == part)
    return {path.stem: reference() | {file: path.read_text("utf-8")} for path in sorted((VARIANTS / part).glob("*.py"))}


def changed(file: str, *edits: tuple[str, str]) -> dict[str, str]:
    """The reference with edits in one file; each replaces text that has to be there."""
    sources = reference()
    for old, new in edits:
        assert old in sources[file], f"{file} no longer holds {old!r}"
        sources[file] = sources[file].replace(old, new)
    return sources


def grade_directly(
    sources: Mapping[str, str], part: str | Collection[str] | None = None, secret: str = "test", only: str | None = None
) -> dict[str, Result]:
    """The results, by check id, of the `direct_checks` (or some parts', or of these one and what it needs), without a sandbox."""

    @contextlib.contextmanager
    def open_transport(
        slug: str, seed: int, substitutes: Collection[str] = (), memory_mib: int | None = None
    ) -> Iterator[Transport]:
        seed_everything(seed)
        texts, layout = exchanged(sources, LAYOUT, substitutes)
        yield Direct(Package(texts), layout)

    parts = (part,) if isinstance(part, str) else part
    chosen = [check for check in direct_checks() if parts is None or check.part in parts]
    if only is not None:
        needed = _with_needs(only, {check.name: check.needs for check in chosen})
        chosen = [check for check in chosen if check.name in needed]
    uses = {each.slug: each.uses for each in MANIFEST.built}
    results = run.run(chosen, open_transport, lambda check: seed_for(secret, check.id), uses=uses)
    return {f"{result.part}::{result.check}": result for result in results}


def _with_needs(name: str, needs: Mapping[str, tuple[str, ...]]) -> set[str]:
    return {name}.union(*(_with_needs(each, needs) for each in needs[name]))


def lost(results: Mapping[str, Result]) -> dict[str, Outcome]:
    """The checks that did not pass, and how they ended."""
    return {name: result.outcome for name, result in results.items() if result.outcome is not Outcome.PASSED}
