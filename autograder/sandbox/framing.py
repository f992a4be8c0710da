"""Frames: two lengths, a JSON header, a blob of bytes. And JSON read strictly, as from a stranger.

    4 bytes  length of the header, big-endian
    4 bytes  length of the blob
    header   JSON in UTF-8: no floats (they travel as text), no repeated keys, no NaN, no long integers
    blob     tensors, or the text of the sources

Whatever is wrong with received bytes is a WireError, and both lengths are held against their caps before anything is read.
"""

from __future__ import annotations

import json
import struct
import unicodedata
from typing import Any, NoReturn

MAX_FRAME = 32 << 20  # bytes, header and blob together: many times what any answer to a check takes
MAX_HEADER = 2 << 20  # bytes: 20 000 operations' names are the largest thing in one, and a third of this
PREFIX = 8  # bytes: the two lengths
_LONGEST_INTEGER = 400  # digits
_LENGTHS = struct.Struct(">II")


class WireError(Exception):
    """What arrived is not a message, or what was to be sent does not fit into one."""


def pack(header: object, blob: bytes = b"", cap: int = MAX_FRAME) -> bytes:
    """The bytes of one frame. Raises WireError where it would be longer than the far side accepts."""
    text = json.dumps(header, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")
    if len(text) > MAX_HEADER or PREFIX + len(text) + len(blob) > cap:
        raise WireError(f"a message of {len(text) + len(blob)} bytes is too large")
    return _LENGTHS.pack(len(text), len(blob)) + text + blob


def length(prefix: bytes | bytearray, cap: int = MAX_FRAME) -> int:
    """The length of a whole frame, from its first PREFIX bytes."""
    header, blob = _LENGTHS.unpack_from(prefix)
    if header > MAX_HEADER or PREFIX + header + blob > cap:
        raise WireError("it is too large")
    return int(PREFIX + header + blob)


def unpack(frame: bytes, cap: int = MAX_FRAME) -> tuple[Any, bytes]:
    """Header and blob of exactly one frame."""
    if len(frame) < PREFIX or length(frame, cap) != len(frame):
        raise WireError("its length is not what it says")
    middle = PREFIX + _LENGTHS.unpack_from(frame)[0]
    return parse(frame[PREFIX:middle]), frame[middle:]


def parse(data: bytes) -> Any:
    """Strict JSON. Its nesting is bounded by the parser's own recursion limit, and again by whoever walks the result."""
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_refuse,
            parse_float=_refuse,
            parse_int=_integer,
        )
    except (ValueError, RecursionError, MemoryError) as error:
        raise WireError(f"its header is not JSON as agreed ({type(error).__name__})") from None


def plain(text: str, cap: int) -> str:
    """At most `cap` characters, without control and formatting characters (new lines and tabs stay) and lone surrogates."""
    text = text[:cap]
    if text.isascii() and text.isprintable():
        return text
    kept = (char for char in text if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cf", "Cs"))
    return "".join(kept)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise WireError("its header repeats a key")
    return found


def _refuse(text: str) -> NoReturn:
    raise WireError("its header holds a number that is not an integer")


def _integer(text: str) -> int:
    if len(text) > _LONGEST_INTEGER:
        raise WireError("its header holds a very long number")
    return int(text)
