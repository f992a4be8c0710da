"""What is generated: stubs and questions from the reference, what the kit knows of the parts, a notebook, the handout's tables.

`make template` writes them, and nobody edits them by hand. Below `student_template/`, `attention/*.py` come from
`solutions/attention/*.py`, `report.md` from the model answers in `solutions/report.md`, `checks/parts.json` from the manifest,
the questions and the count of hidden checks, and `explore.ipynb` from the script beside it. Stubs and report carry no banner
that says so, since they are what a student edits; a test holds them to this module.

A reference marks what students write with lines `# BEGIN SOLUTION` and `# END SOLUTION`, as Otter does. In a function
such a region becomes `raise NotImplementedError("part 3: MultiHeadAttention.forward")`; outside of functions (helpers, and
imports that only the solution needs) it goes away without a trace. `questions.py` does the same for the report.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from checks.errors import BadUsage
from checks.written import FILE as REPORT

from . import questions
from .handout import tables
from .manifest import Manifest, Part

BEGIN, END = "# BEGIN SOLUTION", "# END SOLUTION"
_NEARLY_A_MARKER = re.compile(r"#\s*(begin|end)\s*solution", re.IGNORECASE)


class TemplateError(BadUsage):
    """A reference file whose solution regions cannot be taken out. The text is `solutions/FILE line N: reason`."""


@dataclass(frozen=True)
class Region:
    """One solution region: the lines of its two markers, counted from 1, and how far the first is indented."""

    begin: int
    end: int
    indent: str

    def __contains__(self, line: int) -> bool:
        return self.begin <= line <= self.end


def strip(source: str, part: Part) -> str:
    """The stub of `part` whose reference is `source`. Raises TemplateError; changes nothing outside the regions."""
    lines = source.splitlines()
    tree = _parse(source, part.file, "the reference is not Python")
    kept: list[str] = []
    done = 0
    for region in regions(source, part.file):
        kept += lines[done : region.begin - 1]
        done = region.end
        if not any(isinstance(node, ast.stmt) and node.lineno in region for node in ast.walk(tree)):
            raise _wrong(part.file, region.begin, "this region has no statement in it")
        if owner := _owner(tree, region.begin):
            kept.append(f'{region.indent}raise NotImplementedError("part {part.number}: {owner}")')
        else:  # with the empty lines above it, so that those below it set the distance
            while kept and not kept[-1].strip():
                kept.pop()
    stub = "\n".join([*kept, *lines[done:]]).rstrip() + "\n"
    _parse(stub, part.file, "without its solution the file is no longer Python")
    return stub


def regions(source: str, file: str) -> list[Region]:
    """The solution regions of `source`, in order. `file` is for messages: `attention/masking.py`."""
    found: list[Region] = []
    opened: Region | None = None
    for number, line in enumerate(source.splitlines(), start=1):
        marker = line.strip()
        if marker == BEGIN:
            if opened:
                raise _wrong(file, number, f"`{BEGIN}` inside the region that began in line {opened.begin}")
            opened = Region(number, number, line[: len(line) - len(line.lstrip())])
        elif marker == END:
            if not opened:
                raise _wrong(file, number, f"`{END}` without a `{BEGIN}` before it")
            found.append(Region(opened.begin, number, opened.indent))
            opened = None
        elif _NEARLY_A_MARKER.match(marker):
            raise _wrong(file, number, f"a marker is `{BEGIN}` or `{END}`, on a line of its own, to the letter")
    if opened:
        raise _wrong(file, opened.begin, f"`{BEGIN}` without an `{END}` after it")
    return found


def _parse(source: str, file: str, complaint: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError as error:
        raise _wrong(file, error.lineno or 1, f"{complaint} ({error.msg})") from None


def _owner(tree: ast.Module, line: int) -> str:
    """The qualified name of the innermost function around `line`, unless a class or nothing is nearer."""
    names: list[str] = []
    inside_function = False
    body: list[ast.AST] = [tree]
    while body:
        body = [child for node in body for child in ast.iter_child_nodes(node)]
        for node in body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if node.lineno < line <= (node.end_lineno or node.lineno):
                names.append(node.name)
                inside_function = not isinstance(node, ast.ClassDef)
    return ".".join(names) if inside_function else ""


def stubs(manifest: Manifest, repo_root: Path) -> dict[str, str]:
    """Path in the student's copy to text, for every generated file of the package: the built parts and `__init__.py`."""
    init = f"{manifest.package}/__init__.py"
    texts = {init: _reference(repo_root, init)}
    for part in manifest.built:
        texts[part.file] = strip(_reference(repo_root, part.file), part)
    return texts


