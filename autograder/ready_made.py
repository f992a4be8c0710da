"""Where a file names the library's own attention: the file and line for a student to read, whatever ran and whatever did not.

What refuses such a call is in the worker (`checks.watch`, `sandbox.kernels`). A call in a thread or in backward fails there
without a line of the student's; this finds the line in the text. It reads tokens and parses nothing, since a file made to
break a parser would break the grader's.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Mapping

_MOST_PLACES = 3  # places that are told of one submission

# The function of part 1 is called like the library's own, and anybody may name a class Transformer. So a name counts only where
# it is plainly torch's: after `from torch… import`, or as an attribute of a module of torch's. A wrong word against a student
# is worse than none, and a call by an alias is refused in the worker all the same.
_READY_MADE = re.compile(
    r"scaled_dot_product_attention|MultiheadAttention|multi_head_attention_forward|flex_attention"
    r"|Transformer(?:(?:En|De)coder(?:Layer)?)?"
)
_OF_TORCH = ("torch", "nn", "functional", "F", "aten", "_C", "_nn", "flex_attention")


def places(sources: Mapping[str, str], allowed: frozenset[str]) -> list[str]:
    """``attention/masking.py:12 uses `…` ``, of all files but those that are `allowed` to; at most three."""
    found = (f"{file}:{line} uses `{name}`" for file in sorted(sources.keys() - allowed) for line, name in _named(sources[file]))
    return [place for place, _ in zip(found, range(_MOST_PLACES), strict=False)]


def _named(source: str) -> Iterator[tuple[int, str]]:
    for line in _logical_lines(source):
        words = [token.string for token in line]
        from_torch = words[0] == "from" and words[1:2] == ["torch"]
        if words[0] == "from" and not from_torch:
            continue
        for position, token in enumerate(line):
            attribute = position > 1 and words[position - 1] == "." and words[position - 2] in _OF_TORCH
            if _READY_MADE.fullmatch(token.string) and (attribute or from_torch):
                yield token.start[0], token.string


def _logical_lines(source: str) -> Iterator[list[tokenize.TokenInfo]]:
    """The names, dots and signs of each statement; what cannot be read as tokens ends it."""
    line: list[tokenize.TokenInfo] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NAME or token.type == tokenize.OP:
                line.append(token)
            elif token.type == tokenize.NEWLINE and line:
                yield line
                line = []
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    if line:
        yield line
