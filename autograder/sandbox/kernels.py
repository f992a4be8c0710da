"""Ready-made attention taken out of torch, in a worker whose part asks for the student's own.

`checks.watch` refuses it by name in the thread that calls it. This refuses it in every thread, in backward and in TorchScript
too, since the kernels themselves are replaced. It is a policy and no boundary: a student owns the process.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

import torch
import torch.nn.functional as F

from checks.watch import ReadyMadeAttention

_KERNELS = (
    "scaled_dot_product_attention",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_fused_attention_overrideable",
    "_native_multi_head_attention",
    "_transformer_encoder_layer_fwd",
    "_safe_softmax",
)
_KEYS = ("CPU", "AutogradCPU")


def forbid(passed_over: Callable[[FrameType], bool]) -> torch.library.Library:
    """Make every one of them raise ReadyMadeAttention, for as long as the library that is returned lives.

    `passed_over` says of the frame of a call that it is not the student's code that calls: that one is answered.
    """
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is overridden is what is meant
        for name in _KERNELS:
            if hasattr(torch.ops.aten, name):
                for key in _KEYS:
                    library.impl(name, _refusing(name, key, passed_over), key, with_keyset=True, allow_override=True)
    # This one is Python, and computes with ordinary matrix products: its code is replaced, so that no reference escapes.
    F.multi_head_attention_forward.__code__ = _refuse_multi_head.__code__
    return library


def _refusing(name: str, key: str, passed_over: Callable[[FrameType], bool]) -> Callable[..., Any]:
    kernel = torch.library.get_kernel(f"aten::{name}", key)  # the one that is about to be replaced

    def refuse(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if passed_over(sys._getframe(1)):
            return kernel.call_boxed(keyset, *args, **kwargs)
        raise ReadyMadeAttention(name)

    return refuse


def _refuse_multi_head(*args: Any, **kwargs: Any) -> NoReturn:
    """Runs with the names of torch.nn.functional around it, so it brings its own."""
    import sys

    raise sys.modules["checks.watch"].ReadyMadeAttention("multi_head_attention_forward")
