"""Hidden checks of part 2."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from checks import expected
from checks.compare import (
    FLOAT32,
    LARGE_SCORES,
    expect_alive,
    expect_close,
    expect_error,
    expect_gradients,
    expect_on_its_device,
    expect_tells,
    expect_zero,
    fail,
)
from checks.registry import check
from checks.student import Answer, Student

from . import common

PART = "masking"
hidden = functools.partial(check, part=PART, hidden=True)
LIBRARY = "torch's library with the same pairs forbidden"


@hidden(
    points=0.5,
    needs="test_causal_mask",
    category="causal mask",
    hint="the mask's size, dtype and device: made for the length and the device that are asked for.",
)
def test_causal_mask_at_any_length(student: Student) -> None:
    """causal_mask is right for any length, and is made on the device that is asked for."""
    for length in (1, 2, 7, 130):
        answer = student.causal_mask(length)
        expect_close(answer, "mask", torch.ones(length, length).triu(1), FLOAT32, source="1 is True, forbidden")
    expect_on_its_device(student.causal_mask.observe(5, device="meta", on="meta"))


@hidden(
    points=1,
    needs="test_without_masks",
    category="masks",
    hint="each mask alone, and both together: a pair is forbidden if either forbids it, with heads and without.",
)
def test_masks_match_library(student: Student) -> None:
    """Under padding, the causal mask, and both, output and weights equal the library's, with and without heads."""
    for heads in (True, False):
        for causal, padded in ((False, True), (True, False), (True, True)):
            sizes = student.draw.sizes()
            Q, K, V = student.draw.qkv(sizes, heads=heads, square=causal)
            K[:, ..., 0, :] = 0  # a key of zeros is a key like any other
            mask = student.draw.padding(sizes.B, sizes.L_k) if padded else None
            output, weights = expected.attention(Q, K, V, mask, causal)
            answer = student.masked_attention(Q, K, V, key_padding_mask=mask, causal=causal)
            common.expect_both(answer, output, weights, LIBRARY)


@hidden(
    points=0.5,
    needs="test_padded_keys_get_no_weight",
    category="padding mask",
    hint="how the mask (B, L_k) is lined up with the scores. Where two sizes are equal, a wrong line-up raises no error.",
)
def test_each_item_has_its_own_mask(student: Student) -> None:
    """Each item is masked by its own row of the mask, also where batch, heads and length are equal."""
    for lead in ((5, 5), (5,), (1, 5), (5, 1)):
        Q, K, V = (student.draw.normal(*lead, 5, 6) for _ in range(3))
        mask = student.draw.padding(lead[0], 5)
        output, weights = expected.attention(Q, K, V, mask)
        answer = student.masked_attention(Q, K, V, key_padding_mask=mask)
        common.expect_both(answer, output, weights, LIBRARY)


@hidden(
    points=0.5,
    needs="test_padded_keys_get_no_weight",
    category="shapes",
    hint="how the mask (B, L_k) gets its middle axes: one of size 1 for each axis of the scores between the batch and the keys.",
)
def test_any_dimensions_between(student: Student) -> None:
    """Any number of dimensions may stand between the batch and the length, none included."""
    sizes = student.draw.sizes()
    for lead in ((sizes.B,), (sizes.B, sizes.H), (sizes.B, 2, 2), (sizes.B, 1, 2, sizes.H)):
        Q = student.draw.normal(*lead, sizes.L_q, sizes.d_k)
        K, V = student.draw.normal(*lead, sizes.L_k, sizes.d_k), student.draw.normal(*lead, sizes.L_k, sizes.d_v)
        mask = student.draw.padding(sizes.B, sizes.L_k)
        output, weights = expected.attention(Q, K, V, mask)
        answer = student.masked_attention(Q, K, V, key_padding_mask=mask)
        common.expect_both(answer, output, weights, LIBRARY)


@hidden(
    points=1,
    needs="test_masked_returns_a_pair",
    category="padding mask",
    hint="what an output still takes from a padded position. The weight of a padded key must be zero, not small.",
)
def test_padding_does_not_matter(student: Student) -> None:
    """Replacing padded keys and values by huge numbers, or appending padding, changes no output."""
    sizes = student.draw.sizes()
    Q, K, V = student.draw.qkv(sizes)
    mask = student.draw.padding(sizes.B, sizes.L_k)
    before = student.masked_attention(Q, K, V, key_padding_mask=mask)
    expect_alive(before)
    padded = mask[:, None, :, None]
    huge = (
        torch.where(padded, 50 * student.draw.normal(*K.shape), K),
        torch.where(padded, 1e6 * student.draw.normal(*V.shape), V),
    )
    answer = student.masked_attention(Q, *huge, key_padding_mask=mask)
    source = "what the same call returned before padded keys and values were replaced"
    expect_close(answer, "output", before["output"], FLOAT32, source=source)
    more = 3
    longer = (torch.cat([each, student.draw.normal(*each.shape[:-2], more, each.shape[-1])], -2) for each in (K, V))
    answer = student.masked_attention(Q, *longer, key_padding_mask=torch.nn.functional.pad(mask, (0, more), value=True))
    source = f"what the same call returned before {more} padded positions were appended"
    expect_close(answer, "output", before["output"], FLOAT32, source=source)
    expect_close(answer, "weights", torch.nn.functional.pad(before["weights"], (0, more)), FLOAT32, source=source)