def report(repo_root: Path) -> str:
    """The student's `report.md`: the questions, without the model answers."""
    return questions.strip(_reference(repo_root, REPORT))


def parts_json(manifest: Manifest, hidden: Mapping[str, tuple[int, float]], given_report: str) -> str:
    """What the check kit knows of the built parts and of the questions in `given_report`, which is the student's copy.

    `hidden` gives each slug's number of hidden checks and their points.
    """
    parts = []
    for part in manifest.built:
        hidden_checks, hidden_points = hidden.get(part.slug, (0, 0.0))
        parts.append(
            {
                "number": part.number,
                "slug": part.slug,
                "title": part.title,
                "file": part.file,
                "exports": part.exports,
                "points": part.points,
                "extra_credit": part.extra_credit,
                "ready_made_attention": part.ready_made_attention,
                "uses": part.uses,
                "hints": part.hints,
                "hidden_checks": hidden_checks,
                "hidden_points": hidden_points,
            }
        )
    document = {"generated_by": "make template", "package": manifest.package, "parts": parts}
    document["questions"] = [asdict(question) for question in questions.questions(given_report)]
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def notebook(script: str) -> str:
    """The notebook of a script whose cells begin with `# %%`: no outputs, and nothing in it that another run would change."""
    import jupytext  # slow to import, and needed here alone
    import nbformat

    made = jupytext.reads(script, fmt="py:percent")
    for number, cell in enumerate(made.cells, start=1):
        cell["id"] = f"cell-{number:02}"  # instead of a random one
    made.metadata = nbformat.from_dict(
        {
            "generated_by": "make template, from explore.py",
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    made.nbformat, made.nbformat_minor = 4, 5
    nbformat.validate(made)
    return str(nbformat.writes(made, indent=1)) + "\n"


def write(manifest: Manifest, repo_root: Path, hidden: Mapping[str, tuple[int, float]]) -> list[Path]:
    """Write the generated files below `student_template/` and the handout's tables; remove the stubs of parts that are not built.

    Returns the files written. The same input gives the same bytes.
    """
    student = repo_root / "student_template"
    given_report = report(repo_root)
    texts = stubs(manifest, repo_root) | {REPORT: given_report}
    texts["checks/parts.json"] = parts_json(manifest, hidden, given_report)
    texts["explore.ipynb"] = notebook((student / "explore.py").read_text(encoding="utf-8"))
    for part in manifest.parts:
        if not part.built:
            (student / part.file).unlink(missing_ok=True)
    paths = {student / name: text for name, text in texts.items()}
    handout = repo_root / "assignment" / "handout.md"
    if handout.exists():
        paths[handout] = tables.filled(handout.read_text(encoding="utf-8"), manifest, hidden)
    written = []
    for path, text in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
        written.append(path)
    return written


def _reference(repo_root: Path, file: str) -> str:
    path = repo_root / "solutions" / file
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TemplateError(f"there is no {path}; write the reference, or mark its part `built = false`") from None


def _wrong(file: str, line: int, reason: str) -> TemplateError:
    return TemplateError(f"solutions/{file} line {line}: {reason}")
