"""Where a submission's files are: in a directory or in a zip. Both say which `attention/**/*.py` there are and how to read each,
and the report beside them.

A submission is a stranger's: no symbolic link is followed, nothing but a regular file is opened, no zip is unpacked, and neither
a file's length nor their number is believed before it is bounded.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from checks.written import FILE as REPORT

_LARGEST_FILE = 256 << 10  # bytes
_MOST_ENTRIES = 20_000
_DEEPEST = 12  # folders below the top
_DEEPEST_WRAPPING = 2  # folders around `attention/`
_LARGEST_DIRECTORY = 8 << 20  # bytes of a zip's own table of contents: 20 000 entries need a third of it
_END_RECORD = 22  # bytes
_LOCATOR = 20  # bytes, of the 64-bit form, just before the end record
_ENCRYPTED = 0x1
_LONGEST_SHOWN = 100  # characters of a name in a message


class NotReadable(Exception):
    """One file, or the whole submission, is refused; the text is a sentence for its author."""


@dataclass(frozen=True)
class Found:
    """The package's files by name, `attention/masking.py`, each with a function that reads it or raises NotReadable.

    `report` reads the written answers, which are looked for beside the package and then in it.
    """

    files: Mapping[str, Callable[[], bytes]]
    report: Callable[[], bytes] | None = None
    problems: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def is_junk(name: str) -> bool:
    """Whether a file or folder of this name is the computer's and not the student's."""
    return name.startswith(".") or name in ("__MACOSX", "__pycache__")


def from_directory(root: Path, package: str) -> Found | None:
    """What there is in a directory; None where it holds no folder of the package's name."""
    entries, complete = _walk(root)
    tops = _package_folders((path for path, is_folder in entries.items() if is_folder), package)
    if not tops:
        return None
    top = tops[0]
    inside = {_from(top, path): path for path, is_folder in entries.items() if not is_folder and _is_source(path, top)}
    files = {name: partial(_read_file, root / path, name) for name, path in inside.items()}
    report = next((path for path in _reports(top) for path in _alike(path, entries) if not entries[path]), None)
    notes = () if complete else (f"Only the first {_MOST_ENTRIES} files and folders were looked at.",)
    return Found(files, partial(_read_file, root / report, REPORT) if report else None, notes=_where(tops) + notes)


def from_zip(path: Path, package: str) -> Found | None:
    """What there is in a zip; None where it holds no folder of the package's name. Raises NotReadable for a zip as a whole."""
    _check_directory_size(path)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error, RecursionError):
        raise NotReadable(f"{path.name} is not a zip file that can be read: make it again, and open it once to see.") from None
    if len(entries) > _MOST_ENTRIES:
        raise NotReadable(f"{path.name} has more than {_MOST_ENTRIES} entries: zip the folder {package}/ alone.")
    named: dict[PurePosixPath, list[zipfile.ZipInfo]] = {}
    outside = 0
    for info in entries:
        name = PurePosixPath(info.filename.replace("\\", "/"))  # some Windows programs write it so
        if name.is_absolute() or ".." in name.parts:
            outside += 1
        elif not info.is_dir() and len(name.parts) <= _DEEPEST and not any(is_junk(part) for part in name.parts):
            named.setdefault(name, []).append(info)
    tops = _package_folders((parent for name in named for parent in name.parents), package)
    if not tops:
        return None
    top = tops[0]
    files: dict[str, Callable[[], bytes]] = {}
    problems: dict[str, str] = {}
    for entry, infos in named.items():
        if not _is_source(entry, top):
            continue
        file = _from(top, entry)
        if len(infos) > 1:
            problems[file] = f"{file} is in the zip {len(infos)} times: make the zip again, with each file in it once."
        else:
            files[file] = partial(_read_entry, path, infos[0], file)
    report = next((found for path in _reports(top) for found in _alike(path, named)), None)
    notes = (f"{outside} entries that point outside the zip were ignored.",) if outside else ()
    return Found(files, partial(_read_entry, path, named[report][0], REPORT) if report else None, problems, _where(tops) + notes)


def _walk(root: Path) -> tuple[dict[PurePosixPath, bool], bool]:
    """Everything below `root` but junk: whether each is a folder; and whether that is all. Links are not followed."""
    entries: dict[PurePosixPath, bool] = {}
    waiting = [PurePosixPath()]
    while waiting:
        folder = waiting.pop(0)
        with os.scandir(root / folder) as listing:
            children = sorted((each for each in listing if not is_junk(each.name)), key=lambda each: each.name)
        for child in children:
            if len(entries) >= _MOST_ENTRIES:
                return entries, False
            path = folder / child.name
            entries[path] = child.is_dir(follow_symlinks=False)
            if entries[path] and len(path.parts) < _DEEPEST:
                waiting.append(path)
    return entries, True


