"""What the checks of part 4 share: layers of the checks' own, right and subtly wrong, beside the library's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from . import expected
from .compare import BY_DTYPE, expect_close, fail
from .draw import Layer
from .errors import CheckFailed, StudentRaised
from .signatures import LIBRARY
from .stand_in import MultiHeadAttention
from .student import Answer, Student, Target

SOURCE = "torch's nn.MultiheadAttention with the same weights"


@dataclass(frozen=True)
class Pair:
    """One layer twice: `target` where the student's code is, and `here`, to know what the first one answers."""

    layer: Layer
    target: Target
    here: MultiHeadAttention

    def wrong_output(self, x: Tensor, causal: bool = False, mask: Tensor | None = None) -> Tensor:
        """What the layer answers, wrong as it may be."""
        with torch.no_grad():
            output = self.here(x, causal=causal, key_padding_mask=mask)
        assert isinstance(output, Tensor)
        return output

    def right_output(self, x: Tensor, causal: bool = False, mask: Tensor | None = None) -> Tensor:
        """What the library answers with this layer's weights, in float64."""
        batched, rows = (x, mask) if x.dim() == 3 else (x[None], None if mask is None else mask[None])
        output, _ = expected.multi_head(self.layer.weights, self.layer.num_heads, batched, causal=causal, key_padding_mask=rows)
        return output if x.dim() == 3 else output[0]


def bring(
    student: Student,
    layer: Layer | None = None,
    that: str = "",
    *,
    dtype: torch.dtype = torch.float32,
    training: bool = True,
    **wrong: Any,
) -> Pair:
    """A layer of the checks' own; `wrong` as `stand_in.MultiHeadAttention` says, and `that` in words: "that ignores causal"."""
    layer = layer or student.draw.layer()
    sizes = layer.d_model, layer.num_heads
    here = MultiHeadAttention(*sizes, **wrong).to(dtype)
    with torch.no_grad():
        for name, weight in here.weights().items():
            weight.copy_(layer.weights[name])
    target = student.stand_in(
        *sizes, weights=layer.weights, dtype=dtype, training=training, plain=_wants_parameters(student), **wrong
    )
    return Pair(layer, replace(target, shown=f"MultiHeadAttention{sizes} {that}".rstrip()), here)


def _wants_parameters(student: Student) -> bool:
    """Whether to_library takes the projections as parameters alone, which a layer of part 3 may hold instead of linear layers."""

    def works(plain: bool) -> bool:
        try:
            student.to_library(student.stand_in(4, 2, plain=plain))
        except StudentRaised:
            return False
        return True

    return not works(plain=False) and works(plain=True)


def library_of(student: Student, target: Target) -> Target:
    """What to_library makes of the layer: the library's class or one derived from it."""
    answer = student.to_library(target)
    kinds = answer.module("library").kinds
    if "MultiheadAttention" not in kinds:
        fail(answer, f"it came back as a {kinds[0] if kinds else 'module'}, and must be torch's own nn.MultiheadAttention.")
    return student.returned(answer, "library", LIBRARY)


def library_answer(copy: Target, x: Tensor, causal: bool = False, mask: Tensor | None = None) -> Answer:
    """Call the library's layer for self-attention, with masks as it takes them."""
    options = {"attn_mask": expected.forbidden_pairs(x.shape[-2], x.shape[-2], causal=True)} if causal else {}
    return copy(x, x, x, **options, **({} if mask is None else {"key_padding_mask": mask}))


def expect_same_function(
    copy: Target, pair: Pair, x: Tensor, causal: bool = False, mask: Tensor | None = None, look: str = ""
) -> None:
    """The library's layer answers as it should with the weights of the pair's; `x` decides the dtype."""
    wanted = pair.right_output(x, causal, mask)
    answer = library_answer(copy, x, causal, mask)
    expect_close(answer, "output", wanted, BY_DTYPE[x.dtype], source=SOURCE, look=look)


def expect_difference(
    student: Student, pair: Pair, x: Tensor, causal: bool = False, mask: Tensor | None = None, look: str = ""
) -> None:
    """library_difference is what it must be, for this pair and these masks.

    A to_library that is wrong has checks of its own: the difference from what it made is accepted, too.
    """
    options = {"causal": causal} if mask is None else {"causal": causal, "key_padding_mask": mask}
    answer = student.library_difference(pair.target, x, **options)
    found, layer_says = answer.number("difference"), pair.wrong_output(x, causal, mask)
    wanted = _largest(layer_says, pair.right_output(x, causal, mask), mask)
    if not _near(found, wanted, layer_says) and not _near(found, _from_own_copy(student, pair, layer_says, x, causal, mask), x):
        what = "where the layer and the library agree" if wanted < 1e-4 else "the largest absolute difference of the two outputs"
        where = "" if mask is None else ", at positions that are not padding"
        fail(answer, f"the difference is {found:.4g}, and must be {_about(wanted)}: {what}{where}.", look)


def _from_own_copy(student: Student, pair: Pair, layer_says: Tensor, x: Tensor, causal: bool, mask: Tensor | None) -> float:
    """How far the layer is from what the student's to_library makes of it; NaN where it makes nothing that answers."""
    try:
        answer = library_answer(library_of(student, pair.target), x, causal, mask)
        return _largest(layer_says, answer["output"], mask)
    except (StudentRaised, CheckFailed):
        return float("nan")


def _largest(one: Tensor, other: Tensor, mask: Tensor | None) -> float:
    difference = (one.double() - other.double()).abs()
    real = difference if mask is None else difference[~mask]
    return float("inf") if real.isnan().any() else float(real.max())


def _near(found: float, wanted: float, outputs: Tensor) -> bool:
    """Equal but for rounding, which is larger where outputs are."""
    if wanted == float("inf"):
        return found == wanted
    rounding = 1e-5 if outputs.dtype == torch.float32 else 1e-9
    size = float(outputs.nan_to_num(posinf=0.0, neginf=0.0).abs().max())
    return abs(found - wanted) <= 1e-3 * wanted + rounding * (1 + size)


def _about(wanted: float) -> str:
    return "about 0" if wanted < 1e-4 else f"{wanted:.4g}"
