"""Ready-made attention taken out of torch, in a worker whose part asks for the student's own.

`checks.watch` refuses it by name in the thread that calls it. This refuses it in every thread, in backward and in TorchScript
too, since the kernels themselves are replaced. It is a policy and no boundary: a student owns the process.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
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


def forbid() -> torch.library.Library:
    """Make every one of them raise ReadyMadeAttention, for as long as the library that is returned lives."""
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is overridden is what is meant
        for name in _KERNELS:
            if hasattr(torch.ops.aten, name):
                for key in _KEYS:
                    library.impl(name, _refusing(name), key, allow_override=True)
    # This one is Python, and computes with ordinary matrix products: its code is replaced, so that no reference escapes.
    F.multi_head_attention_forward.__code__ = _refuse_multi_head.__code__
    return library


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise ReadyMadeAttention(name)

    return refuse


def _refuse_multi_head(*args: Any, **kwargs: Any) -> NoReturn:
    """Runs with the names of torch.nn.functional around it, so it brings its own."""
    import sys

    raise sys.modules["checks.watch"].ReadyMadeAttention("multi_head_attention_forward")
