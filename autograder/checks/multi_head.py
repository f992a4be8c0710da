"""Hidden checks of part 3."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import torch
from torch import Tensor

from checks import expected
from checks.compare import (
    FLOAT32,
    FLOAT64,
    expect_alive,
    expect_close,
    expect_error,
    expect_gradients,
    expect_tells,
    expect_zero,
)
from checks.draw import Draw, Layer
from checks.registry import check
from checks.student import Answer, Student, Target

from . import common

PART = "multi_head"
hidden = functools.partial(check, part=PART, hidden=True)
LIBRARY = "torch's nn.MultiheadAttention with the same weights"


def _make(student: Student, layer: Layer, dtype: torch.dtype | None = None, training: bool = True) -> Target:
    made: Target = student.MultiHeadAttention(
        layer.d_model, layer.num_heads, weights=layer.weights, dtype=dtype, training=training
    )
    return made


@hidden(
    points=1,
    category="scale",
    hint="the divisor: √d_k, where d_k is the width of one head, d_model / num_heads.",
)
def test_scale_is_of_one_head(student: Student) -> None:
    """The scores are divided by √d_k of one head, d_k = d_model / num_heads."""
    for d_model, num_heads in ((12, 4), (12, 1), (20, 2), (14, 7)):
        layer = Layer(d_model, num_heads, student.draw.projections(d_model))
        x = student.draw.normal(2, 6, d_model)
        output, weights = expected.multi_head(layer.weights, num_heads, x)
        made = _make(student, layer)
        expect_close(made(x, need_weights=True), "weights", weights, FLOAT32, source=LIBRARY)
        expect_close(made(x), "output", output, FLOAT32, source=LIBRARY)


@hidden(
    points=1,
    needs="test_batch",
    category="heads",
    hint="sizes at their limits: one head, as many heads as features, a batch of one, one position, a long sequence.",
)
def test_any_number_of_heads(student: Student) -> None:
    """It is right for one head, for as many heads as features, for a batch of one, and for short and long sequences."""
    for (d_model, num_heads), (B, L) in (
        ((12, 1), (2, 7)),
        ((6, 6), (3, 5)),
        ((15, 3), (1, 1)),
        ((12, 4), (1, 130)),
        ((16, 4), (4, 4)),
    ):
        layer = Layer(d_model, num_heads, student.draw.projections(d_model))
        x = student.draw.normal(B, L, d_model)
        output, weights = expected.multi_head(layer.weights, num_heads, x)
        answer = _make(student, layer)(x, need_weights=True)
        common.expect_both(answer, output, weights, LIBRARY)


@hidden(
    points=1,
    needs="test_batch",
    category="masks",
    hint="each mask alone, and both together: a pair is forbidden if either forbids it. Each item has its own padding.",
)
def test_masks_match_library(student: Student) -> None:
    """Under padding, the causal mask and both, self-attention equals nn.MultiheadAttention."""
    layer, draw = student.draw.layer(), student.draw
    made, heads = _make(student, layer), layer.num_heads
    # As many items as heads, or as positions: a mask that is lined up with those raises no error.
    for B, L in ((2, 7), (heads, 7), (5, 5)):
        for causal, padded in ((False, True), (True, False), (True, True)):
            x, mask = draw.normal(B, L, layer.d_model), draw.padding(B, L) if padded else None
            output, weights = expected.multi_head(layer.weights, heads, x, causal=causal, key_padding_mask=mask)
            answer = made(x, causal=causal, key_padding_mask=mask, need_weights=True)
            common.expect_both(answer, output, weights, LIBRARY)


@hidden(
    points=0.5,
    needs="test_cross_attention",
    category="padding mask",
    hint="whose positions the mask marks: those of the context, where there is one. Its length is L_k, not L_q.",
)
def test_padding_of_a_context(student: Student) -> None:
    """In cross-attention the padding mask marks positions of the context."""
    layer, draw = student.draw.layer(), student.draw
    made = _make(student, layer)
    for B, L_q, L_k in ((2, 5, 8), (layer.num_heads, 8, 5), (5, 5, 5)):
        x, context, mask = draw.normal(B, L_q, layer.d_model), draw.normal(B, L_k, layer.d_model), draw.padding(B, L_k)
        output, weights = expected.multi_head(layer.weights, layer.num_heads, x, context, key_padding_mask=mask)
        answer = made(x, context, key_padding_mask=mask, need_weights=True)
        common.expect_both(answer, output, weights, LIBRARY)


@hidden(
    points=0.5,
    needs="test_weights_of_each_head",
    category="structure",
    hint="what the code does only when the weights are asked for, or only when they are not. The output must not notice.",
)
def test_output_does_not_depend_on_need_weights(student: Student) -> None:
    """The output is the same with and without need_weights, under every mask, with a context and without, in train and eval."""
    layer, draw = student.draw.layer(), student.draw
    x, context = draw.normal(3, 7, layer.d_model), draw.normal(3, 7, layer.d_model)
    mask = draw.padding(3, 7)
    mask[1] = True  # rows that see no key, too
    source = "what the same call returned with need_weights=True"
    for training in (True, False):
        made = _make(student, layer, training=training)
        for other, padding, causal in itertools.product((None, context), (None, mask), (False, True)):
            options = {"causal": causal, "key_padding_mask": padding}
            with_weights = made(x, other, need_weights=True, **options)
            expect_close(made(x, other, **options), "output", with_weights["output"], FLOAT32, source=source)


@hidden(
    points=0.5,
    category="causal mask",
    hint="what an output still takes from later positions, in any head.",
)
def test_future_does_not_matter(student: Student) -> None:
    """With causal=True, changing later positions changes no earlier output."""
    layer, length = student.draw.layer(), 8
    made, x = _make(student, layer), student.draw.normal(2, length, layer.d_model)
    cut = student.draw.integer(2, length - 2)
    later = torch.arange(length)[:, None] >= cut
    before = made(x, causal=True)
    expect_alive(before)
    answer = made(torch.where(later, 30 * student.draw.normal(*x.shape), x), causal=True)
    source = f"what the same call returned before the positions from {cut} on were changed"
    expect_close(answer, "output", before["output"], FLOAT32, source=source, only=~later)


@hidden(
    points=0.5,
    category="padding mask",
    hint="what an output still takes from a padded position of the context.",
)
def test_padding_does_not_matter(student: Student) -> None:
    """Replacing padded positions of the context by huge numbers, or appending padding, changes no output."""
    layer, draw = student.draw.layer(), student.draw
    made = _make(student, layer)
    x, context, mask = draw.normal(2, 5, layer.d_model), draw.normal(2, 8, layer.d_model), draw.padding(2, 8)
    before = made(x, context, key_padding_mask=mask)
    expect_alive(before)
    answer = made(x, torch.where(mask[..., None], 1e4 * draw.normal(*context.shape), context), key_padding_mask=mask)
    source = "what the same call returned before padded positions were replaced"
    expect_close(answer, "output", before["output"], FLOAT32, source=source)
    longer = torch.cat([context, draw.normal(2, 3, layer.d_model)], 1)
    answer = made(x, longer, key_padding_mask=torch.nn.functional.pad(mask, (0, 3), value=True))
    source = "what the same call returned before three padded positions were appended"
    expect_close(answer, "output", before["output"], FLOAT32, source=source)


@hidden(
    points=1.5,
    needs=("test_batch", "test_masks_match_library"),
    category="rows that see no key",
    hint="sequences that are padding only, and left padding under the causal mask: queries that see no key get zeros.",
)
def test_rows_that_see_no_key(student: Student) -> None:
    """A query that may see no key gets zero weights and a zero output; the others are right."""
    layer, length = student.draw.layer(), 7
    made, x = _make(student, layer), student.draw.normal(3, length, layer.d_model)
    only_padding = student.draw.padding(3, length)
    only_padding[1] = True
    for mask, causal in ((only_padding, False), (common.left_padding(3, length), True)):
        output, weights = expected.multi_head(layer.weights, layer.num_heads, x, causal=causal, key_padding_mask=mask)
        answer = made(x, causal=causal, key_padding_mask=mask, need_weights=True)
        dead = expected.forbidden_pairs(length, length, mask, causal).all(-1).expand(3, length)
        expect_zero(answer, "weights", dead[:, None, :, None], "this query sees no key")
        expect_zero(answer, "output", dead[..., None], "this query sees no key")
        common.expect_both(answer, output, weights, LIBRARY)


def _library_output(layer: Layer, inputs: dict[str, Tensor], causal: bool, mask: Tensor | None) -> Callable[..., Tensor]:
    """The library's output as a function of x, the context where there is one, and the four weights."""

    def output(**leaves: Tensor) -> Tensor:
        weights = {name: leaves[name] for name in layer.weights}
        x, context = leaves["x"], leaves.get("context")
        return expected.multi_head(weights, layer.num_heads, x, context, causal=causal, key_padding_mask=mask)[0]

    return output