@hidden(
    points=0.5,
    needs="test_without_masks",
    category="padding mask",
    hint="padded queries. Only keys are masked: a query at a padded position is answered like any other.",
)
def test_padded_queries_are_answered(student: Student) -> None:
    """Only keys are masked: in self-attention, a query at a padded position gets an ordinary row."""
    sizes = student.draw.sizes()
    x = student.draw.normal(sizes.B, sizes.L_k, sizes.d_k)
    mask = student.draw.padding(sizes.B, sizes.L_k)
    for causal in (False, True):
        answer = student.masked_attention(x, x, x, key_padding_mask=mask, causal=causal)
        output, weights = expected.attention(x, x, x, mask, causal)
        common.expect_both(answer, output, weights, LIBRARY, only=mask[:, :, None])


@hidden(
    points=1,
    needs="test_padded_keys_get_no_weight",
    category="numerics",
    hint="the number that masked scores are filled with. It must lose against any score that a real key can have.",
)
def test_masked_keys_lose_against_any_score(student: Student) -> None:
    """A masked key gets no weight however large its score, and however small the scores of the real keys."""
    first = torch.tensor([1.0] + [0.0] * 15)
    for shift, blocked in ((-200.0, 0.0), (-2000.0, 0.0), (0.0, 25000.0)):  # the real keys' scores are close to each other
        Q, K = common.exact(student.draw.normal(2, 6, 16)), common.exact(student.draw.normal(2, 6, 16))
        mask = student.draw.padding(2, 6)
        first_of_keys = torch.where(mask, blocked, shift)[..., None] / 16  # a score moves by 64 / √16 times this
        _expect_masked(student, Q * (1 - first) + 64 * first, K * (1 - first) + first_of_keys * first, mask)
    for top, blocked in ((-20000.0, 0.0), (-80000.0, 0.0), (-20000.0, 25000.0)):  # one real key wins outright
        (Q, K), mask = common.with_gaps(student.draw, 2, 6, top), student.draw.padding(2, 6)
        K[..., 0] = torch.where(mask, blocked / 16, K[..., 0])
        _expect_masked(student, Q, K, mask)


def _expect_masked(student: Student, Q: Tensor, K: Tensor, mask: Tensor) -> None:
    V = student.draw.normal(*K.shape[:-1], 4)
    output, weights = expected.attention(Q, K, V, mask)
    answer = student.masked_attention(Q, K, V, key_padding_mask=mask)
    expect_close(answer, "weights", weights, LARGE_SCORES, source=LIBRARY)
    expect_close(answer, "output", output, LARGE_SCORES, source=LIBRARY)


@hidden(
    points=1,
    needs=("test_row_that_sees_no_key", "test_both_masks_together"),
    category="rows that see no key",
    hint="left padding under the causal mask: the first queries see only padding. Their rows are zero, the others untouched.",
)
def test_rows_that_see_no_key_under_both_masks(student: Student) -> None:
    """Left padding under the causal mask, and items that are padding only: dead rows are zero and the others right."""
    sizes = student.draw.sizes()
    for heads in (True, False):
        Q, K, V = student.draw.qkv(sizes, heads=heads, square=True)
        for mask in (common.left_padding(sizes.B, sizes.L_k), torch.ones(sizes.B, sizes.L_k, dtype=torch.bool)):
            output, weights = expected.attention(Q, K, V, mask, causal=True)
            answer = student.masked_attention(Q, K, V, key_padding_mask=mask, causal=True)
            dead = expected.forbidden_pairs(sizes.L_k, sizes.L_k, mask, causal=True, lead=2 if heads else 1).all(-1, keepdim=True)
            for name, wanted in (("weights", weights), ("output", output)):
                expect_zero(answer, name, dead, "this query sees no key")
                expect_close(answer, name, wanted, FLOAT32, source=LIBRARY)


def _masked_cases(student: Student) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor | None, bool]]:
    """One mask at a time, with heads and without: what both together do is a check of its own."""
    for causal, heads in ((False, True), (False, False), (True, True), (True, False)):
        sizes = student.draw.sizes()
        Q, K, V = student.draw.qkv(sizes, square=causal, heads=heads, dtype=torch.float64)
        yield Q, K, V, None if causal else student.draw.padding(sizes.B, sizes.L_k), causal


