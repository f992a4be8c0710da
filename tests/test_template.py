"""What students get: it is what the generator writes, it says where to begin, and it holds nothing of the solution."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograder import manifest, template
from autograder.template import TemplateError

ROOT = Path(__file__).resolve().parents[1]
STUDENT = ROOT / "student_template"
ASSIGNMENT = manifest.load(manifest.default_path())
PART = ASSIGNMENT.part("multi_head")
UNBUILT = replace(  # the same, its last part not built
    ASSIGNMENT, parts=(*ASSIGNMENT.parts[:-1], replace(ASSIGNMENT.parts[-1], built=False))
)
SHORTEST = 12  # a shorter line, `else:` or `return x`, says nothing about a solution


def bare(line: str) -> str:
    """The line without its indentation and the comment at its end, spaces folded: what a copy of it would share."""
    return " ".join(re.sub(r"(^|\s)#\s.*$", "", line).split())


def test_committed_stubs_are_what_the_generator_writes() -> None:
    generated = template.stubs(ASSIGNMENT, ROOT)
    committed = {f"attention/{path.name}": path.read_text(encoding="utf-8") for path in (STUDENT / "attention").glob("*.py")}
    assert committed == generated, "run `make template`"
    assert (STUDENT / "report.md").read_text(encoding="utf-8") == template.report(ROOT), "run `make template`"


def test_the_committed_notebook_is_the_scripts() -> None:
    generated = template.notebook((STUDENT / "explore.py").read_text(encoding="utf-8"))
    assert (STUDENT / "explore.ipynb").read_text(encoding="utf-8") == generated, "run `make template`"


def test_no_line_of_a_solution_is_in_what_students_get() -> None:
    """Not even inside a longer line, in any file, comments of solutions included; only lines under 12 characters go free."""
    secret: dict[str, str] = {}
    for part in ASSIGNMENT.built:
        source = (ROOT / "solutions" / part.file).read_text(encoding="utf-8")
        lines = source.splitlines()
        for region in template.regions(source, part.file):
            for number in range(region.begin + 1, region.end):
                for text in (bare(lines[number - 1]), " ".join(lines[number - 1].split())):
                    if len(text) >= SHORTEST:
                        secret[text] = f"{part.file}:{number}"
    model, questions = (
        (folder / "report.md").read_text(encoding="utf-8").splitlines() for folder in (ROOT / "solutions", STUDENT)
    )
    answers = ((number, line) for number, line in enumerate(model, start=1) if len(line) >= SHORTEST and line not in questions)
    secret |= {line: f"report.md:{number}" for number, line in answers}
    assert len(secret) > 80
    for path in sorted(STUDENT.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            given = " ".join(path.read_text(encoding="utf-8", errors="replace").split())
            found = {place: line for line, place in secret.items() if line in given}
            assert not found, f"{path.relative_to(ROOT)} gives away {found}"


def test_every_export_is_a_stub_that_says_its_part() -> None:
    for part in ASSIGNMENT.built:
        raised = re.findall(r'raise NotImplementedError\("(.*)"\)', (STUDENT / part.file).read_text(encoding="utf-8"))
        owners = [name.removeprefix(f"part {part.number}: ") for name in raised]
        assert all(name.startswith(f"part {part.number}: ") for name in raised)
        given = re.findall(r"^class (\w+)\(NamedTuple\):$", (STUDENT / part.file).read_text(encoding="utf-8"), re.MULTILINE)
        assert {owner.split(".")[0] for owner in owners} == set(part.exports) - set(given)
    assert 'raise NotImplementedError("part 3: MultiHeadAttention.__init__")' in (STUDENT / PART.file).read_text(encoding="utf-8")
    assert 'raise NotImplementedError("part 3: MultiHeadAttention.forward")' in (STUDENT / PART.file).read_text(encoding="utf-8")


def stub(slug: str) -> Any:
    path = STUDENT / ASSIGNMENT.part(slug).file
    spec = importlib.util.spec_from_file_location(f"stub_{slug}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_calling_a_stub_says_which_part_is_not_done() -> None:
    with pytest.raises(NotImplementedError, match=r"^part 1: scaled_dot_product_attention$"):
        stub("scaled_dot_product").scaled_dot_product_attention(None, None, None)
    with pytest.raises(NotImplementedError, match=r"^part 2: causal_mask$"):
        stub("masking").causal_mask(3)
    with pytest.raises(NotImplementedError, match=r"^part 2: masked_attention$"):
        stub("masking").masked_attention(None, None, None)
    with pytest.raises(NotImplementedError, match=r"^part 3: MultiHeadAttention.__init__$"):
        stub("multi_head").MultiHeadAttention(12, 4)


def test_stubs_keep_signatures_and_docstrings() -> None:
    def described(path: Path) -> dict[str, tuple[str, str | None]]:
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        found = [node for node in nodes if isinstance(node, ast.FunctionDef)]
        return {node.name: (ast.unparse(node.args), ast.get_docstring(node)) for node in found}

    for part in ASSIGNMENT.built:
        kept, whole = described(STUDENT / part.file), described(ROOT / "solutions" / part.file)
        assert kept
        assert {name: whole[name] for name in kept} == kept
        assert all(docstring for _, docstring in kept.values())


REFERENCE = '''\
"""A part."""

import torch
# BEGIN SOLUTION
import math

HELPER = 1
# END SOLUTION


class Layer:
    def __init__(self):
        """Make it."""
        super().__init__()
        # BEGIN SOLUTION
        self.a = math.pi
        # END SOLUTION

    # BEGIN SOLUTION
    def _help(self):
        return self.a
    # END SOLUTION

    async def forward(self, x):
        def inner():
            # BEGIN SOLUTION
            return x
            # END SOLUTION

        return inner


# BEGIN SOLUTION
def helper():
    return 1
# END SOLUTION
'''

STUB = '''\
"""A part."""

import torch


class Layer:
    def __init__(self):
        """Make it."""
        super().__init__()
        raise NotImplementedError("part 3: Layer.__init__")

    async def forward(self, x):
        def inner():
            raise NotImplementedError("part 3: Layer.forward.inner")

        return inner
'''


def test_regions_become_raises_in_functions_and_vanish_elsewhere() -> None:
    assert template.strip(REFERENCE, PART) == STUB
    assert template.strip(STUB, PART) == STUB


@pytest.mark.parametrize(
    ("source", "line", "reason"),
    [
        ("x = 1\n# BEGIN SOLUTION\ny = 2\n", 2, "without an `# END SOLUTION` after it"),
        ("x = 1\n# END SOLUTION\n", 2, "without a `# BEGIN SOLUTION` before it"),
        ("# BEGIN SOLUTION\nx = 1\n# BEGIN SOLUTION\n# END SOLUTION\n", 3, "inside the region that began in line 1"),
        ("x = 1\n#BEGIN SOLUTION\ny = 2\n#END SOLUTION\n", 2, "to the letter"),
        ("# Begin solution\ny = 2\n# END SOLUTION\n", 1, "to the letter"),
        ("def f():\n    '''Doc.'''\n    # BEGIN SOLUTION\n    # END SOLUTION\n", 3, "has no statement in it"),
        ("if True:\n    # BEGIN SOLUTION\n    x = 1\n    # END SOLUTION\n", 1, "without its solution the file is no longer"),
        ("def f(:\n", 1, "the reference is not Python"),
    ],
)
def test_a_reference_that_cannot_be_stripped_is_refused(source: str, line: int, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        template.strip(source, PART)
    assert str(caught.value).startswith(f"solutions/attention/multi_head.py line {line}: ")
    assert reason in str(caught.value)


def copy_of_solutions(folder: Path) -> Path:
    for path in [*(ROOT / "solutions").rglob("*.py"), ROOT / "solutions" / "report.md"]:
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    (folder / "student_template").mkdir()
    shutil.copy(STUDENT / "explore.py", folder / "student_template")
    return folder


def test_writing_is_repeatable_and_removes_what_is_not_built(tmp_path: Path) -> None:
    root = copy_of_solutions(tmp_path)
    stale = root / "student_template" / "attention" / "streaming.py"
    stale.parent.mkdir(parents=True)
    stale.write_text("raise SystemExit\n")
    written = template.write(UNBUILT, root, {"masking": (10, 12.0)})
    assert not stale.exists()
    names = {path.relative_to(root / "student_template").as_posix() for path in written}
    generated = {"attention/__init__.py", "report.md", "checks/parts.json", "explore.ipynb"}
    assert names == {*generated, *(part.file for part in UNBUILT.built)}
    first = {path: path.read_bytes() for path in written}
    template.write(UNBUILT, root, {"masking": (10, 12.0)})
    assert {path: path.read_bytes() for path in written} == first


def test_parts_json_tells_the_kit_what_it_needs_of_built_parts_only() -> None:
    text = template.parts_json(UNBUILT, {"masking": (10, 12.0)}, "## Question 1: Why?\n\nSay\nit.\n")
    document = json.loads(text)
    assert (document["generated_by"], document["package"]) == ("make template", "attention")
    assert [part["slug"] for part in document["parts"]] == [part.slug for part in UNBUILT.built]
    assert "streaming" not in text
    masking = document["parts"][1]
    assert masking["file"] == "attention/masking.py"
    assert masking["exports"] == ["causal_mask", "masked_attention"]
    assert (masking["hidden_checks"], masking["hidden_points"]) == (10, 12.0)
    assert document["questions"] == [{"number": 1, "title": "Why?", "given": ["Say it."]}]


def test_a_missing_reference_is_one_clear_sentence(tmp_path: Path) -> None:
    root = copy_of_solutions(tmp_path)
    (root / "solutions" / "attention" / "masking.py").unlink()
    with pytest.raises(TemplateError, match=r"there is no .*masking\.py; write the reference"):
        template.write(ASSIGNMENT, root, {})
