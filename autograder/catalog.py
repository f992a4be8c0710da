"""All checks of the built parts, public and hidden, held to the manifest's points."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from checks.errors import BadUsage
from checks.records import Check, number
from checks.registry import collect
from checks.signatures import SIGNATURES

from .manifest import Manifest, Part
from .report import total

_SHARE_SLACK = 0.05  # how far a part's public share may be from the manifest's


def load(manifest: Manifest) -> tuple[Check, ...]:
    """The checks in the manifest's order, public before hidden. BadUsage where a part's points don't add up to the manifest's."""
    found: list[Check] = []
    for part in manifest.built:
        if unknown := [name for name in part.exports if name not in SIGNATURES]:
            raise BadUsage(
                f"assignment.toml says that part {part.number} exports {unknown[0]}: describe it in checks/signatures.py."
            )
        public = importlib.import_module(f"checks.test_{part.slug}")
        hidden = importlib.import_module(f"autograder.checks.{part.slug}")
        checks = collect([public, hidden])
        _hold_to_manifest(part, checks)
        found += checks
    return tuple(found)


def hidden_counts(manifest: Manifest) -> dict[str, tuple[int, float]]:
    """Per part, how many hidden checks there are and what they are worth: all that a student's copy is told of them."""
    checks = [check for check in load(manifest) if check.hidden]
    return {
        part.slug: (
            sum(check.part == part.slug for check in checks),
            total(check.points for check in checks if check.part == part.slug),
        )
        for part in manifest.built
    }


def _hold_to_manifest(part: Part, checks: Sequence[Check]) -> None:
    if strangers := [check.id for check in checks if check.part != part.slug]:
        raise BadUsage(f"{strangers[0]} stands among the checks of {part.slug}: move it, or mend its `part`.")
    points = total(check.points for check in checks)
    if points != part.points:
        raise BadUsage(
            f"The checks of {part.slug} add up to {number(points)} points, and assignment.toml says {part.points}: change one."
        )
    share = total(check.points for check in checks if not check.hidden) / part.points
    if abs(share - part.public_share) > _SHARE_SLACK:
        raise BadUsage(
            f"{share:.0%} of the points of {part.slug} are public, and assignment.toml says {part.public_share:.0%}: change one."
        )