def _check_gradients(student: Student, layer: Layer, inputs: dict[str, Tensor], causal: bool, mask: Tensor | None) -> None:
    made = _make(student, layer, torch.float64)
    upstream = student.draw.normal(*inputs["x"].shape, dtype=torch.float64)
    wanted = expected.gradients(_library_output(layer, inputs, causal, mask), inputs | layer.weights, upstream)
    answer = student.gradients(made, *inputs.values(), causal=causal, key_padding_mask=mask, upstream=(upstream,))
    expect_gradients(answer, wanted)


@hidden(
    points=2,
    needs=("test_batch", "test_masks_match_library"),
    category="gradients",
    hint="what cuts or bends the graph on the way to one of the weights: detach, no_grad, .data, an in-place write.",
)
def test_gradients(student: Student) -> None:
    """The gradients of x, of the context and of all four weights are right, in self- and cross-attention."""
    draw = student.draw
    for causal, L_context, padded in ((False, None, False), (True, None, True), (False, 8, True)):
        layer = draw.layer(torch.float64)
        inputs = {"x": draw.normal(2, 7, layer.d_model, dtype=torch.float64)}
        if L_context:
            inputs["context"] = draw.normal(2, L_context, layer.d_model, dtype=torch.float64)
        mask = draw.padding(2, L_context or 7) if padded else None
        _check_gradients(student, layer, inputs, causal, mask)


