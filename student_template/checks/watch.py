"""Watching a student's code from inside torch: operations counted, devices compared, ready-made attention refused."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# What torch warns of in a student's call that passes through here would be told of this file's line, which is none of theirs.
warnings.filterwarnings("ignore", module=re.escape(__name__))

# The public functions and the kernels behind them, forward and backward: everything that computes attention in one call.
READY_MADE = re.compile(
    r"scaled_dot_product|multi_head_attention|native_multi_head|transformer_encoder_layer_fwd|flash_attention|efficient_attention"
    r"|flex_attention|_safe_softmax|varlen_attn"
)
# Indexing takes its indices from the CPU whatever the device of the tensor, and copying between devices is what copy is for.
_MAY_MIX_DEVICES = (
    "aten.index",
    "aten.index_put",
    "aten.index_put_",
    "aten._index_put_impl_",
    "aten.copy_",
    "aten._to_copy",
    "aten._copy_from",
)


class ReadyMadeAttention(RuntimeError):
    """A part that asks for the student's own attention called the library's."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"`{name}` is ready-made attention. This part asks for your own, from matrix products and a softmax; "
            "the library's may be called in attention/library.py only."
        )


class ReadyMade(TorchFunctionMode):
    """Note the calls of ready-made attention by name; where it is `banned`, raise ReadyMadeAttention in the student's own line.

    A policy, not a boundary: it can be switched off from inside. `passed_over` says of the frame of a call that it is not the
    student's code that calls.
    """

    def __init__(self, banned: bool, passed_over: Callable[[FrameType], bool]) -> None:
        super().__init__()
        self.names: list[str] = []
        self._banned = banned
        self._passed_over = passed_over

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", None) or str(func)
        if READY_MADE.search(name) and not self._passed_over(sys._getframe(1)):
            if self._banned:
                raise ReadyMadeAttention(name)
            self.names.append(name)
        return func(*args, **(kwargs or {}))


class Operations(TorchDispatchMode):
    """The tensor operations that run, in order: `"aten.bmm"`, …; the elements of the largest tensor that one of them made; and
    those that mixed tensors of `device` with others.

    Those of a frame that is `passed_over`, as above, are left out.
    """

    def __init__(self, device: str | None, locate: Callable[[Any], str], passed_over: Callable[[FrameType], bool]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []
        self.largest = 0
        self.foreign: list[str] = []
        self._device = device
        self._locate = locate
        self._passed_over = passed_over

    def __torch_dispatch__(
        self, func: Any, types: Iterable[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if self._passed_over(sys._getframe(1)):
            return func(*args, **(kwargs or {}))
        name = str(func.overloadpacket)
        self.names.append(name)
        if self._device is not None and (name not in _MAY_MIX_DEVICES or self._copies_away(name, args)):
            self._compare_devices(name, (args, kwargs))
        result = func(*args, **(kwargs or {}))
        self.largest = max(self.largest, *map(_elements, tree_leaves(result)), 0)
        return result

    def _copies_away(self, name: str, arguments: Sequence[Any]) -> bool:
        """Numbers written into a tensor of another device, which was made there and not on the inputs'."""
        return name == "aten.copy_" and arguments[1].device.type == self._device != arguments[0].device.type

    def _compare_devices(self, name: str, arguments: object) -> None:
        devices = {leaf.device.type for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor) and leaf.dim() > 0}
        if len(devices) > 1:
            self.foreign.append(f"{name.removeprefix('aten.')} {self._locate(sys._getframe(2))}".strip())


def _elements(value: object) -> int:
    """Elements in memory: a tensor that only repeats another, as `expand` makes it, has no more than that one."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return 0
    return value.untyped_storage().nbytes() // value.element_size()
