"""Values as JSON: what `checks.calls` calls a Value, in both directions.

None, booleans, integers and text stand for themselves, a list is a tuple, and everything else is an object of one key.
Floats are hexadecimal text, so that every number arrives as it was, infinities and NaN too.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

from checks.calls import LARGEST_INTEGER, ModuleRef, Opaque, Value

from .framing import WireError, plain
from .tensors import TensorWriter, can_cross

_DEEPEST = 32
_MOST_VALUES = 20_000
_LONGEST_TEXT = 1 << 16
_LONGEST_NAME = 200
_MOST_KINDS = 16
_MOST_MODULES = 1000
# Those that torch makes without a warning, and with the number as it is written: it takes 200 for -56.
_DEVICE = re.compile(r"(cpu|cuda|hpu|meta|mps|mtia|privateuseone|xla|xpu)(:(0|[1-9][0-9]?))?")
_DTYPE_NAMES = {str(dtype).removeprefix("torch."): dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}


class ValueWriter:
    """Values into JSON, their tensors aside.

    `lenient` is for the worker's side, where a value comes from a student: what is none is then told as an Opaque. On the
    grader's side it is a mistake in a check, and a TypeError.
    """

    def __init__(self, lenient: bool) -> None:
        self.tensors = TensorWriter()
        self._lenient = lenient
        self._left = _MOST_VALUES

    def write(self, value: Value, depth: int = 0) -> Any:
        """The JSON of one value. Raises WireError where there is too much of it."""
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise WireError("a value of that many parts is too large")
        match value:
            case None | bool():
                return value
            case int() if type(value) is int and abs(value) < LARGEST_INTEGER:
                return value
            case float():
                return {"float": float.hex(value)}
            case str() if len(value) <= _LONGEST_TEXT:
                return value
            case tuple() | list():
                return [self.write(each, depth + 1) for each in value]
            case Tensor() if can_cross(value):
                return {"tensor": self.tensors.add(value)}
            case torch.dtype():
                return {"dtype": str(value).removeprefix("torch.")}
            case torch.device() if _DEVICE.fullmatch(str(value)):
                return {"device": str(value)}
            case ModuleRef(index, kinds):
                return {"module": [index, *(kind[:_LONGEST_NAME] for kind in kinds[:_MOST_KINDS])]}
            case Opaque(name):
                return {"opaque": name[:_LONGEST_NAME]}
        if not self._lenient:
            raise TypeError(f"a {type(value).__name__} cannot be sent to a worker")
        return {"opaque": type(value).__name__[:_LONGEST_NAME]}


class ValueReader:
    """JSON that may be anything into values, or WireError."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self._tensors = tensors
        self._left = _MOST_VALUES

    def read(self, written: Any, depth: int = 0) -> Value:
        """One value."""
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise WireError("a value has too many parts")
        match written:
            case None | bool():
                return written
            case int() if abs(written) < LARGEST_INTEGER:
                return written
            case str() if len(written) <= _LONGEST_TEXT:
                return without_surrogates(written)
            case list():
                return tuple(self.read(each, depth + 1) for each in written)
            case dict() if len(written) == 1:
                return self._object(*next(iter(written.items())))
        raise WireError("a value is none that was agreed on")

    def tensor(self, written: Any) -> Tensor:
        """One value that has to be a tensor."""
        value = self.read(written)
        if not isinstance(value, Tensor):
            raise WireError("something else stands where a tensor has to")
        return value

    def optional_tensor(self, written: Any) -> Tensor | None:
        return None if written is None else self.tensor(written)

    def _object(self, kind: str, content: Any) -> Value:
        if kind == "tensor" and type(content) is int and 0 <= content < len(self._tensors):
            return self._tensors[content]
        if kind == "module":
            return _module(content)
        if not isinstance(content, str) or len(content) > _LONGEST_NAME:
            raise WireError("a value is none that was agreed on")
        if kind == "float":
            return _float(content)
        if kind == "dtype" and content in _DTYPE_NAMES:
            return _DTYPE_NAMES[content]
        if kind == "device" and _DEVICE.fullmatch(content):
            return torch.device(content)
        if kind == "opaque":
            return Opaque(" ".join(plain(content, _LONGEST_NAME).split()))
        raise WireError("a value is none that was agreed on")


def without_surrogates(text: str) -> str:
    """The same text where it can be written down as UTF-8, escapes in place of what cannot."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _module(written: Any) -> ModuleRef:
    match written:
        case [int(index), *kinds] if type(index) is int and 0 <= index < _MOST_MODULES and len(kinds) <= _MOST_KINDS:
            if all(isinstance(kind, str) and len(kind) <= _LONGEST_NAME for kind in kinds):
                return ModuleRef(index, tuple(plain(kind, _LONGEST_NAME) for kind in kinds))
    raise WireError("a module is not one")


def _float(text: str) -> float:
    try:
        return float.fromhex(text)
    except (ValueError, OverflowError):
        raise WireError("a number is not one") from None