@hidden(
    points=1,
    needs=("test_rows_that_see_no_key", "test_gradients"),
    category="gradients",
    hint="NaN that is replaced only after it was made. Its gradient is NaN all the same, and one such row spoils every weight.",
)
def test_gradients_of_rows_that_see_no_key(student: Student) -> None:
    """A row that sees no key spoils no gradient: all are finite, and right."""
    layer, length = student.draw.layer(torch.float64), 7
    inputs = {"x": student.draw.normal(3, length, layer.d_model, dtype=torch.float64)}
    only_padding = student.draw.padding(3, length)
    only_padding[1] = True
    _check_gradients(student, layer, inputs, False, only_padding)
    _check_gradients(student, layer, inputs, True, common.left_padding(3, length))


@hidden(
    points=1,
    needs="test_masks_match_library",
    category="dtypes",
    hint="casts, and tensors made with a dtype of their own: a mask, a bias, a fill value too large for a half type.",
)
def test_keeps_the_dtype(student: Student) -> None:
    """A layer moved to float64, float32, bfloat16 or float16 works in that dtype, and is right, under both masks."""
    layer = student.draw.layer()
    small = {name: weight / 3 for name, weight in layer.weights.items()}  # half types are compared on small scores only
    x, mask = student.draw.normal(2, 7, layer.d_model), student.draw.padding(2, 7)
    for dtype in common.DTYPES:
        weights = {name: weight.to(dtype) for name, weight in small.items()}
        made = _make(student, Layer(layer.d_model, layer.num_heads, weights), dtype)
        output, per_head = expected.multi_head(weights, layer.num_heads, x.to(dtype), causal=True, key_padding_mask=mask)
        answer = made(x.to(dtype), causal=True, key_padding_mask=mask, need_weights=True)
        common.expect_dtype_kept(answer, {"weights": per_head, "output": output}, dtype)


@hidden(
    points=0.5,
    category="structure",
    hint="what mixes positions besides attention: a reshape that is not undone, a mask that is always on.",
)
def test_positions_are_a_set(student: Student) -> None:
    """Without a mask, reordering the positions reorders the output, and items of a batch do not see each other."""
    layer, draw = student.draw.layer(torch.float64), student.draw
    made, x = _make(student, layer, torch.float64), draw.normal(3, 7, layer.d_model, dtype=torch.float64)
    before, order = made(x), draw.permutation(7)
    expect_alive(before)
    source = "what the same call returned before the positions were reordered, reordered in the same way"
    expect_close(made(x[:, order]), "output", before["output"][:, order], FLOAT64, source=source)
    source = "what this item gave in a batch with others"
    expect_close(made(x[1:2]), "output", before["output"][1:2], FLOAT64, source=source)


