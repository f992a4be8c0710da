"""The manifest: this repository's own is right, and a malformed one is refused with its line and the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder import manifest
from autograder.manifest import Limits, ManifestError
from checks.errors import BadUsage

SMALL = """\
[assignment]
title = "Two parts"
package = "attention"
points = 20
extra_credit = 5

[[parts]]
number = 1
slug = "first"
title = "The first"
file = "attention/first.py"
exports = ["one", "two"]
points = 20
extra_credit = false
public_share = 0.4
built = true
ready_made_attention = false
uses = []

[parts.limits]
seconds = 2
memory_mib = 512

[parts.hints]
ladder = ["A question?", "Look there.", "The idea."]

# Between two parts.
[[parts]]
number = 2
slug = "second"
title = "The second"
file = "attention/second.py"
exports = ["three"]
points = 5
extra_credit = true
public_share = 1
built = false
ready_made_attention = true
uses = ["first"]

[parts.limits]
seconds = 9
memory_mib = 64

[parts.hints]
ladder = [
    "points = 1",
    "Look here.",
    "Another idea.",
]
"""


def load(tmp_path: Path, text: str) -> manifest.Manifest:
    path = tmp_path / "assignment.toml"
    path.write_text(text, encoding="utf-8")
    return manifest.load(path)


def line_of(text: str, wanted: str, occurrence: int = 1) -> int:
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if line.startswith(wanted)]
    return lines[occurrence - 1]


def test_this_repositorys_manifest_is_the_assignment() -> None:
    assignment = manifest.load(manifest.default_path())
    assert (assignment.package, assignment.points, assignment.extra_credit) == ("attention", 100, 10)
    assert [(part.number, part.slug, part.points) for part in assignment.parts] == [
        (1, "scaled_dot_product", 20),
        (2, "masking", 20),
        (3, "multi_head", 25),
        (4, "library", 10),
        (5, "saturation", 5),
        (6, "complexity", 5),
        (7, "forecasting", 15),
        (8, "streaming", 10),
    ]
    assert [part.slug for part in assignment.parts if part.extra_credit] == ["streaming"]
    assert [part.slug for part in assignment.parts if part.ready_made_attention] == ["library"]
    assert all(part.file == f"attention/{part.slug}.py" for part in assignment.parts)


def test_hints_ask_first_and_never_give_code() -> None:
    for part in manifest.load(manifest.default_path()).parts:
        assert "?" in part.hints[0], part.slug
        for hint in part.hints:
            assert not any(sign in hint for sign in ("`", " = ", "torch.", "@ ", "();")), hint


def test_every_field_is_read(tmp_path: Path) -> None:
    first, second = load(tmp_path, SMALL).parts
    assert (first.title, first.file, first.exports, first.public_share) == (
        "The first",
        "attention/first.py",
        ("one", "two"),
        0.4,
    )
    assert (first.built, first.extra_credit, first.ready_made_attention) == (True, False, False)
    assert (second.built, second.extra_credit, second.ready_made_attention) == (False, True, True)
    assert (first.uses, second.uses) == ((), ("first",))
    assert second.limits == Limits(seconds=9, memory_mib=64)
    assert second.hints == ("points = 1", "Look here.", "Another idea.")


def test_parts_are_found_by_slug_and_number(tmp_path: Path) -> None:
    small = load(tmp_path, SMALL)
    assert [part.slug for part in small.built] == ["first"]
    assert small.part("second") is small.part(2) is small.part("2")
    with pytest.raises(BadUsage, match=r"^there is no part 9; the parts are 1 \(first\)$"):
        small.part(9)


# What to replace, by what, and the line (of the replaced text, unless another is named) and reason of the message.
WRONG = [
    ("number = 1", "number = 3", "", "`number` must be 1, not 3"),
    ("number = 2", "number = 1", "", "`number` must be 2, not 1"),
    ("number = 2", "number = true", "", "`number` must be a whole number, not true"),
    ('slug = "first"', 'slug = "First-Part"', "", '`slug` must be lower-case letters, digits and underscores, not "First-Part"'),
    ('slug = "second"', 'slug = "first"', "", '`slug` "first" is already that of another part'),
    ('title = "The first"', 'title = "  "', "", '`title` must be text that is not empty, not "  "'),
    ('title = "The first"', "title = 7", "", "`title` must be text that is not empty, not 7"),
    ('file = "attention/first.py"', 'file = "elsewhere/first.py"', "", "`file` must be a Python file in the package"),
    ('file = "attention/first.py"', 'file = "attention/../first.py"', "", "`file` must be a Python file in the package"),
    ('file = "attention/second.py"', 'file = "attention/first.py"', "", "`file` must be named after the part"),
    ('exports = ["three"]', "exports = []", "", "`exports` must be a list of one or more Python names, not []"),
    ('exports = ["three"]', 'exports = ["not one"]', "", '`exports` must be a list of one or more Python names, not ["not one"]'),
    ('exports = ["three"]', 'exports = ["two"]', "", '`exports` has "two" a second time'),
    ('exports = ["three"]', 'exports = ["three", "three"]', "", '`exports` has "three" a second time'),
    ("points = 5\n", 'points = "twenty"\n', "", '`points` must be a whole number, not "twenty"'),
    ("points = 5\n", "points = 5.0\n", "", "`points` must be a whole number, not 5.0"),
    ("points = 5\n", "points = 0\n", "", "`points` must be at least 1, not 0"),
    ("points = 5\n", "points = 6\n", "extra_credit = 5", "are extra credit add up to 6"),
    ("extra_credit = true", "extra_credit = false", "points = 20", "are not extra credit add up to 25"),
    ("extra_credit = true", "extra_credit = 1", "", "`extra_credit` must be true or false, not 1"),
    ("public_share = 0.4", "public_share = 40", "", "`public_share` must be a number from 0 to 1, not 40"),
    ("public_share = 0.4", "public_share = nan", "", "`public_share` must be a number from 0 to 1, not NaN"),
    ("public_share = 0.4", "public_share = -0.1", "", "`public_share` must be a number from 0 to 1, not -0.1"),
    ('uses = ["first"]', 'uses = ["second"]', "", '`uses` has "second", which is no earlier part'),
    ("uses = []", 'uses = ["second"]', "", '`uses` has "second", which is no earlier part'),
    ('uses = ["first"]', "uses = [1]", "", "`uses` must be a list of the slugs of earlier parts, not [1]"),
    ("seconds = 9", "seconds = 0", "", "`seconds` must be at least 1, not 0"),
    ("memory_mib = 64", "memory_mib = -64", "", "`memory_mib` must be at least 1, not -64"),
    ("memory_mib = 64", "memory_gib = 64", "", "`memory_gib` is not a key of [parts.limits]; its keys are seconds, memory_mib"),
    ("memory_mib = 64\n", "", "[parts.limits]@2", "[parts.limits] has no `memory_mib`"),
    ("built = false\n", "", "[[parts]]@2", "[parts] has no `built`"),
    ("built = false", "buildt = false", "", "`buildt` is not a key of [parts]"),
    ('    "Another idea.",\n', "", "ladder = [@2", "`ladder` must be a list of 3 texts that are not empty"),
    ('"Look there."', '""', "ladder = [", "`ladder` must be a list of 3 texts that are not empty"),
    ('"Look there."', "2", "ladder = [", "`ladder` must be a list of 3 texts that are not empty"),
    ('package = "attention"', 'package = "my package"', "", '`package` must be a Python name, not "my package"'),
    ("[assignment]", "extra = 1\n[assignment]", "extra = 1", "`extra` is not a key of the file"),
    ("seconds = 9", "seconds = 9 9", "", "this is not TOML: "),
    ('slug = "first"', 'slug = "first"\nslug = "again"', 'slug = "again"', "this is not TOML: "),
    ('title = "Two parts"', 'title = "Two parts', "", "this is not TOML: "),
]


@pytest.mark.parametrize(
    ("old", "new", "place", "reason"), WRONG, ids=[f"{wrong[0].strip()} → {wrong[1].strip()}" for wrong in WRONG]
)
def test_a_malformed_manifest_is_refused_with_line_and_reason(
    tmp_path: Path, old: str, new: str, place: str, reason: str
) -> None:
    assert SMALL.count(old) >= 1
    before, _, after = SMALL.rpartition(old)
    text = before + new + after
    prefix, _, occurrence = (place or new).strip().partition("@")
    expected = line_of(text, prefix.split("\n")[0], int(occurrence or 1))
    if not place:  # the same text may stand in an earlier part
        expected = before.count("\n") + 1
    with pytest.raises(ManifestError) as caught:
        load(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(f"assignment.toml line {expected}: ")
    assert reason in message


def test_limits_that_are_no_table_and_parts_that_are_no_list(tmp_path: Path) -> None:
    inline = SMALL.replace("[parts.limits]\nseconds = 2\nmemory_mib = 512\n", "limits = 2\n")
    with pytest.raises(ManifestError, match=rf"line {line_of(inline, 'limits = 2')}: `limits` must be a table, not 2"):
        load(tmp_path, inline)
    head = SMALL.partition("[[parts]]")[0]
    with pytest.raises(ManifestError, match=r"line 6: `parts` must be one or more \[\[parts\]\] tables, not a table"):
        load(tmp_path, head.rstrip() + "\n[parts]\nnumber = 1\n")
    with pytest.raises(ManifestError, match=r"line 1: the file has no `parts`"):
        load(tmp_path, head)


def test_an_inline_table_is_placed_on_its_own_line(tmp_path: Path) -> None:
    text = SMALL.replace("[parts.limits]\nseconds = 2\nmemory_mib = 512\n", "limits = { seconds = 0, memory_mib = 512 }\n")
    with pytest.raises(ManifestError, match=rf"line {line_of(text, 'limits')}: `seconds` must be at least 1"):
        load(tmp_path, text)


def test_a_missing_or_unreadable_manifest_is_bad_usage(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match=r"^there is no manifest at .*nowhere\.toml$"):
        manifest.load(tmp_path / "nowhere.toml")
    (tmp_path / "latin1.toml").write_bytes('title = "caf\u00e9"'.encode("latin-1"))
    with pytest.raises(BadUsage, match="cannot be read as UTF-8 text"):
        manifest.load(tmp_path / "latin1.toml")