@hidden(
    points=1,
    needs="test_without_masks",
    category="gradients",
    hint="what cuts or bends the graph: detach, no_grad, .data, NumPy, an in-place write.",
)
def test_gradients(student: Student) -> None:
    """The gradients of Q, K and V are right under each mask."""
    for Q, K, V, mask, causal in _masked_cases(student):
        upstream = student.draw.normal(*Q.shape[:-1], V.shape[-1], dtype=torch.float64)
        wanted = common.library_gradients(Q, K, V, mask, causal, upstream)
        answer = student.gradients(
            student.masked_attention, Q, K, V, key_padding_mask=mask, causal=causal, upstream=(upstream, None)
        )
        expect_gradients(answer, wanted)


@hidden(
    points=1,
    needs=("test_rows_that_see_no_key_under_both_masks", "test_gradients"),
    category="gradients",
    hint="NaN that is replaced only after it was made. Its gradient is NaN all the same: keep it from arising.",
)
def test_gradients_of_rows_that_see_no_key(student: Student) -> None:
    """A row that sees no key spoils no gradient: all are finite, and right."""
    sizes = student.draw.sizes()
    for causal in (False, True):
        Q, K, V = student.draw.qkv(sizes, square=causal, dtype=torch.float64)
        mask = common.left_padding(sizes.B, sizes.L_k) if causal else student.draw.padding(sizes.B, sizes.L_k)
        if not causal:
            mask[0] = True
        upstream = student.draw.normal(*Q.shape[:-1], V.shape[-1], dtype=torch.float64)
        wanted = common.library_gradients(Q, K, V, mask, causal, upstream)
        answer = student.gradients(
            student.masked_attention, Q, K, V, key_padding_mask=mask, causal=causal, upstream=(upstream, None)
        )
        expect_gradients(answer, wanted)


@hidden(
    points=0.5,
    needs="test_padded_keys_get_no_weight",
    category="gradients",
    hint="whether a padded position still takes part in the sum, if only a little.",
)
def test_padding_gets_no_gradient(student: Student) -> None:
    """No gradient reaches a padded key or value."""
    sizes = student.draw.sizes()
    Q, K, V = student.draw.qkv(sizes, dtype=torch.float64)
    mask = student.draw.padding(sizes.B, sizes.L_k)
    upstream = student.draw.normal(*Q.shape[:-1], V.shape[-1], dtype=torch.float64)
    answer = student.gradients(student.masked_attention, Q, K, V, key_padding_mask=mask, upstream=(upstream, None))
    padded = mask[:, None, :, None]
    for name in ("K", "V"):
        gradient = answer.gradient(name)
        if not (gradient.masked_fill(~padded, 0).abs() <= 1e-9).all():
            fail(answer, f"a padded position has a gradient at {name}, and must have none.")
        if not (gradient.masked_fill(padded, 0).abs() > 0).any():
            fail(answer, f"no position that is not padding has a gradient at {name}.")


@hidden(
    points=1,
    needs="test_without_masks",
    category="dtypes",
    hint="casts, and tensors made with a dtype of their own: a mask, a bias, a fill value too large for a half type.",
)
def test_keeps_the_dtype(student: Student) -> None:
    """float64, float32, bfloat16 and float16 inputs give results of the same dtype, and right ones, under each mask."""
    sizes = student.draw.sizes()
    padding = student.draw.padding(sizes.B, sizes.L_k)
    for dtype, causal in itertools.product(common.DTYPES, (False, True)):
        Q, K, V = student.draw.qkv(sizes, square=True, dtype=dtype)
        mask = None if causal else padding
        output, weights = expected.attention(Q, K, V, mask, causal)
        answer = student.masked_attention(Q, K, V, key_padding_mask=mask, causal=causal)
        common.expect_dtype_kept(answer, {"weights": weights, "output": output}, dtype)


@hidden(
    points=0.5,
    needs="test_masked_returns_a_pair",
    category="purity",
    hint="operations that end in an underscore or in `=` (`|=`), dropout, anything kept between calls, `view` for `reshape`.",
)
def test_leaves_its_inputs_alone(student: Student) -> None:
    """Inputs and mask are not changed, a second call gives the same, and so do inputs that are not contiguous."""
    sizes = student.draw.sizes()
    Q, K, V = student.draw.qkv(sizes, square=True)
    mask = student.draw.padding(sizes.B, sizes.L_k)
    target, look = student.masked_attention, "in-place operations, dropout, and `view` on an argument."
    common.expect_leaves_inputs_alone(target, Q, K, V, look=look, key_padding_mask=mask, causal=True)
    between: list[tuple[tuple[Tensor, ...], dict[str, Any]]] = [
        ((Q, K, V), {"key_padding_mask": mask, "causal": True}),
        ((K, Q, V), {"key_padding_mask": mask.roll(1, 0)}),
    ]
    common.expect_no_memory(target, (Q, K, V), {}, between)
    mask[-1] = True  # an item that is padding only
    common.expect_leaves_inputs_alone(target, Q, K, V, look=look, key_padding_mask=mask)