@hidden(
    points=1,
    category="purity",
    hint="dropout, anything kept between calls, projections made in forward, operations that end in an underscore or in `=`.",
)
def test_same_input_same_output(student: Student) -> None:
    """The same input gives the same output, in train and eval mode, after other calls, and no input is changed."""
    layer, draw = student.draw.layer(), student.draw
    made, x, mask = _make(student, layer), draw.normal(3, 7, layer.d_model), draw.padding(3, 7)
    look = "dropout, in-place operations, and projections that are made in forward."
    common.expect_leaves_inputs_alone(made, x, look=look, key_padding_mask=mask, causal=True)
    evaluating, other = _make(student, layer, training=False), draw.normal(3, 7, layer.d_model)
    for masks in ({}, {"key_padding_mask": mask, "causal": True}):
        between = [((x,), {"key_padding_mask": mask.roll(1, 0), "causal": True}), ((x, other), {}), ((other, x), masks)]
        for mode in (made, evaluating):
            common.expect_no_memory(mode, (x,), masks, between)
            common.expect_no_memory(mode, (x, x.flip(0)), masks, between)
        train = made(x, other, **masks)["output"]
        expect_close(evaluating(x, other, **masks), "output", train, FLOAT32, source="what it gives in train mode", look=look)
    mask[-1] = True  # an item that is padding only
    common.expect_leaves_inputs_alone(made, x, look=look, key_padding_mask=mask)


@hidden(
    points=0.5,
    needs=("test_one_sequence", "test_cross_attention"),
    category="shapes",
    hint="inputs without a batch axis: x (L_q, d_model), context (L_k, d_model), mask (L_k,), weights (H, L_q, L_k).",
)
def test_one_sequence_with_everything(student: Student) -> None:
    """One sequence without a batch axis works with a context, a mask, causal=True and need_weights too."""
    layer, draw = student.draw.layer(), student.draw
    made = _make(student, layer)
    for L_q, L_k, causal in ((5, 8, False), (7, None, True)):
        x = draw.normal(L_q, layer.d_model)
        context = draw.normal(L_k, layer.d_model) if L_k else None
        mask = draw.padding(1, L_k or L_q)
        batched = None if context is None else context[None]
        output, weights = expected.multi_head(
            layer.weights, layer.num_heads, x[None], batched, causal=causal, key_padding_mask=mask
        )
        answer = made(x, context, causal=causal, key_padding_mask=mask[0], need_weights=True)
        common.expect_both(answer, output[0], weights[0], LIBRARY)


def _count(student: Student, draw: Draw, num_heads: int, B: int, L: int) -> Answer:
    made = _make(student, Layer(4 * num_heads, num_heads, draw.projections(4 * num_heads)))
    x = draw.normal(B, L, 4 * num_heads)
    return made.observe(x, causal=True, key_padding_mask=draw.padding(B, L), count=True)


@hidden(
    points=0.5,
    needs="test_one_sequence",
    category="vectorisation",
    hint="a Python loop over heads, items or positions: one batched matrix product does all heads at once.",
)
def test_takes_no_loop(student: Student) -> None:
    """The number of tensor operations does not grow with heads, batch or length."""
    small = _count(student, student.draw, 2, 2, 5)
    large = _count(student, student.draw, 5, 4, 9)
    common.expect_vectorised(small, large, "heads, batch and length grow")


@hidden(
    points=0.5,
    needs="test_one_sequence",
    category="devices",
    hint="tensors made inside the layer, masks above all: give each of them `device=` of an input, or register it as a buffer.",
)
def test_works_on_any_device(student: Student) -> None:
    """Nothing is made on a device of its own choice, so it also runs on a GPU."""
    layer, draw = student.draw.layer(), student.draw
    made, x, mask = _make(student, layer), draw.normal(2, 7, layer.d_model), draw.padding(2, 7)
    for causal in (False, True):
        for padding in (None, mask):
            common.expect_any_device(made, x, causal=causal, key_padding_mask=padding)


