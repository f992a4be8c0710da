"""Right files to stand where a student's wrong ones are, while another part that uses them is checked.

Each part is graded alone. Where a check of a part fails and a part that this one may call is wrong too, the check is run once
more with the file of that other part exchanged for the one of the same name in here. These files answer by the library's
own attention, which the parts themselves may not call: they show nothing of how a part is done. Nobody imports them; they
are read as text and put among the student's sources.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from ..executor import Layout


def exchanged(sources: Mapping[str, str], layout: Layout, slugs: Collection[str]) -> tuple[Mapping[str, str], Layout]:
    """The sources with the files of these parts exchanged, and the layout that says so."""
    if not slugs:
        return sources, layout
    texts = {f"{layout.package}/{slug}.py": Path(__file__).with_name(f"{slug}.py").read_text("utf-8") for slug in slugs}
    return {**sources, **texts}, replace(layout, substitutes=frozenset(slugs))
