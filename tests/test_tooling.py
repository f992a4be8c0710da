"""The commands around the code: what is pinned, what `make` lists and hands on, and how it sets itself up."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder import manifest

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = ROOT / "student_template"

# Stands in for python3 where a real set-up would take minutes: its .venv has a python that writes down what it is to do.
FAKE_PYTHON = """#!/bin/sh
case "$1 $2" in
"-m venv")
    echo "made .venv" >> log
    mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
"-m pip") echo "pip" >> log; test ! -e pip-fails ;;
"-c "*find_spec*) exit 1 ;;
"-c "*) ;;
*) echo "run: $*" ; exit "${FAKE_STATUS:-0}" ;;
esac
"""


def pins(path: Path) -> dict[str, str]:
    lines = [line.split("#")[0].strip() for line in path.read_text("utf-8").splitlines()]
    return {canonical(name): version for name, version in (line.split("==") for line in lines if line)}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(pyproject: Path) -> list[str]:
    project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
    return [*project["dependencies"], *project.get("optional-dependencies", {}).get("dev", [])]


def parsed(requirement: str) -> tuple[str, str]:
    found = re.match(r"([\w.-]+)(?:\[\w+\])?((?:>=|==)[\d.]+)", requirement)
    assert found, f"{requirement} gives no lower bound"
    return canonical(found[1]), found[2]


def version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split("."))


@pytest.mark.parametrize(
    ("pyproject", "pinned"),
    [(ROOT / "pyproject.toml", ROOT / "requirements.lock"), (TEMPLATE / "pyproject.toml", TEMPLATE / "requirements.txt")],
    ids=["repository", "template"],
)
def test_whatever_is_asked_for_is_pinned_within_its_range(pyproject: Path, pinned: Path) -> None:
    versions = pins(pinned)
    for requirement in requirements(pyproject):
        name, bound = parsed(requirement)
        assert name in versions, f"{pinned.name} does not pin {name}"
        assert version(versions[name]) >= version(bound[2:])
        assert bound.startswith(">=") or versions[name] == bound[2:]


def test_a_students_pins_and_ranges_are_those_that_the_grader_is_tested_with() -> None:
    tested, ranges = pins(ROOT / "requirements.lock"), requirements(ROOT / "pyproject.toml")
    for name, pinned in pins(TEMPLATE / "requirements.txt").items():
        assert tested[name] == pinned
    for requirement in requirements(TEMPLATE / "pyproject.toml"):
        assert requirement in ranges


@pytest.mark.parametrize("name", ["requirements.lock", "student_template/requirements.txt"])
def test_pins_name_no_build_and_no_address(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert not re.search(r"^[^#]*(\+|://|^-)", text, re.MULTILINE)


@pytest.mark.parametrize("folder", [ROOT, TEMPLATE], ids=["repository", "template"])
def test_help_is_the_default_and_lists_every_command(folder: Path) -> None:
    phony = re.search(r"^\.PHONY: (.*)$", (folder / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert phony
    listed = [line.split()[0] for line in make(folder).stdout.splitlines()[1:]]
    assert sorted(listed) == sorted(set(phony[1].split()) - {"venv"})


def test_ci_runs_the_readmes_commands() -> None:
    script = (ROOT / ".ci/run").read_text("utf-8")
    assert os.access(ROOT / ".ci/run", os.X_OK)
    assert subprocess.run(["bash", "-n", ROOT / ".ci/run"], check=False).returncode == 0
    assert re.search(r"^step .* make test$", script, re.MULTILINE)
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "make test" in readme
    assert "make grade" in readme


def make(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run make there, as if it were not a make that runs these tests."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS", "PYTHON"))}
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=folder, env=inherited | environment, capture_output=True, text=True, check=False)


class Checkout:
    """A copy of the set-up's files in a folder whose name has a space in it, with a stand-in for Python."""

    def __init__(self, folder: Path, source: Path, names: tuple[str, ...]) -> None:
        self.folder = folder
        folder.mkdir()
        for name in names:
            shutil.copy(source / name, folder / name)
        self.python = folder / "fake python3"
        self.python.write_text(FAKE_PYTHON, "utf-8")
        self.python.chmod(0o755)

    def make(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return make(self.folder, *arguments, f"PYTHON={self.python}", **environment)

    def log(self) -> list[str]:
        """What was set up since the last look."""
        path = self.folder / "log"
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def append(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(path.read_text("utf-8") + text, "utf-8")


SET_UP = ["made .venv", "pip"]


@pytest.fixture
def repository(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "a clone", ROOT, ("Makefile", "pyproject.toml", "requirements.lock"))


@pytest.fixture(params=["repository", "template"])
def checkout(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Checkout]:
    if request.param == "repository":
        yield Checkout(tmp_path / "a clone", ROOT, ("Makefile", "pyproject.toml", "requirements.lock"))
    else:
        yield Checkout(tmp_path / "a copy", TEMPLATE, ("Makefile", "requirements.txt"))


def test_the_first_command_sets_up_and_the_second_does_not(checkout: Checkout) -> None:
    first = checkout.make("check")
    assert first.returncode == 0, first.stderr
    assert "PyTorch" in first.stdout
    assert checkout.log() == SET_UP
    os.utime(checkout.folder / ".venv" / "made-from", (0, 0))  # a clone's times say nothing
    second = checkout.make("check")
    assert checkout.log() == []
    assert second.stdout.startswith("run: -m ")


def test_a_set_up_that_failed_is_done_again(checkout: Checkout) -> None:
    (checkout.folder / "pip-fails").touch()
    failed = checkout.make("check")
    assert failed.returncode == 2
    assert "did not finish" in failed.stderr
    assert "run:" not in failed.stdout
    (checkout.folder / "pip-fails").unlink()
    checkout.log()
    assert checkout.make("check").returncode == 0
    assert checkout.log() == SET_UP


def test_other_requirements_are_set_up_anew_and_other_settings_are_not(repository: Checkout) -> None:
    repository.make("check")
    repository.log()
    repository.append("pyproject.toml", "# a linter's setting\n")
    repository.make("check")
    assert repository.log() == []
    repository.append("requirements.lock", "# a pin\n")
    repository.make("check")
    assert repository.log() == SET_UP
    pyproject = (repository.folder / "pyproject.toml").read_text("utf-8")
    (repository.folder / "pyproject.toml").write_text(pyproject.replace('"torch>=2.9"', '"torch>=2.10"'), "utf-8")
    repository.make("check")
    assert repository.log() == SET_UP


@pytest.mark.parametrize(
    ("body", "reason"), [("exit 1", "Python 3.11 or newer is needed"), ("", "cannot make virtual environments")]
)
def test_an_unfit_python_is_refused_in_a_sentence(checkout: Checkout, body: str, reason: str) -> None:
    unfit = f'#!/bin/sh\ncase "$2" in *ensurepip*|*find_spec*) exit 1;; esac\n{body}\n'
    checkout.python.write_text(unfit, "utf-8")
    refused = checkout.make("check")
    assert refused.returncode == 2
    sentence, *rest = refused.stderr.splitlines()
    assert reason in sentence
    assert str(checkout.python) in sentence
    assert len(rest) <= 1  # make's own line
    assert not (checkout.folder / ".venv").exists()


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ("check", "-m autograder check solutions"),
        ("check 'SUBMISSION=it'\"'\"'s mine' PART=3 DEVICE=cuda", "-m autograder check it's mine --part 3 --device cuda"),
        ("grade", "-m autograder grade tests/submissions --out grades"),
        ("grade 'SUBMISSIONS=my class, \"b\"' 'OUT=o ut' JOBS=2", '-m autograder grade my class, "b" --out o ut --jobs 2'),
        ("grade ACCEPT_TIER=none", "-m autograder grade tests/submissions --out grades --accept-tier none"),
        ("template", "-m autograder template"),
        ("handout", "-m autograder handout"),
        ("test", "-m pytest -n auto"),
    ],
)
def test_what_make_is_given_reaches_the_grader(repository: Checkout, arguments: str, command: str) -> None:
    done = repository.make(*shlex.split(arguments), OUT="stray", PART="9", JOBS="9")
    assert done.stdout.splitlines()[-1] == f"run: {command}"


def test_a_failing_command_fails_make(checkout: Checkout) -> None:
    checkout.make("check")
    failed = checkout.make("check", FAKE_STATUS="1")
    assert failed.returncode == 2
    assert len(failed.stderr.splitlines()) == 1


def test_a_student_with_torch_needs_no_set_up(tmp_path: Path) -> None:
    copy = Checkout(tmp_path / "a copy", TEMPLATE, ("Makefile", "requirements.txt"))
    copy.python.write_text(FAKE_PYTHON.replace('"-c "*find_spec*) exit 1 ;;\n', ""), "utf-8")
    done = copy.make("check", "PART=2")
    assert done.stdout == "run: -m checks --part 2\n"
    assert copy.log() == []


def test_the_students_readme_lists_the_parts_that_are_built() -> None:
    readme = (TEMPLATE / "README.md").read_text("utf-8")
    for part in manifest.load(manifest.default_path()).parts:
        exports = ", ".join(f"`{name}`" for name in part.exports)
        row = f"| {part.number} | `{part.file}` | {exports} | {part.points} |"
        assert (row in readme.splitlines()) is part.built
        assert (part.file in readme) is part.built
    assert len(readme.splitlines()) <= 80
