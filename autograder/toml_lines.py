"""Where in a TOML file a value stands. `tomllib` does not say, and a message without a line is hard to act on.

This is a reader of lines, not of TOML: it knows headers, `key = value` and strings over several lines, which is what a
manifest is made of. What it cannot find (a key inside an inline table, or one that is missing) it places on the nearest
line above that it knows: the inline table's own, the header's, at last the file's first. It is used in messages only.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]  # ("parts", 2, "limits", "seconds"): the third [[parts]], counted from 0

_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.\- ]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\-]+)\s*=")
_LONG_STRING = re.compile(r'"""|' + r"'''")


class Lines:
    """The line of every header and every key of a TOML text."""

    def __init__(self, text: str) -> None:
        self._known = _scan(text)

    def of(self, path: KeyPath) -> int:
        """The line, counted from 1, of `path`, or of the nearest thing around it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._known:
                return self._known[path[:length]]
        return 1


def _scan(text: str) -> dict[KeyPath, int]:
    known: dict[KeyPath, int] = {}
    headers: Counter[str] = Counter()
    table: KeyPath = ()
    inside_string = False
    for number, line in enumerate(text.splitlines(), start=1):
        began_inside = inside_string
        inside_string ^= len(_LONG_STRING.findall(line)) % 2 == 1
        if began_inside:
            continue
        if header := _HEADER.match(line):
            table = _table_path(header[2], header[1] == "[[", headers)
            known.setdefault(table, number)
        elif key := _KEY.match(line):
            known.setdefault((*table, *key[1].split(".")), number)
    return known


def _table_path(name: str, is_array: bool, headers: Counter[str]) -> KeyPath:
    """`[[parts]]` -> `("parts", n)` for the next n; `[parts.limits]` -> `("parts", n, "limits")` for the current one."""
    if is_array:
        headers[name] += 1
    path: list[str | int] = []
    words = name.split(".")
    for length, word in enumerate(words, start=1):
        path.append(word.strip())
        if count := headers[".".join(words[:length])]:
            path.append(count - 1)
    return tuple(path)
