"""Tensors as bytes: safetensors, with the order of the dimensions in memory beside it.

A transposed tensor arrives transposed, not made contiguous: `view` fails on one and not on the other, so it matters to a check.
Anything that is not dense (an expanded tensor, every second column) is sent contiguous.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from .framing import MAX_FRAME, WireError, parse

DTYPES: Mapping[str, torch.dtype] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
}
_MOST_TENSORS = 1024
_MOST_DIMENSIONS = 64  # torch's own limit
_LARGEST_TABLE = 1 << 20  # bytes of safetensors' own header
_LARGEST_SIZE = 1 << 40  # of a dimension, or of an offset
_MOST_ELEMENTS = MAX_FRAME  # dimensions of size zero aside: the sum over one of (2**40, 0) has 2**40 elements


def can_cross(tensor: Tensor) -> bool:
    """Whether the tensor has values of a known dtype, laid out as plain memory."""
    return tensor.layout is torch.strided and tensor.dtype in DTYPES.values() and tensor.device.type != "meta"


def is_vast(shape: Sequence[int]) -> bool:
    """Whether a tensor of this shape, or one that is made of it along a dimension, is beyond what a message carries."""
    return math.prod(max(1, size) for size in shape) > _MOST_ELEMENTS


class TensorWriter:
    """Collects the tensors of one message. The same object added twice is sent once, and arrives as one object."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._kept: list[Tensor] = []  # keeps each alive, so that no id is used again

    def add(self, tensor: Tensor) -> int:
        """The number by which the message refers to this tensor."""
        if id(tensor) not in self._numbers:
            if len(self._kept) >= _MOST_TENSORS or is_vast(tensor.shape):
                raise WireError("a message of that many tensors, or of one so large, is too large")
            self._numbers[id(tensor)] = len(self._kept)
            self._kept.append(tensor)
        return self._numbers[id(tensor)]

    def finish(self) -> tuple[list[list[int] | None], bytes]:
        """For each tensor the order of its dimensions in memory (None: as they are), and the bytes of them all."""
        if not self._kept:
            return [], b""
        orders: list[list[int] | None] = []
        sent: dict[str, Tensor] = {}
        for number, tensor in enumerate(self._kept):
            bare = torch.Tensor.detach(tensor).as_subclass(Tensor).cpu()
            order = _order_in_memory(bare)
            orders.append(order)
            # A copy, since safetensors refuses two tensors that share memory.
            ordered = bare if order is None else bare.permute(order)
            sent[str(number)] = ordered.clone(memory_format=torch.contiguous_format)
        return orders, bytes(save(sent))


def read_tensors(orders: Any, blob: bytes) -> list[Tensor]:
    """What `finish` made, from bytes that may be anything. Every claim is checked before anything is allocated."""
    if not isinstance(orders, list) or len(orders) > _MOST_TENSORS:
        raise WireError("its list of tensors is not one")
    if not orders:
        if blob:
            raise WireError("it carries bytes that belong to nothing")
        return []
    shapes = _claims(blob, len(orders))
    for order, shape in zip(orders, shapes, strict=True):
        if order is not None and not _is_permutation(order, len(shape)):
            raise WireError("a tensor's order of dimensions is not a permutation")
    try:
        loaded = load(blob)
        return [_restored(loaded[str(number)], order) for number, order in enumerate(orders)]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the claims hold, so nothing is known to raise here; a panic of Rust's is no Exception
        raise WireError(f"its tensors cannot be read ({type(error).__name__})") from None


def _claims(blob: bytes, count: int) -> list[tuple[int, ...]]:
    """The shapes that safetensors' header claims, once names, dtypes, shapes and byte counts are known to fit together."""
    if len(blob) < 8 or (size := struct.unpack_from("<Q", blob)[0]) > min(_LARGEST_TABLE, len(blob) - 8):
        raise WireError("the table of its tensors is cut off")
    table = parse(blob[8 : 8 + size])
    if not isinstance(table, dict) or set(table) != {str(number) for number in range(count)}:
        raise WireError("its tensors are not those it lists")
    spans = sorted(_span(entry) for entry in table.values())
    edges = [0, *itertools.chain.from_iterable(spans), len(blob) - 8 - size]
    if any(end != start for end, start in zip(edges[::2], edges[1::2], strict=True)):
        raise WireError("its tensors do not fill the bytes that it carries")
    return [tuple(table[str(number)]["shape"]) for number in range(count)]


def _span(entry: Any) -> tuple[int, int]:
    """From where to where one tensor's bytes go, once they are known to be as many as its dtype and shape need."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise WireError("a tensor is described in another way than agreed")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not isinstance(entry["dtype"], str) or (dtype := DTYPES.get(entry["dtype"])) is None:
        raise WireError("a tensor is of an unknown dtype")
    if not _are_sizes(shape, _MOST_DIMENSIONS) or not _are_sizes(offsets, 2) or len(offsets) != 2:
        raise WireError("a tensor's shape is not one")
    if is_vast(shape):
        raise WireError("a tensor's shape is too large")
    start, end = offsets
    if end - start != math.prod(shape) * dtype.itemsize:
        raise WireError("a tensor's bytes are not as many as its shape needs")
    return start, end


def _are_sizes(value: Any, most: int) -> bool:
    if not isinstance(value, list) or len(value) > most:
        return False
    return all(type(size) is int and 0 <= size <= _LARGEST_SIZE for size in value)


def _is_permutation(order: Any, dimensions: int) -> bool:
    return isinstance(order, list) and all(type(d) is int for d in order) and sorted(order) == list(range(dimensions))


def _order_in_memory(tensor: Tensor) -> list[int] | None:
    """The permutation that makes a dense tensor contiguous; None where there is none, or nothing to do."""
    strides = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda dimension: -strides[dimension])
    return order if order != sorted(order) and tensor.permute(order).is_contiguous() else None


def _restored(loaded: Tensor, order: Sequence[int] | None) -> Tensor:
    if loaded.dtype is torch.bool:
        loaded = loaded.view(torch.uint8) != 0  # any other byte than 0 and 1 in a bool is undefined behaviour
    if order is None:
        return loaded
    return loaded.permute([order.index(dimension) for dimension in range(len(order))])
