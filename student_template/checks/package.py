"""A student's package, imported from text.

Nothing of a submission is ever put on `sys.path` and nothing is read from disk here, so a file called `torch.py` beside the
package shadows nothing. Relative imports and helper modules of the student's own work, because the text of every module of
the package is at hand.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType, TracebackType


class Package(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The modules of one submission, private to this object: two packages of one name can live in one process.

    `sources` maps paths such as `"attention/masking.py"` to their text. `root`, where given, is the folder that the paths
    start from; it makes file names absolute, so that an editor can follow them.
    """

    def __init__(self, sources: Mapping[str, str], name: str = "attention", root: str | None = None) -> None:
        self.name = name
        self.init_error = ""  # why the package's own __init__.py was left out, where it was
        self._root = root
        self._modules: dict[str, ModuleType] = {}
        self._paths = {_module_name(path): path for path in sources if path.endswith(".py")}
        self._text = {_module_name(path): text for path, text in sources.items() if path.endswith(".py")}
        self._folders = {name} | {
            ".".join(key.split(".")[:depth]) for key in self._text for depth in range(1, key.count(".") + 1)
        }

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Make `import attention` mean this package, for the duration."""
        before = self._take_out()
        sys.modules.update(self._modules)
        sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)
            self._modules = self._take_out()
            sys.modules.update(before)

    def load(self, module: str) -> ModuleType:
        """Import `attention.<module>`; to be called inside `installed()`. Raises whatever the student's code raises."""
        return importlib.import_module(f"{self.name}.{module}")

    def holds(self, module: str) -> bool:
        return f"{self.name}.{module}" in self._text

    def where(self, error: BaseException) -> str:
        """The innermost line of the student's own files that the error passed through: `"attention/masking.py:41, in f"`."""
        names = {self._file(module): path for module, path in self._paths.items()}
        if isinstance(error, SyntaxError) and error.filename in names:
            return f"{names[error.filename]}:{error.lineno}"
        return _innermost(error.__traceback__, names)

    def _take_out(self) -> dict[str, ModuleType]:
        taken = {key: module for key, module in sys.modules.items() if key == self.name or key.startswith(self.name + ".")}
        for key in taken:
            del sys.modules[key]
        return taken

    def _file(self, module: str) -> str:
        path = self._paths.get(module, module.replace(".", "/"))
        return os.path.join(self._root, path) if self._root else path

    # What the import system calls.

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname in self._folders:
            spec = importlib.machinery.ModuleSpec(fullname, self, origin=self._file(fullname), is_package=True)
            return spec
        if fullname in self._text:
            return importlib.machinery.ModuleSpec(fullname, self, origin=self._file(fullname))
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        module.__file__ = self._file(name)
        if name not in self._text:
            return  # a folder without an __init__.py
        if name == self.name:
            self._run_init(module)
        else:
            exec(self._compiled(name), module.__dict__)

    def _run_init(self, module: ModuleType) -> None:
        """The package's `__init__.py`. Where it fails, the parts are still imported, each on its own."""
        try:
            exec(self._compiled(self.name), module.__dict__)
        except (Exception, SystemExit) as error:
            self.init_error = f"attention/__init__.py was left out: it raised {type(error).__name__} ({self.where(error)})"

    def _compiled(self, module: str) -> CodeType:
        code: CodeType = compile(self._text[module], self._file(module), "exec", dont_inherit=True)
        return code


def read_folder(root: Path, name: str = "attention") -> tuple[dict[str, str], dict[str, str]]:
    """The sources of the package in `root`, on one's own desk; and the files that are no text, each with a sentence why."""
    sources: dict[str, str] = {}
    refused: dict[str, str] = {}
    for path in sorted(each for each in (root / name).rglob("*.py") if each.is_file()):
        shown = path.relative_to(root).as_posix()
        try:
            sources[shown] = path.read_text("utf-8-sig")
        except UnicodeDecodeError as error:
            line = path.read_bytes()[: error.start].count(b"\n") + 1
            refused[shown] = (
                f"{shown} is not UTF-8 text (byte 0x{error.object[error.start]:02x} in line {line}): save it as UTF-8."
            )
    return sources, refused


def _module_name(path: str) -> str:
    """`"attention/masking.py"` → `"attention.masking"`; a package's `__init__.py` → the package."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _innermost(traceback: TracebackType | None, names: Mapping[str, str]) -> str:
    found = ""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename in names:
            inside = "" if code.co_name == "<module>" else f", in {code.co_name}"
            found = f"{names[code.co_filename]}:{traceback.tb_lineno}{inside}"
        traceback = traceback.tb_next
    return found
