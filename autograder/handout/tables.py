"""The handout's tables of points, names and limits, which follow from the manifest.

In the text each stands between a line `<!-- generated: points -->` and a line `<!-- end generated -->`; `make template` writes
them anew.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from autograder.manifest import Manifest, Part
from checks.errors import BadUsage
from checks.records import number

_BEGIN = re.compile(r"<!-- generated: (\S+) -->")
_END = "<!-- end generated -->"


def filled(text: str, manifest: Manifest, hidden: Mapping[str, tuple[int, float]]) -> str:
    """The handout's text with its tables as they are to be. `hidden` gives each slug's number of hidden checks and their points.

    Raises BadUsage, naming the line, for an unknown table and for a block that is not closed.
    """
    tables = {"points": _points(manifest, hidden), "names": _names(manifest), "limits": _limits(manifest)}
    lines: list[str] = []
    opened: tuple[int, str] | None = None
    for position, line in enumerate(text.splitlines(), start=1):
        begin = _BEGIN.fullmatch(line.strip())
        if begin and opened:
            raise _wrong(position, f"a generated table inside the one that began in line {opened[0]}")
        if begin and begin[1] not in tables:
            raise _wrong(position, f"there is no table {begin[1]!r}: it may be one of {', '.join(tables)}")
        if begin:
            opened = position, begin[1]
            lines += [line, tables[begin[1]], _END]
        elif line.strip() == _END:
            if not opened:
                raise _wrong(position, f"`{_END}` without a table before it")
            opened = None
        elif not opened:
            lines.append(line)
    if opened:
        raise _wrong(opened[0], f"this table has no `{_END}` after it")
    return "\n".join(lines) + "\n"


def _points(manifest: Manifest, hidden: Mapping[str, tuple[int, float]]) -> str:
    rows = [
        f"| part | title | file in `{manifest.package}/` | points | public | hidden |",
        "| ---: | --- | --- | ---: | ---: | ---: |",
    ]
    for part in manifest.built:
        of_hidden = hidden.get(part.slug, (0, 0.0))[1]
        points = f"{'+' if part.extra_credit else ''}{part.points}"
        shares = f"{number(part.points - of_hidden)} | {number(of_hidden)}"
        rows.append(f"| {part.number} | {part.title} | `{Path(part.file).name}` | {points} | {shares} |")
    total = sum(part.points for part in manifest.built if not part.extra_credit)
    extra = sum(part.points for part in manifest.built if part.extra_credit)
    rows.append(f"| | together{', extra credit apart' if extra else ''} | | {total}{f' + {extra}' if extra else ''} | | |")
    return "\n".join(rows)


def _names(manifest: Manifest) -> str:
    rows = ["| part | you write |", "| ---: | --- |"]
    return "\n".join(
        [*rows, *(f"| {part.number} | {', '.join(f'`{name}`' for name in part.exports)} |" for part in manifest.built)]
    )


def _limits(manifest: Manifest) -> str:
    rows = [
        "| part | seconds for a check | memory | may call your part | ready-made attention |",
        "| ---: | ---: | ---: | --- | --- |",
    ]
    return "\n".join([*rows, *(_limits_row(manifest, part) for part in manifest.built)])


def _limits_row(manifest: Manifest, part: Part) -> str:
    uses = " or ".join(str(manifest.part(slug).number) for slug in part.uses) or "none"
    ready_made = "allowed" if part.ready_made_attention else "not allowed"
    return f"| {part.number} | {part.limits.seconds} | {part.limits.memory_mib} MiB | {uses} | {ready_made} |"


def _wrong(line: int, reason: str) -> BadUsage:
    return BadUsage(f"assignment/handout.md line {line}: {reason}")