def top_names(path: Path) -> list[str]:
    """The names at the top of a directory or a zip, for a message; empty where they cannot be read."""
    try:
        if path.is_dir():
            names = {each.name for each in path.iterdir()}
        else:
            _check_directory_size(path)
            with zipfile.ZipFile(path) as archive:
                names = {name.split("/")[0] for name in archive.namelist()[:_MOST_ENTRIES]}
    except (OSError, zipfile.BadZipFile, NotReadable, ValueError):
        return []
    return sorted(name for name in names if name.isprintable() and not is_junk(name) and len(name) <= _LONGEST_SHOWN)


def _package_folders(folders: Iterable[PurePosixPath], package: str) -> list[PurePosixPath]:
    """The folders of the package's name, the one that lies highest first, by name among equals."""
    named = {folder for folder in folders if folder.name == package and len(folder.parts) <= _DEEPEST_WRAPPING + 1}
    return sorted(named, key=lambda folder: (len(folder.parts), str(folder)))


def _is_source(path: PurePosixPath, top: PurePosixPath) -> bool:
    return path.suffix == ".py" and top in path.parents and str(path).isprintable()


def _reports(top: PurePosixPath) -> tuple[PurePosixPath, ...]:
    """Where the report may lie, the likeliest first."""
    return (top.parent / REPORT, top / REPORT)


def _alike(wanted: PurePosixPath, paths: Iterable[PurePosixPath]) -> list[PurePosixPath]:
    """Those of the paths that are the wanted one but for small and capital letters."""
    return sorted(path for path in paths if path.parent == wanted.parent and path.name.lower() == wanted.name)


def _from(top: PurePosixPath, path: PurePosixPath) -> str:
    return str(path.relative_to(top.parent))


def _where(tops: list[PurePosixPath]) -> tuple[str, ...]:
    """Which folder was taken, where that is not plain."""
    shown = [str(top) for top in tops if str(top).isprintable()]
    if len(tops) > 1:
        return (f"There are {len(tops)} folders of this name; graded is {', not '.join(f'{top}/' for top in shown)}.",)
    return (f"Found in {shown[0]}/.",) if shown and len(tops[0].parts) > 1 else ()


def _read_file(path: Path, name: str) -> bytes:
    try:
        # Not blocking: opening a pipe would wait for its other end. No final link; the folders above were walked without links.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        reason = "is a symbolic link" if path.is_symlink() else f"cannot be opened ({error.strerror})"
        raise NotReadable(f"{name} {reason}: hand in the file itself.") from None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotReadable(f"{name} is not a regular file: hand in the file itself.")
        if status.st_nlink != 1:
            raise NotReadable(f"{name} is a hard link, one file under several names: hand in a copy.")
        return _capped(file.read(_LARGEST_FILE + 1), name)


def _read_entry(archive: Path, info: zipfile.ZipInfo, name: str) -> bytes:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        raise NotReadable(f"{name} is a symbolic link or another special file: hand in the file itself.")
    if info.flag_bits & _ENCRYPTED:
        raise NotReadable(f"{name} is encrypted: make the zip without a password.")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise NotReadable(f"{name} is compressed in an unusual way: make the zip with your system's own program.")
    if info.file_size > _LARGEST_FILE:
        raise _too_large(name)
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(info) as file:
            return _capped(file.read(_LARGEST_FILE + 1), name)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError, struct.error):
        raise NotReadable(f"{name} is damaged in the zip: make the zip again, and open it once to see.") from None


def _capped(data: bytes, name: str) -> bytes:
    if len(data) > _LARGEST_FILE:
        raise _too_large(name)
    return data


def _too_large(name: str) -> NotReadable:
    return NotReadable(f"{name} is larger than {_LARGEST_FILE >> 10} KiB: hand in code, and keep data out of it.")


def _check_directory_size(path: Path) -> None:
    """Refuse a zip whose table of contents would fill the memory. `zipfile` reads it whole, and believes the length it gives."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - (1 << 16) - _END_RECORD - _LOCATOR))
        tail = file.read()
    for position in _positions(tail, b"PK\x05\x06"):
        record = tail[position : position + _END_RECORD]
        if len(record) == _END_RECORD and struct.unpack_from("<I", record, 12)[0] > _LARGEST_DIRECTORY:
            raise NotReadable(f"{path.name} has too many entries: zip the folder with your Python files alone.")
    if b"PK\x06\x07" in tail:  # the 64-bit form, which has its own length, is for zips of 4 GiB or 65 536 entries
        raise NotReadable(f"{path.name} is a zip in the form for very large ones: zip the folder with your Python files alone.")


def _positions(data: bytes, wanted: bytes) -> Iterator[int]:
    position = data.find(wanted)
    while position >= 0:
        yield position
        position = data.find(wanted, position + 1)
