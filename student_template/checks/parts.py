"""The parts of the assignment as a student's copy knows them: read from `parts.json`, which is generated from the manifest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from .errors import BadUsage
from .executor import Layout
from .written import Question


@dataclass(frozen=True)
class PartInfo:
    number: int
    slug: str
    title: str
    file: str
    exports: tuple[str, ...]
    points: float
    extra_credit: bool
    ready_made_attention: bool
    uses: tuple[str, ...]  # slugs of the earlier parts that it may call
    hints: tuple[str, ...]
    hidden_checks: int
    hidden_points: float


@dataclass(frozen=True)
class Assignment:
    package: str
    parts: tuple[PartInfo, ...]
    questions: tuple[Question, ...]  # the written ones

    @property
    def layout(self) -> Layout:
        exports = {name: part.slug for part in self.parts for name in part.exports}
        return Layout(self.package, exports, frozenset(part.slug for part in self.parts if part.ready_made_attention))

    @property
    def uses(self) -> dict[str, tuple[str, ...]]:
        """Of each part the earlier ones that it may call."""
        return {part.slug: part.uses for part in self.parts}

    def chosen(self, part: str | None) -> tuple[PartInfo, ...]:
        """All parts, or the one of this number or name; BadUsage where there is no such part."""
        if part is None:
            return self.parts
        found = tuple(each for each in self.parts if part in (str(each.number), each.slug))
        if not found:
            listed = ", ".join(f"{each.number} ({each.slug})" for each in self.parts)
            raise BadUsage(f"There is no part {part!r}: choose one of {listed}.")
        return found


def read() -> Assignment:
    """Read the generated description beside this file."""
    raw = json.loads(Path(__file__).with_name("parts.json").read_text("utf-8"))
    lists = ("exports", "uses", "hints")
    parts = tuple(PartInfo(**{**part, **{name: tuple(part[name]) for name in lists}}) for part in raw["parts"])
    questions = tuple(Question(each["number"], each["title"], tuple(each["given"])) for each in raw["questions"])
    return Assignment(raw["package"], parts, questions)
