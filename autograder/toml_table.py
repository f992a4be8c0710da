"""Strict reading of TOML tables: each value is asked for by name and type, and what nobody asked for is refused.

Knows nothing of what the values mean. Every complaint names the file and the line.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checks.errors import BadUsage

from .toml_lines import KeyPath, Lines


class ManifestError(BadUsage):
    """The manifest cannot be read as one. The text is `assignment.toml line N: reason`."""


class Table:
    """One table of a TOML file and its place in it. `keys` are the keys it must have, all of them and no others."""

    def __init__(self, values: Mapping[str, Any], path: KeyPath, source: Source, keys: tuple[str, ...]) -> None:
        self._values, self._path, self._source = values, path, source
        for key in values:
            if key not in keys:
                raise self.wrong(key, f"`{key}` is not a key of {self._name}; its keys are {', '.join(keys)}")
        for key in keys:
            if key not in values:
                raise self.wrong(key, f"{self._name} has no `{key}`")

    @property
    def _name(self) -> str:
        words = ".".join(str(step) for step in self._path if isinstance(step, str))
        return f"[{words}]" if words else "the file"

    def wrong(self, key: str, reason: str) -> ManifestError:
        """The error to raise about `key`: it says the line."""
        return self._source.wrong((*self._path, key), reason)

    def _refused(self, key: str, wanted: str) -> ManifestError:
        return self.wrong(key, f"`{key}` must be {wanted}, not {shown(self._values[key])}")

    def whole(self, key: str, *, least: int) -> int:
        """A whole number of at least `least`. `true` is not one, although Python says so."""
        value = self._values[key]
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._refused(key, "a whole number")
        if value < least:
            raise self._refused(key, f"at least {least}")
        return value

    def share(self, key: str) -> float:
        """A number from 0 to 1."""
        value = self._values[key]
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
            raise self._refused(key, "a number from 0 to 1")
        return float(value)

    def flag(self, key: str) -> bool:
        value = self._values[key]
        if not isinstance(value, bool):
            raise self._refused(key, "true or false")
        return value

    def text(self, key: str, *, pattern: str = r"(?s).*\S.*", wanted: str = "text that is not empty") -> str:
        """A string that matches `pattern` from end to end; `wanted` says in words what that is."""
        value = self._values[key]
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise self._refused(key, wanted)
        return value

    def texts(
        self, key: str, *, pattern: str = r"(?s).*\S.*", wanted: str, count: int | None = None, least: int = 1
    ) -> tuple[str, ...]:
        """A list of strings that match `pattern`: `count` of them, or at least `least`."""
        value = self._values[key]
        if not isinstance(value, list) or len(value) < least or (count is not None and len(value) != count):
            raise self._refused(key, wanted)
        if not all(isinstance(entry, str) and re.fullmatch(pattern, entry) for entry in value):
            raise self._refused(key, wanted)
        return tuple(value)

    def table(self, key: str, keys: tuple[str, ...]) -> Table:
        value = self._values[key]
        if not isinstance(value, dict):
            raise self._refused(key, "a table")
        return Table(value, (*self._path, key), self._source, keys)

    def tables(self, key: str, keys: tuple[str, ...]) -> list[Table]:
        value = self._values[key]
        if not isinstance(value, list) or not value or not all(isinstance(entry, dict) for entry in value):
            raise self._refused(key, f"one or more [[{key}]] tables")
        return [Table(entry, (*self._path, key, index), self._source, keys) for index, entry in enumerate(value)]


class Source:
    """One TOML file: where it came from, and the lines of what is in it."""

    def __init__(self, path: Path) -> None:
        self._file = path.name
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ManifestError(f"there is no manifest at {path}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise ManifestError(f"{path} cannot be read as UTF-8 text: {error}") from None
        self._lines = Lines(text)
        try:
            self._values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ManifestError(self._syntax(str(error), text)) from None

    def _syntax(self, message: str, text: str) -> str:
        """tomllib says where at the end of its sentence: `… (at line 3, column 7)`, or `… (at end of document)`."""
        reason, _, place = message.rpartition(" (at ")
        found = re.match(r"line (\d+)", place)
        line = int(found[1]) if found else max(1, len(text.splitlines()))
        return f"{self._file} line {line}: this is not TOML: {reason or message}"

    def wrong(self, path: KeyPath, reason: str) -> ManifestError:
        return ManifestError(f"{self._file} line {self._lines.of(path)}: {reason}")

    def root(self, keys: tuple[str, ...]) -> Table:
        return Table(self._values, (), self, keys)


def shown(value: object) -> str:
    """The value as TOML would write it, near enough for a message."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        return "a list of tables"
    try:
        return json.dumps(value, ensure_ascii=False)
    except TypeError:
        return str(value)  # a date
