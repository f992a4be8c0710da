"""Intake: from a path to the text of a submission's package, without running, following or unpacking anything.

Only `attention/**/*.py` and the written answers, `report.md`, are taken. What else is in a submission, whatever it is
called, is never opened.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from checks.errors import BadUsage
from checks.written import FILE as REPORT

from .intake_sources import Found, NotReadable, from_directory, from_zip, is_junk, top_names

_MOST_FILES = 64
_LONGEST_NAME = 100  # bytes
_RESERVED = ("grades.csv", "index.html")  # what else stands beside the reports


class NoSubmission(BadUsage):
    """There is nothing here that could be graded; the text says what to hand in."""


@dataclass(frozen=True)
class Candidate:
    """Something to grade: a name that is safe as a file's and unique in its run, and where it is."""

    name: str
    path: Path


@dataclass(frozen=True)
class Submission:
    """A submission as text. `sources` and `problems` are keyed by paths such as `attention/masking.py`.

    `problems` holds a sentence for each file that was refused; the others are graded. `report` is the text of the written
    answers, None where there is none. `digest` is of all that is in a report: the text as it was read (so not of its line ends)
    and the names of what was refused.
    """

    name: str
    digest: str
    sources: dict[str, str]
    notes: tuple[str, ...]
    problems: dict[str, str]
    report: str | None = None


def read(path: Path, package: str = "attention", name: str | None = None) -> Submission:
    """The submission in a directory or a zip. Raises NoSubmission where there is no `attention/` with Python files in it."""
    found = _look(path, package)
    if found is None:
        raise NoSubmission(f"{_what_is_there(path, package)} Hand in the folder {package}/ with the files in it, or a zip of it.")
    sources, problems = {}, dict(found.problems)
    chosen = sorted(found.files, key=lambda each: (each.count("/"), each))
    for file in chosen[:_MOST_FILES]:
        try:
            sources[file] = _text(file, found.files[file]())
        except NotReadable as error:
            problems[file] = str(error)
    notes = list(found.notes)
    if len(chosen) > _MOST_FILES:
        notes.append(f"Only the first {_MOST_FILES} of {len(chosen)} Python files in {package}/ were read.")
    if not sources and not problems:
        raise NoSubmission(
            f"{path.name} has a folder {package}/ without any Python file in it: hand in the files of the template."
        )
    report: str | None = None
    try:
        report = _text(REPORT, found.report()) if found.report else None
    except NotReadable as error:
        problems[REPORT] = str(error)
    digest = _digest(sources if report is None else sources | {REPORT: report}, problems)
    name = name or safe_name(_stem(path))
    return Submission(name, digest, dict(sorted(sources.items())), tuple(notes), dict(sorted(problems.items())), report)


def discover(paths: Sequence[Path], package: str = "attention") -> list[Candidate]:
    """What there is to grade, in order. Each path is a submission (a zip, or a directory that holds `attention/`), or a folder.

    In a folder every subdirectory and every zip is one. What holds no `attention/` stays in, so that it gets a report that
    says so, as long as one of all does hold it. Raises BadUsage where none does, and where a path is neither.
    """
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise BadUsage(f"There is no file or folder {path}: give the path of a submission, or of a folder of submissions.")
        if not path.is_dir() and not _is_zip(path):
            raise BadUsage(f"{path} is neither a folder nor a zip file: give a submission, or a folder of submissions.")
        children = _children(path) if path.is_dir() and not (path / package).is_dir() else []
        found += children if any(_why_not(child, package) is None for child in children) else [path]
    reasons = [_why_not(path, package) for path in found]
    if all(reasons):
        raise BadUsage(str(reasons[0]))
    return [Candidate(name, path) for name, path in zip(_names(found), found, strict=True)]


def safe_name(text: str) -> str:
    """The text as a file name: letters of any script, digits, `.`, `_` and `-`, not starting with a dot or a dash."""
    name = re.sub(r"[^\w.-]+", "_", unicodedata.normalize("NFC", text)).lstrip(".-")
    return name.encode("utf-8", "replace")[:_LONGEST_NAME].decode("utf-8", "ignore").rstrip("._") or "submission"


