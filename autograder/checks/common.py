"""Properties that are asked of every part in the same way; each part's module names them as checks of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from checks import expected
from checks.compare import (
    BY_DTYPE,
    FLOAT32,
    expect_alive,
    expect_close,
    expect_dtype,
    expect_on_its_device,
    expect_same_operations,
    expect_unchanged,
    fail,
)
from checks.draw import Draw
from checks.student import Answer, Target
from checks.watch import READY_MADE

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def exact(tensor: Tensor) -> Tensor:
    """Rounded to quarters. With a width of 16, whose root and fourth root are exact too, scores of any size that float32 holds
    are then the same in every order of summing and scaling, so that large ones can be compared at all.
    """
    return (tensor * 4).round() / 4


def with_gaps(draw: Draw, items: int, length: int, top: float) -> tuple[Tensor, Tensor]:
    """Q and K (items, length, 16) whose scores in a row are `top`, `top` - 64, `top` - 128, … in an order drawn for each item.

    One key wins outright, so that the right weights are 0 and 1 however the scores are rounded.
    """
    Q, K = torch.zeros(items, length, 16), torch.zeros(items, length, 16)
    Q[..., 0] = 64
    K[..., 0] = torch.stack([(top - 64 * draw.permutation(length)) / 16 for _ in range(items)])  # a score is 64 / √16 times it
    return Q, K


def left_padding(items: int, length: int) -> Tensor:
    """Item b is padded on the left by b + 1: under the causal mask, its first queries see no key."""
    return torch.arange(length)[None, :] <= torch.arange(items)[:, None]


def expect_both(answer: Answer, output: Tensor, weights: Tensor, source: str, only: Tensor | None = None) -> None:
    """Weights and output are these, float32."""
    expect_close(answer, "weights", weights, FLOAT32, source=source, only=only)
    expect_close(answer, "output", output, FLOAT32, source=source, only=only)


def library_gradients(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None, causal: bool, upstream: Tensor) -> dict[str, Tensor]:
    """The gradients of `<upstream, output>` at Q, K and V by torch's library, in float64."""

    def library(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
        return expected.attention(Q, K, V, mask, causal)[0]

    return expected.gradients(library, {"Q": Q, "K": K, "V": V}, upstream)


def laid_out_differently(tensor: Tensor) -> Tensor:
    """The same numbers with their last two axes swapped in memory: not contiguous."""
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)


def expect_leaves_inputs_alone(target: Target, *args: Tensor, look: str, **kwargs: Any) -> None:
    """No argument changes; a second call gives the same; so do the same numbers laid out differently in memory."""
    first = target.observe(*args, after=True, **kwargs)
    expect_unchanged(first, look)
    expect_alive(first)
    results = first.results
    again = target(*args, **kwargs)
    for name in results:
        expect_close(again, name, first[name], FLOAT32, source="what the same call returned the first time", look=look)
    swapped = target(*(laid_out_differently(each) for each in args), **kwargs)
    for name in results:
        expect_close(
            swapped, name, first[name], FLOAT32, source="what the same numbers gave when they were contiguous", look=look
        )


def expect_no_memory(
    target: Target,
    args: Sequence[Tensor],
    options: Mapping[str, Any],
    between: Sequence[tuple[Sequence[Tensor], Mapping[str, Any]]],
) -> None:
    """Nothing is kept from one call to the next: other masks, other shapes, other numbers of the same shape.

    The first call is the same one with its items in reverse order, so that whatever a first call leaves behind is wrong later.
    """
    turned = {name: value.flip(0) if isinstance(value, Tensor) else value for name, value in options.items()}
    first = target(*(each.flip(0) for each in args), **turned)
    source = "what the same items gave in reverse order, before other calls"
    for other_args, other_options in between:
        target(*other_args, **other_options)
        after = target(*args, **options)
        for name in first.results:
            expect_close(
                after, name, first[name].flip(0), FLOAT32, source=source, look="anything kept from one call to the next."
            )


def expect_dtype_kept(answer: Answer, expected: Mapping[str, Tensor], dtype: torch.dtype) -> None:
    """Every result has the inputs' dtype and, within that dtype's tolerance, the right values."""
    look = "casts, and tensors made with a dtype of their own: a mask, a bias, a fill value too large for a half type."
    for name, wanted in expected.items():
        expect_dtype(answer, name, dtype, look)
        expect_close(answer, name, wanted, BY_DTYPE[dtype], look=look)


def expect_vectorised(small: Answer, large: Answer, grown: str) -> None:
    """As many tensor operations for the larger call as for the smaller."""
    expect_same_operations(small, large, grown, "a Python loop: one matrix product does all items, heads and positions at once.")


def expect_any_device(target: Target, *args: Any, **kwargs: Any) -> None:
    """Nothing is made on a device of the code's own choice. The call has to work on the CPU first."""
    target(*args, **kwargs)
    look = "tensors made inside the function: give each of them `device=` of an input, and move nothing to the CPU."
    expect_on_its_device(target.observe(*args, on="meta", **kwargs), look)


def expect_own_work(target: Target, *args: Tensor, **kwargs: Any) -> None:
    """No ready-made attention runs: the transport raises where it is called by name, and the operations show its kernels."""
    answer = target.observe(*args, count=True, **kwargs)
    expect_alive(answer)
    kernels = [name for name in answer.reply.operations if READY_MADE.search(name)]
    if kernels:
        fail(answer, f"the kernel {kernels[0]} ran, which is ready-made attention, and this part asks for your own.")
