"""Text that is safe to show.

Names of files and functions, messages of exceptions and everything printed come from students: they may hold terminal
commands, characters that reverse the reading order, halves of surrogate pairs, or a gigabyte.
"""

from __future__ import annotations

import re

LIMIT = 8 * 1024  # bytes of UTF-8 that one text may take

_TERMINAL_COMMAND = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -~]?)|\x9b[0-?]*[ -/]*[@-~]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str, limit: int = LIMIT) -> str:
    """The text as valid UTF-8, without control characters but "\\n" and "\\t", cut to `limit` bytes with a note of the cut."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _SURROGATE.sub("\ufffd", _CONTROL.sub("", _TERMINAL_COMMAND.sub("", text)))
    data = text.encode()
    if len(data) <= limit:
        return text
    return f"{data[:limit].decode(errors='ignore')}\n… ({len(data) - limit} more bytes are left out)"


def clean_line(text: str, limit: int = 500) -> str:
    """The same on one line, for a cell of a table or a name."""
    return " ".join(clean(text, limit).split())
