"""Errors told in a sentence, in a notebook's cell as in a terminal. Needs the standard library alone: torch may be missing."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

HERE = Path(__file__).resolve().parents[1]  # the folder that holds attention/ and this kit
_LIBRARIES = ("torch", "numpy", "matplotlib")


class Told(Exception):
    """The exploration can't go on; the text is what the student reads."""


def notebook() -> Any | None:
    """The shell of the notebook that this runs in; None in a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell if hasattr(shell, "kernel") else None


def begin() -> None:
    """From here on errors are told in a sentence, and the student's files are read anew, edited as they may be by now."""
    for name in [name for name in sys.modules if name.split(".")[0] == "attention"]:
        del sys.modules[name]
    importlib.invalidate_caches()
    shell = notebook()
    if shell is None:
        sys.excepthook = _in_terminal
    else:
        shell.set_custom_exc((Exception,), _in_cell)


def sentence(error: BaseException) -> str | None:
    """What to tell of an error that is the student's to mend, where it is one: what is wrong, where, and what to do next."""
    if isinstance(error, Told):
        return str(error)
    where = _own_line(error)
    again = "run this notebook again from its first cell" if notebook() else "come back"
    stub = re.fullmatch(r"part (\d+): (.+)", str(error)) if isinstance(error, NotImplementedError) else None
    if stub:
        file = f" in {where.split(':')[0]}" if where else ""
        check = f"`make check PART={stub[1]}` (or `python -m checks --part {stub[1]}`)"
        return f"Part {stub[1]} is not done yet: write {stub[2]}{file}, run {check}, and {again}."
    if where:
        return f"Your own code stopped in {where}.\n{_name(error)}\n`make check` says more of what it should do; then {again}."
    return _not_there(error)


def _not_there(error: BaseException) -> str | None:
    """An import of the exploration's that found nothing."""
    if not isinstance(error, ImportError) or not error.name:
        return None
    if error.name in _LIBRARIES:
        python = "!python" if notebook() else shlex.quote(sys.executable or "python3")
        return f"{error.name} is not installed here: run `{python} -m pip install {error.name}`, and then this again."
    if error.name == "attention" and isinstance(error, ModuleNotFoundError):
        return (
            f"There is no folder attention/ in {HERE}: put yours there "
            "(in Colab: upload it as attention.zip, and run `!unzip attention.zip` in a cell)."
        )
    if error.name.split(".")[0] == "attention":
        return f"Your package lacks something that was in it when you got it: {error}."
    return None


def _own_line(error: BaseException) -> str:
    """The innermost line of the student's own files that the error passed through, `"attention/masking.py:41, in f"`, or ""."""
    if isinstance(error, SyntaxError) and error.filename and _is_own(error.filename):
        return f"{_shown(error.filename)}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_own(frame.filename)]
    if not frames:
        return ""
    inside = "" if frames[-1].name == "<module>" else f", in {frames[-1].name}"
    return f"{_shown(frames[-1].filename)}:{frames[-1].lineno}{inside}"


def _is_own(file: str) -> bool:
    return Path(file).is_relative_to(HERE / "attention")


def _shown(file: str) -> str:
    return Path(file).relative_to(HERE).as_posix()


def _name(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _in_terminal(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Python's hook for an error that nothing caught; the exit status, not 0, is Python's own."""
    told = sentence(error)
    if isinstance(error, KeyboardInterrupt):
        told = "\nStopped."
    elif told is None:
        last = traceback.extract_tb(trace)[-1]
        told = (
            f"The exploration stopped in {Path(last.filename).name}:{last.lineno}, outside your own files.\n{_name(error)}\n"
            "It takes for granted what `make check PART=1` and `make check PART=7` ask for: run them first. Where both pass, "
            "this is no fault of yours: show these lines to whoever teaches the course."
        )
    print(told, file=sys.stderr)


def _in_cell(shell: Any, kind: type[BaseException], error: BaseException, trace: TracebackType, tb_offset: int | None) -> None:
    """IPython's hook for an error in a cell: what is not for the student to mend, or is of a cell of theirs, stays as it was."""
    told = sentence(error)
    if told is None:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
    else:
        shell._showtraceback(kind, error, told.splitlines())