Case = tuple[str, Callable[[], object], tuple[str, ...], tuple[int, ...]]  # why, the call, names and sizes that the text tells


def _calls_that_cannot_be_right(made: Target, x: Tensor, context: Tensor, mask: Tensor, draw: Draw) -> list[Case]:
    width = x.shape[-1]
    return [
        ("x is too narrow", lambda: made(x[..., 1:]), ("x",), (width - 1,)),
        ("the context is too narrow", lambda: made(x, context[..., 1:]), ("context",), (width - 1,)),
        ("the context has one item, and x two", lambda: made(x, context[:1]), ("context",), (1, 8)),
        ("the context has no batch axis, and x has", lambda: made(x, context[0]), ("context",), (8,)),
        (
            "the mask has a batch axis, and x and the context have none",
            lambda: made(x[0], context[0], key_padding_mask=mask[:1]),
            ("key_padding_mask", "mask"),
            (1, 8),
        ),
        (
            "the mask is one position too long",
            lambda: made(x, context, key_padding_mask=draw.padding(2, 9)),
            ("key_padding_mask", "mask"),
            (9,),
        ),
        (
            "the mask has the length of x",
            lambda: made(x, context, key_padding_mask=draw.padding(2, 5)),
            ("key_padding_mask", "mask"),
            (5,),
        ),
        (
            "the mask has one row for two items",
            lambda: made(x, context, key_padding_mask=mask[:1]),
            ("key_padding_mask", "mask"),
            (1, 8),
        ),
        (
            "causal=True with 5 queries and 8 keys",
            lambda: made(x, context, causal=True),
            ("causal", "x", "context", "L_q"),
            (5, 8),
        ),
        (
            "causal=True with 1 query and 8 keys",
            lambda: made(x[:, :1], context, causal=True),
            ("causal", "x", "context", "L_q"),
            (8,),
        ),
    ]


@hidden(
    points=1,
    category="errors",
    hint="num_heads that does not divide d_model or is not positive; another width or mask shape; causal=True with another "
    "length: a ValueError names the argument and the shape it got.",
)
def test_what_cannot_be_right_raises(student: Student) -> None:
    """What cannot be right raises a ValueError that says so, in __init__ and in forward."""
    for d_model, num_heads in ((10, 3), (12, 0), (12, -2)):
        called = f"MultiHeadAttention({d_model}, {num_heads})"
        why = f"{num_heads} heads cannot share a width of {d_model}"
        expect_error(
            lambda d=d_model, n=num_heads: student.MultiHeadAttention(d, n),  # type: ignore[misc]
            called,
            ("ValueError", "AssertionError"),
            why=why,
        )
    layer, draw = student.draw.layer(), student.draw
    width, made = layer.d_model, _make(student, layer)
    x, mask = draw.normal(2, 5, width), draw.padding(2, 8)
    context = draw.normal(2, 8, width)
    made(x, context, key_padding_mask=mask)  # what fits must not raise
    for why, call, names, numbers in _calls_that_cannot_be_right(made, x, context, mask, draw):
        called = f"{made.shown} with x (2, 5, {width}) and context (2, 8, {width})"
        expect_tells(expect_error(call, called, why=why), f"{called}, where {why}", names, numbers)
    for dtype in (torch.float32, torch.int64, torch.uint8):
        called = f"{made.shown} with key_padding_mask in {str(dtype).removeprefix('torch.')}"
        call = functools.partial(made, x, context, key_padding_mask=mask.to(dtype))
        expect_error(call, called, ("ValueError", "TypeError"), why="the mask is not bool")


@hidden(
    points=0.5,
    category="own work",
    hint="this part asks for your own attention, from matrix products and a softmax.",
)
def test_no_ready_made_attention(student: Student) -> None:
    """It uses no ready-made attention of the library's."""
    layer, draw = student.draw.layer(), student.draw
    made, x, mask = _make(student, layer), draw.normal(2, 7, layer.d_model), draw.padding(2, 7)
    for options in ({}, {"causal": True}, {"key_padding_mask": mask}, {"need_weights": True}):
        common.expect_own_work(made, x, **options)
