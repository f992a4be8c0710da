"""The manifest `assignment/assignment.toml`, typed: the one place that says each part's name, file, points and limits.

Imports `checks.errors` and the two readers beside it, nothing else; everything else may import this.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from checks.errors import BadUsage

from .toml_table import ManifestError, Source, Table

__all__ = ["Limits", "Manifest", "ManifestError", "Part", "default_path", "load"]

_PART_KEYS = (
    "number",
    "slug",
    "title",
    "file",
    "exports",
    "points",
    "extra_credit",
    "public_share",
    "built",
    "ready_made_attention",
    "uses",
    "limits",
    "hints",
)
_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_RUNGS = 3


@dataclass(frozen=True)
class Limits:
    """What one check of a part may take."""

    seconds: int  # of processor time
    memory_mib: int


@dataclass(frozen=True)
class Part:
    """One part of the assignment."""

    number: int  # 1, 2, … in the order of the manifest
    slug: str  # "scaled_dot_product": its name in reports, tables and checks
    title: str
    file: str  # "attention/scaled_dot_product.py", relative to a submission
    exports: tuple[str, ...]  # the public names that the file has to define
    points: int
    extra_credit: bool
    public_share: float  # of the points, 0 to 1
    built: bool  # whether reference and checks are there; if not, nothing shows or counts the part
    ready_made_attention: bool  # whether the library's own attention may be used
    uses: tuple[str, ...]  # the earlier parts that it may call, and whose mistakes it is not charged for
    limits: Limits
    hints: tuple[str, ...]  # the ladder: a question, where to look, the idea


@dataclass(frozen=True)
class Manifest:
    """The whole assignment. `points` and `extra_credit` are what all its parts add up to, built or not."""

    title: str
    package: str  # the folder that a student hands in
    points: int
    extra_credit: int
    parts: tuple[Part, ...]

    @property
    def built(self) -> tuple[Part, ...]:
        """The parts that are built, in order."""
        return tuple(part for part in self.parts if part.built)

    def part(self, slug_or_number: str | int) -> Part:
        """The part of that slug or number (`3` and `"3"` are the same); BadUsage when there is none."""
        wanted = str(slug_or_number).strip()
        for part in self.parts:
            if wanted in (part.slug, str(part.number)):
                return part
        known = ", ".join(f"{part.number} ({part.slug})" for part in self.built)
        raise BadUsage(f"there is no part {wanted}; the parts are {known}")


def default_path() -> Path:
    """This repository's own manifest."""
    return Path(__file__).resolve().parents[1] / "assignment" / "assignment.toml"


def load(path: Path) -> Manifest:
    """Read and check the manifest. Raises ManifestError, `assignment.toml line N: reason`, at the first thing wrong."""
    root = Source(path).root(("assignment", "parts"))
    head = root.table("assignment", ("title", "package", "points", "extra_credit"))
    package = head.text("package", pattern=_IDENTIFIER, wanted="a Python name")
    tables = root.tables("parts", _PART_KEYS)
    parts = tuple(_part(table, package) for table in tables)
    _refuse_repetition(parts, tables)
    manifest = Manifest(
        title=head.text("title"),
        package=package,
        points=head.whole("points", least=1),
        extra_credit=head.whole("extra_credit", least=0),
        parts=parts,
    )
    _refuse_wrong_totals(manifest, head)
    return manifest


def _part(table: Table, package: str) -> Part:
    limits = table.table("limits", ("seconds", "memory_mib"))
    hints = table.table("hints", ("ladder",))
    return Part(
        number=table.whole("number", least=1),
        slug=table.text("slug", pattern="[a-z][a-z0-9_]*", wanted="lower-case letters, digits and underscores"),
        title=table.text("title"),
        file=table.text(
            "file", pattern=rf"{package}/{_IDENTIFIER}\.py", wanted=f"a Python file in the package, `{package}/SLUG.py`"
        ),
        exports=table.texts("exports", pattern=_IDENTIFIER, wanted="a list of one or more Python names"),
        points=table.whole("points", least=1),
        extra_credit=table.flag("extra_credit"),
        public_share=table.share("public_share"),
        built=table.flag("built"),
        ready_made_attention=table.flag("ready_made_attention"),
        uses=table.texts("uses", wanted="a list of the slugs of earlier parts", least=0),
        limits=Limits(seconds=limits.whole("seconds", least=1), memory_mib=limits.whole("memory_mib", least=1)),
        hints=hints.texts("ladder", wanted=f"a list of {_RUNGS} texts that are not empty", count=_RUNGS),
    )


def _refuse_repetition(parts: tuple[Part, ...], tables: list[Table]) -> None:
    """Slugs and exports belong to one part each, files are named after their part, the numbers are 1 to n in order, and a part
    uses only what comes before it: a part that had a later one's work done for it could have its own done that way.
    """
    slugs: set[str] = set()
    exports: set[str] = set()
    for position, (part, table) in enumerate(zip(parts, tables, strict=True), start=1):
        if part.number != position:
            raise table.wrong("number", f"`number` must be {position}, not {part.number}: parts are numbered in order, from 1")
        if part.slug in slugs:
            raise table.wrong("slug", f'`slug` "{part.slug}" is already that of another part')
        if Path(part.file).stem != part.slug:
            raise table.wrong("file", f'`file` must be named after the part, "{part.slug}.py", and is "{part.file}"')
        if unknown := [slug for slug in part.uses if slug not in slugs]:
            raise table.wrong("uses", f'`uses` has "{unknown[0]}", which is no earlier part')
        for name in part.exports:
            if name in exports:
                raise table.wrong("exports", f'`exports` has "{name}" a second time; each name belongs to one part')
            exports.add(name)
        slugs.add(part.slug)


def _refuse_wrong_totals(manifest: Manifest, head: Table) -> None:
    for key, total, kind in (("points", manifest.points, False), ("extra_credit", manifest.extra_credit, True)):
        found = sum(part.points for part in manifest.parts if part.extra_credit is kind)
        if found != total:
            which = "are extra credit" if kind else "are not extra credit"
            raise head.wrong(key, f"`{key}` is {total}, but the points of the parts that {which} add up to {found}")
