"""The handout: its tables are the manifest's, its code prints what it says, and what is built of it needs nothing else."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from autograder import catalog, manifest
from autograder.handout import build, tables
from checks.errors import BadUsage

from .support import ROOT

ASSIGNMENT = manifest.load(manifest.default_path())
TEXT = build.SOURCE.read_text("utf-8")


@dataclass(frozen=True)
class Block:
    line: int
    kind: str  # "python", "text", "{.python .stub}"
    code: str


BLOCKS = [
    Block(TEXT.count("\n", 0, found.start()) + 1, found[1], found[2])
    for found in re.finditer(r"^```([^\n`]*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
]
HIDDEN = {"masking": (3, 12.0)}


def test_its_tables_are_the_manifests() -> None:
    assert tables.filled(TEXT, ASSIGNMENT, catalog.hidden_counts(ASSIGNMENT)) == TEXT, "run `make template`"
    assert set(re.findall(r"<!-- generated: (\w+) -->", TEXT)) == {"points", "names", "limits"}
    for part in ASSIGNMENT.built:
        assert TEXT.count(f"{{#part-{part.number}}}") == 1
        assert f"*File `{part.file}`." in TEXT


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<!-- generated: colours -->\n<!-- end generated -->", "line 1: there is no table 'colours'"),
        ("\n<!-- generated: names -->\n", "line 2: this table has no"),
        ("<!-- end generated -->", "line 1: .* without a table before it"),
        ("<!-- generated: names -->\n<!-- generated: names -->\n", "line 2: a generated table inside"),
    ],
)
def test_marks_that_make_no_table_are_refused(text: str, told: str) -> None:
    with pytest.raises(BadUsage, match=told):
        tables.filled(text, ASSIGNMENT, HIDDEN)


def test_every_code_block_runs_and_prints_what_stands_under_it() -> None:
    """All of them in one process, one after the other, as a student would type them."""
    program = []
    for block, after in zip(BLOCKS, [*BLOCKS[1:], Block(0, "", "")], strict=True):
        assert block.kind in ("python", "text", "sh", "{.python .stub}"), f"line {block.line}: {block.kind} is no kind of block"
        if block.kind == "python":
            assert after.kind == "text", f"the block in line {block.line} shows nothing"
            program.append(f"exec(compile({block.code!r}, 'handout.md, block in line {block.line}', 'exec'))\nprint('--8<--')\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "solutions"), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        [sys.executable, "-"], input="".join(program), capture_output=True, text=True, env=environment, check=False
    )
    assert ran.returncode == 0, ran.stderr
    shown = [block for block in BLOCKS if block.kind == "text"]
    assert len(shown) == len(program)
    for block, printed in zip(shown, ran.stdout.split("--8<--\n"), strict=False):
        assert printed == block.code, f"the output in line {block.line} is another"


def test_signatures_are_those_of_the_reference() -> None:
    stubs = [block for block in BLOCKS if block.kind == "{.python .stub}"]
    assert len(stubs) == len(ASSIGNMENT.built)
    for block, part in zip(stubs, ASSIGNMENT.built, strict=True):
        given, reference = _arguments(block.code), _arguments((ROOT / "solutions" / part.file).read_text("utf-8"))
        assert {name: reference[name] for name in given} == given, f"line {block.line}"
        assert {name.split(".")[0] for name in given} == set(part.exports)


def _arguments(source: str) -> dict[str, str]:
    """Of every function its arguments with their defaults, without annotations; of every class nothing but its name."""
    found: dict[str, str] = {}
    for node in ast.parse(source).body:
        for each in [node, *(node.body if isinstance(node, ast.ClassDef) else [])]:
            name = getattr(each, "name", "")
            if isinstance(each, ast.FunctionDef):
                for argument in ast.walk(each.args):
                    if isinstance(argument, ast.arg):
                        argument.annotation = None
                found[name if each is node else f"{getattr(node, 'name', '')}.{name}"] = ast.unparse(each.args)
            elif isinstance(each, ast.ClassDef):
                found[name] = ""
    return found


def test_the_page_is_whole_by_itself() -> None:
    page = build.html()
    assert page == build.html(), "the same text gives the same bytes"
    assert page.startswith("<!DOCTYPE html>")
    for tag in re.findall(r"<(?:img|link|script|source|iframe|image|use)\b[^>]*>", page):
        assert not re.search(r'\b(?:src|href|srcset)="(?!data:|#)', tag), tag[:200]
    assert "@import" not in page
    assert not re.search(r"url\(\s*['\"]?(?!data:|#|['\"]?#)", re.sub(r'"data:[^"]*"', "", page))
    assert page.count("<figure") == len(re.findall(r"^!\[", TEXT, re.MULTILINE))
    assert page.count('<details class="hint">') == TEXT.count("::: {.hint") > 5
    assert page.count('<aside class="box">') == TEXT.count("::: {.box")
    assert "<strong>Figure 1:</strong>" in page
    assert page.count("<math") > 40
    assert not re.search(r"\$[^$<]*\\", page), "a formula was left as it was written"
    assert ":::" not in page
    anchors = set(re.findall(r'\bid="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= anchors


def test_the_pdf_is_whole_and_the_same_each_time() -> None:
    printed = build.pdf()
    assert printed.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) > 8
    assert printed == build.pdf()


def test_a_missing_handout_and_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="There is no handout"):
        build.write(tmp_path, tmp_path / "none.md")
    (tmp_path / "file").write_text("")
    with pytest.raises(BadUsage, match="choose another folder with --out"):
        build.write(tmp_path / "file" / "dist")