def strays(paths: Sequence[Path]) -> list[str]:
    """Files in folders of submissions that are neither folders nor zips: somebody may have handed them in."""
    folders = [path for path in paths if path.is_dir() and not (path / "attention").is_dir()]
    files = (each for folder in folders for each in folder.iterdir() if not each.is_dir() and not _is_zip(each))
    return sorted(each.name for each in files if not is_junk(each.name) and each.name.isprintable())


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(each for each in folder.iterdir() if not is_junk(each.name) and (each.is_dir() or _is_zip(each)))
    except OSError as error:
        raise BadUsage(f"{folder} cannot be read ({error.strerror}): check its permissions.") from error


def _is_zip(path: Path) -> bool:
    return path.suffix.lower() == ".zip" and path.is_file()


def _why_not(path: Path, package: str) -> str | None:
    """Why there is nothing to grade in this path; None where there is."""
    try:
        if _look(path, package) is not None:
            return None
    except NoSubmission as error:
        return str(error)
    return f"{_what_is_there(path, package)} Give a submission, or a folder of submissions."


def _what_is_there(path: Path, package: str) -> str:
    """That there is no package, and what there is in its place, where that is a thing that people hand in."""
    told = f"{_absolute(path).name} holds no folder {package}/"
    names = top_names(path)
    python = [name for name in names if name.endswith(".py")]
    others = [
        name for name in names if name.lower() == package or name.lower().endswith((".zip", ".tar.gz", ".tgz", ".7z", ".rar"))
    ]
    if python:
        return f"{told}, but {python[0]}{f' and {len(python) - 1} more Python files' if len(python) > 1 else ''} at its top."
    return f"{told}, but {others[0]}." if others else f"{told}."


def _look(path: Path, package: str) -> Found | None:
    try:
        return from_directory(path, package) if path.is_dir() else from_zip(path, package)
    except NotReadable as error:
        raise NoSubmission(str(error)) from error
    except OSError as error:
        raise NoSubmission(f"{path.name} cannot be read ({error.strerror}): check the path and its permissions.") from error


def _text(file: str, data: bytes) -> str:
    """UTF-8, with or without a byte order mark, any line ends. Raises NotReadable naming the byte and the line."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte, line = error.object[error.start], error.object.count(b"\n", 0, error.start) + 1
        raise NotReadable(f"{file} is not UTF-8 text (byte 0x{byte:02x} in line {line}): save it as UTF-8.") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _digest(sources: Mapping[str, str], refused: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for path, text in sorted(sources.items()):
        data = text.encode("utf-8")
        digest.update(f"{len(path.encode())} {len(data)}\n".encode() + path.encode() + data)
    for path in sorted(refused):
        digest.update(f"refused {len(path.encode())}\n".encode() + path.encode())
    return digest.hexdigest()


def _stem(path: Path) -> str:
    path = _absolute(path)
    return path.stem if _is_zip(path) else path.name


def _absolute(path: Path) -> Path:
    """Without `..`, and unlike `resolve` with the names of links and not of what they point to."""
    return Path(os.path.abspath(path))


def _names(paths: Sequence[Path]) -> list[str]:
    """A name for each path: its own; where two share one, with the folder before it; where that helps not, with a number."""
    names = [safe_name(_stem(path)) for path in paths]
    often = Counter(name.lower() for name in names)
    several_folders = len({_absolute(path).parent for path in paths}) > 1
    for index, path in enumerate(paths):
        if often[names[index].lower()] > 1 and several_folders:
            names[index] = safe_name(f"{_absolute(path).parent.name}_{names[index]}")
    taken = set(_RESERVED)
    for index, name in enumerate(names):
        number = 2
        while names[index].lower() in taken:  # not only equal ones: macOS takes a.zip and A.zip for one file
            names[index] = f"{name}-{number}"
            number += 1
        taken.add(names[index].lower())
    return names