def _counted(student: Student, B: int, H: int, L: int) -> Answer:
    Q, K, V = (student.draw.normal(B, H, L, 6) for _ in range(3))
    mask = student.draw.padding(B, L)
    answer: Answer = student.masked_attention.observe(Q, K, V, key_padding_mask=mask, causal=True, count=True)
    return answer


@hidden(
    points=0.5,
    needs="test_without_masks",
    category="vectorisation",
    hint="a Python loop over items, heads or positions: masks broadcast, and one operation does them all at once.",
)
def test_takes_no_loop(student: Student) -> None:
    """The number of tensor operations does not grow with batch, heads or length."""
    fewer, more = (_counted(student, B, H, L) for B, H, L in ((2, 3, 5), (5, 4, 9)))
    common.expect_vectorised(fewer, more, "batch, heads and length grow")


@hidden(
    points=0.5,
    needs="test_without_masks",
    category="devices",
    hint="tensors made inside the function, masks above all: give each of them `device=` of an input.",
)
def test_works_on_any_device(student: Student) -> None:
    """Nothing is made on a device of its own choice, so it also runs on a GPU."""
    sizes = student.draw.sizes()
    Q, K, V = student.draw.qkv(sizes, square=True)
    for mask in (None, student.draw.padding(sizes.B, sizes.L_k)):
        for causal in (False, True):
            common.expect_any_device(student.masked_attention, Q, K, V, key_padding_mask=mask, causal=causal)


@hidden(
    points=0.5,
    category="errors",
    hint="a mask that is not bool or not (B, L_k), and shapes that do not fit: a ValueError names the argument and its shape.",
)
def test_what_cannot_be_right_raises(student: Student) -> None:
    """A mask that is not bool or not (B, L_k), and shapes that do not fit, raise a ValueError that says so."""
    for heads in (False, True):
        Q, K, V = student.draw.qkv(student.draw.sizes(), heads=heads)
        mask = student.draw.padding(K.shape[0], K.shape[-2])
        student.masked_attention(Q, K, V, key_padding_mask=mask)  # what fits must not raise
        _expect_wrong_masks_raise(student, Q, K, V)
        attend = functools.partial(functools.partial, student.masked_attention)
        for called, call in (
            ("masked_attention with Q and K of different widths", attend(Q, K[..., 1:], V)),
            ("masked_attention with K and V of different lengths", attend(Q, K, V[..., 1:, :])),
            ("masked_attention with causal=True and L_q != L_k", attend(Q, K, V, causal=True)),
            ("masked_attention with causal=True and L_q = 1", attend(Q[..., :1, :], K, V, causal=True)),
        ):
            expect_error(call, called, why="the shapes do not fit")


def _expect_wrong_masks_raise(student: Student, Q: Tensor, K: Tensor, V: Tensor) -> None:
    B, L_k = K.shape[0], K.shape[-2]
    mask = student.draw.padding(B, L_k)
    for wrong in (mask.float(), mask.long(), mask.to(torch.uint8)):
        called = f"masked_attention(Q, K, V, key_padding_mask) with key_padding_mask in {str(wrong.dtype).removeprefix('torch.')}"
        call = functools.partial(student.masked_attention, Q, K, V, key_padding_mask=wrong)
        expect_error(call, called, ("ValueError", "TypeError"), why="the mask is not bool")
    for shape in ((B, L_k + 1), (L_k,), (B, 1, L_k), (1, L_k), (B, Q.shape[-2])):
        called = f"masked_attention(Q, K, V, key_padding_mask) with key_padding_mask {shape}, B = {B} and L_k = {L_k}"
        call = functools.partial(student.masked_attention, Q, K, V, key_padding_mask=torch.zeros(shape, dtype=torch.bool))
        text = expect_error(call, called, why=f"the mask is not (B, L_k) = ({B}, {L_k})")
        expect_tells(text, called, ("key_padding_mask", "mask"), shape[-1:])


@hidden(
    points=0.5,
    category="own work",
    hint="this part asks for your own attention, from matrix products and a softmax.",
)
def test_no_ready_made_attention(student: Student) -> None:
    """It uses no ready-made attention of the library's."""
    sizes = student.draw.sizes()
    Q, K, V = student.draw.qkv(sizes, square=True)
    mask = student.draw.padding(sizes.B, sizes.L_k)
    for options in ({}, {"causal": True}, {"key_padding_mask": mask}, {"key_padding_mask": mask, "causal": True}):
        common.expect_own_work(student.masked_attention, Q, K, V, **options)
