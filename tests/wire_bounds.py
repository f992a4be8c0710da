"""What holds of an answer that came through the decoder, whatever bytes it was made of: types, sizes, and nothing hidden."""

from __future__ import annotations

import unicodedata
from typing import Any

import torch
from torch import Tensor

from autograder.sandbox import wire
from autograder.sandbox.framing import MAX_FRAME, WireError
from autograder.sandbox.tensors import DTYPES, is_vast
from checks.calls import LARGEST_INTEGER, ModuleRef, Opaque, Reply

_MOST_VALUES = 20_000
_DEEPEST = 32
_MOST_ENTRIES = 1000


def decoded(frame: bytes, nonce: str, cap: int = MAX_FRAME) -> Reply | wire.Failure | None:
    """The answer, within its bounds; None where it is refused. Any other exception than the wire's own gets through."""
    try:
        answer = wire.decode_answer(frame, nonce, cap)
    except WireError:
        return None
    expect_bounds(answer)
    return answer


def expect_bounds(answer: Reply | wire.Failure) -> None:
    """Every field is of the type that is documented, and no larger than what the decoder promises."""
    if isinstance(answer, wire.Failure):
        assert answer.reason in ("raised", "memory", "too large", "broken")
        assert len(answer.kinds) <= 16
        for text in (*answer.kinds, answer.where):
            _expect_text(text, 200)
        _expect_text(answer.message, 4096)
        return
    assert type(answer) is Reply
    _expect_values([answer.value, *answer.after])
    for names, most, longest in ((answer.operations, 20_000, 64), (answer.ready_made, 20_000, 64), (answer.foreign, 200, 200)):
        assert type(names) is tuple
        assert len(names) <= most
        for text in names:
            _expect_text(text, longest)
    for mapping in (answer.gradients, answer.parameters, answer.attributes, answer.state):
        assert type(mapping) is dict
        assert len(mapping) <= _MOST_ENTRIES
        for name in mapping:
            _expect_text(name, 200)
    for tensor in (*answer.gradients.values(), *answer.state.values()):
        if tensor is not None:
            _expect_tensor(tensor)
    assert None not in answer.state.values()
    elements = 0
    for shape in answer.parameters.values():
        assert len(shape) <= 64
        assert all(type(size) is int and size >= 0 for size in shape)
        elements += torch.empty(shape, device="meta").numel()
    assert elements <= MAX_FRAME // 16
    assert all(type(each) is int and abs(each) < LARGEST_INTEGER for each in answer.attributes.values())
    assert type(answer.largest) is int
    assert 0 <= answer.largest < 1 << 63
    assert answer.module is None or (type(answer.module) is int and 0 <= answer.module < _MOST_ENTRIES)


def _expect_values(values: list[Any]) -> None:
    count, level = 0, values
    for _ in range(_DEEPEST + 1):
        count += len(level)
        for value in level:
            _expect_leaf(value)
        level = [each for value in level if type(value) is tuple for each in value]
    assert not level
    assert count <= _MOST_VALUES


def _expect_leaf(value: Any) -> None:
    match value:
        case Tensor():
            _expect_tensor(value)
        case str():
            assert type(value) is str
            assert len(value.encode("utf-8")) <= 10 << 16  # where each of its characters is an escape
        case Opaque(name):
            _expect_text(name, 200)
        case ModuleRef(index, kinds):
            assert 0 <= index < _MOST_ENTRIES
            for kind in kinds:
                _expect_text(kind, 200)
        case int():
            assert type(value) in (bool, int)
            assert abs(value) < LARGEST_INTEGER
        case _:
            assert value is None or type(value) in (float, tuple, torch.dtype, torch.device), type(value)


def _expect_tensor(tensor: Tensor) -> None:
    assert type(tensor) is Tensor
    assert tensor.dtype in DTYPES.values()
    assert tensor.device.type == "cpu"
    assert tensor.dim() <= 64
    assert tensor.numel() * tensor.element_size() <= MAX_FRAME
    assert tensor.untyped_storage().nbytes() <= MAX_FRAME
    assert not is_vast(tensor.shape)
    if tensor.dtype is torch.bool and tensor.numel():
        assert int(tensor.contiguous().view(-1).view(torch.uint8).max()) <= 1
    tensor.to(torch.float64).sum()  # every element can be read


def _expect_text(text: str, longest: int) -> None:
    assert type(text) is str
    assert len(text) <= longest
    if not (text.isascii() and text.isprintable()):
        assert all(char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cf", "Cs") for char in text)
