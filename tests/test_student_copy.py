"""A student's copy by itself, moved elsewhere: make, `python -m checks` and plain pytest, on the stubs and on a solution."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autograder import catalog, template

from .support import MANIFEST, ROOT, all_checks

PUBLIC = [check for check in all_checks() if not check.hidden]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """student_template, alone, in a folder with a space in its name."""
    ignore = shutil.ignore_patterns("__pycache__", ".venv", ".pytest_cache")
    return Path(shutil.copytree(ROOT / "student_template", tmp_path / "my homework", ignore=ignore))


def run(copy: Path, *command: object) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SUBMISSION")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=copy, env=environment, capture_output=True, text=True, timeout=300, check=False)


def solve(copy: Path, *files: str) -> None:
    for file in files:
        shutil.copy(ROOT / "solutions" / file, copy / file)


def test_stubs(copy: Path) -> None:
    ran = run(copy, sys.executable, "-m", "checks")
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.count("not started") == len(PUBLIC)
    hidden = len(all_checks()) - len(PUBLIC)
    points = sum(part.points for part in MANIFEST.built) - sum(check.points for check in PUBLIC)
    assert f"0 of {len(PUBLIC)} public checks; {hidden} more, worth {points:g} points, run when it is graded." in ran.stdout
    assert "report.md: questions 1, 2, 3, 4 and 5 untouched." in ran.stdout
    assert "Next: start part 1 in attention/scaled_dot_product.py." in ran.stdout


def test_solved(copy: Path) -> None:
    solve(copy, *(part.file for part in MANIFEST.built), "report.md")
    ran = run(copy, sys.executable, "-m", "checks")
    assert ran.returncode == 0, ran.stdout
    assert "question 3 answered, " in ran.stdout
    assert f"{len(PUBLIC)} of {len(PUBLIC)} public checks" in ran.stdout
    ran = run(copy, sys.executable, "-m", "pytest", "-q")
    assert ran.returncode == 0, ran.stdout
    assert f"{len(PUBLIC)} passed" in ran.stdout


def test_make_uses_a_python_that_has_torch(copy: Path) -> None:
    ran = run(copy, "make", "check", f"PYTHON={sys.executable}", "PART=2")
    assert ran.returncode != 0
    assert "Part 2" in ran.stdout
    assert "Part 1" not in ran.stdout
    assert not (copy / ".venv").exists()


def test_pytest_shows_the_message_and_skips_what_builds_on_it(copy: Path) -> None:
    solve(copy, *(part.file for part in MANIFEST.built))
    file = copy / "attention" / "scaled_dot_product.py"
    file.write_text(file.read_text("utf-8").replace("return weights @ V, weights", "return weights @ V"), "utf-8")
    ran = run(copy, sys.executable, "-m", "pytest", "-q")
    assert ran.returncode == 1
    assert "must be a tuple of 2: (output, weights)" in ran.stdout
    assert "checks/student.py" not in ran.stdout, "the kit's insides are no business of a student's"
    assert re.search(r"1 failed, \d+ passed, 3 skipped", ran.stdout)


def test_a_wrong_part_costs_nothing_in_a_part_that_calls_it(copy: Path) -> None:
    solve(copy, *(part.file for part in MANIFEST.built))
    (copy / "attention" / "masking.py").write_text("def masked_attention(Q, *others, **masks): return Q, Q", "utf-8")
    ran = run(copy, sys.executable, "-m", "checks", "--part", "multi_head")
    assert ran.returncode == 0, ran.stdout
    assert "It passes with a right scaled_dot_product.py and masking.py in place of yours" in ran.stdout
    ran = run(copy, sys.executable, "-m", "pytest", "-q", "checks/test_multi_head.py")
    assert ran.returncode == 0, ran.stdout


def test_without_rich(copy: Path) -> None:
    hide = "import sys, runpy; sys.modules['rich'] = None; sys.argv = ['checks', '--part', '1']; "
    hide += "runpy.run_module('checks', run_name='__main__')"
    ran = run(copy, sys.executable, "-c", hide)
    assert ran.returncode == 1, ran.stderr
    assert "not started" in ran.stdout


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("def f(:", "SyntaxError"),
        ("print('hello from here')\n1 / 0", "hello from here"),
    ],
)
def test_a_broken_file_is_told_and_costs_its_part_alone(copy: Path, edit: str, told: str) -> None:
    solve(copy, *(part.file for part in MANIFEST.built))
    (copy / "attention" / "scaled_dot_product.py").write_text(edit, "utf-8")
    ran = run(copy, sys.executable, "-m", "checks")
    assert ran.returncode == 1
    assert told in ran.stdout
    assert "Where: attention/scaled_dot_product.py:" in ran.stdout
    assert "Part 2  6 of 6 public checks" in ran.stdout
    assert "Traceback" not in ran.stdout + ran.stderr


def test_a_file_in_another_encoding(copy: Path) -> None:
    (copy / "attention" / "masking.py").write_bytes("# é\n".encode("latin-1"))
    ran = run(copy, sys.executable, "-m", "checks", "--part", "masking")
    assert "attention/masking.py is not UTF-8 text (byte 0xe9 in line 1): save it as UTF-8." in ran.stdout
    (copy / "attention" / "masking.py").unlink()
    ran = run(copy, sys.executable, "-m", "checks", "--part", "masking")
    assert "not started" in ran.stdout


@pytest.mark.parametrize("arguments", [["--part", "9"], ["--submission", "/nonexistent"], ["--device", "tpu"]])
def test_wrong_calls(copy: Path, arguments: list[str]) -> None:
    ran = run(copy, sys.executable, "-m", "checks", *arguments)
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr


def test_the_committed_description_is_the_manifests() -> None:
    generated = template.parts_json(MANIFEST, catalog.hidden_counts(MANIFEST), template.report(ROOT))
    assert (ROOT / "student_template" / "checks" / "parts.json").read_text("utf-8") == generated, "run `make template`"
    told = {part["slug"]: part for part in json.loads(generated)["parts"]}
    for part in MANIFEST.built:
        public = sum(check.points for check in PUBLIC if check.part == part.slug)
        assert told[part.slug]["hidden_points"] + public == part.points


@pytest.mark.parametrize("readme", ["README.md", "student_template/README.md"])
def test_the_tables_of_parts_are_the_manifests(readme: str) -> None:
    text = (ROOT / readme).read_text("utf-8")
    rows = re.findall(r"^\| (\d) \| `(.*?)` \| (.*?) \| (\d+) \|$", text, re.MULTILINE)
    assert [(int(number), file, re.findall("`(.*?)`", names), int(points)) for number, file, names, points in rows] == [
        (part.number, part.file, list(part.exports), part.points) for part in MANIFEST.built
    ]


def test_the_kit_needs_torch_numpy_and_the_standard_library_alone() -> None:
    allowed = set(sys.stdlib_module_names) | {"torch", "numpy", "rich", "pytest", "__future__"}
    for path in (ROOT / "student_template" / "checks").glob("*.py"):
        imported = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {each.name.split(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add(str(node.module).split(".")[0])
        assert imported <= allowed, f"{path.name} imports {imported - allowed}"
        if path.name != "conftest.py":
            assert "pytest" not in imported
