"""Hidden checks of part 4."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping

import torch
from torch import Tensor

from checks import expected
from checks.compare import (
    FLOAT32,
    expect_close,
    expect_error,
    expect_gradients,
    expect_tells,
    expect_unchanged,
    expect_zero,
    fail,
)
from checks.draw import Layer
from checks.errors import CheckFailed, StudentRaised, WorkerCrashed, WorkerTimedOut
from checks.library_pairs import bring, expect_difference, expect_same_function, library_answer, library_of
from checks.registry import check
from checks.student import Student

from . import common

PART = "library"
hidden = functools.partial(check, part=PART, hidden=True)
LIBRARY = "torch's library with the same pairs forbidden"


@hidden(
    points=0.5,
    needs="test_to_library_is_the_same_function",
    category="settings",
    hint="what the copy was told when it was made, and what the layer's mode is: dtype=…, and train(mha.training).",
)
def test_to_library_keeps_mode_and_dtype(student: Student) -> None:
    """The library's layer has the dtype of the layer it was made from, and its mode, train or eval; the layer keeps its own."""
    for training, dtype in itertools.product((True, False), common.DTYPES):
        pair = bring(student, dtype=dtype, training=training)
        copy = library_of(student, pair.target)
        for name, value in copy.state().items():
            if value.dtype != dtype:
                raise CheckFailed(f"{copy.shown}: {name} is {value.dtype}, and must be {dtype}, as the layer's weights are.")
        for module in (copy, pair.target):
            if (mode := module.describe().attributes.get("training")) != training:
                raise CheckFailed(f"{module.shown}: training is {mode == 1}, and must be {training}.")
        if dtype in (torch.float64, torch.float32):
            expect_same_function(copy, pair, student.draw.normal(7, pair.layer.d_model, dtype=dtype))


@hidden(
    points=0.25,
    needs=("test_to_library_makes_the_librarys_layer", "test_to_library_is_the_same_function"),
    category="values",
    hint="sizes that are written into the code, and the order of the axes: batch_first=True.",
)
def test_to_library_at_any_size(student: Student) -> None:
    """The library's layer is right for odd widths, for one head, for as many heads as features, in batches and under masks."""
    for d_model, num_heads in ((15, 3), (7, 1), (5, 5), (22, 2)):
        layer = Layer(d_model, num_heads, student.draw.projections(d_model))
        pair = bring(student, layer)
        copy = library_of(student, pair.target)
        x, mask = student.draw.normal(3, 6, d_model), student.draw.padding(3, 6)
        expect_same_function(copy, pair, x)
        expect_same_function(copy, pair, x, causal=True, mask=mask)


@hidden(
    points=0.75,
    needs="test_to_library_is_the_same_function",
    category="copies",
    hint="whether the two still share memory: `.copy_()` under torch.no_grad() copies numbers, an assignment only a reference.",
)
def test_training_one_leaves_the_other_alone(student: Student) -> None:
    """The library's layer holds copies: new weights in either of the two leave the other as it was."""
    pair = bring(student, dtype=torch.float64)
    copy = library_of(student, pair.target)
    copied, own = copy.state(), pair.target.state()
    pair.target.assign({name: value + 1 for name, value in own.items()})
    _expect_same_state(copied, copy.state(), f"{copy.shown}: its weights moved when those of the layer were trained.")
    copy.assign({name: value - 1 for name, value in copied.items()})
    moved = {name: value + 1 for name, value in own.items()}
    _expect_same_state(moved, pair.target.state(), f"{copy.shown}: when it was trained, the weights of the layer moved, too.")


def _expect_same_state(wanted: Mapping[str, Tensor], found: Mapping[str, Tensor], otherwise: str) -> None:
    if found.keys() != wanted.keys() or not all(torch.equal(found[name], value) for name, value in wanted.items()):
        raise CheckFailed(otherwise)


@hidden(
    points=0.25,
    needs="test_to_library_is_the_same_function",
    category="gradients",
    hint="whether the weights of the copy are parameters of its own that can be trained.",
)
def test_the_copy_can_be_trained(student: Student) -> None:
    """Gradients reach the weights of the library's layer, and they are right."""
    pair = bring(student, dtype=torch.float64)
    copy, weights = library_of(student, pair.target), pair.layer.weights
    x = student.draw.normal(3, 6, pair.layer.d_model, dtype=torch.float64)
    upstream = student.draw.normal(*x.shape, dtype=torch.float64)

    def output(**leaves: Tensor) -> Tensor:
        return expected.multi_head(leaves, pair.layer.num_heads, x)[0]

    by_weight = expected.gradients(output, weights, upstream)
    packed = torch.cat([by_weight[name] for name in ("W_q", "W_k", "W_v")])
    answer = student.gradients(copy, x, x, x, upstream=(upstream, None))
    expect_gradients(answer, {"in_proj_weight": packed, "out_proj": by_weight["W_o"]})


@hidden(
    points=0.25,
    needs=("test_to_library_is_the_same_function", "test_no_difference_between_equal_layers"),
    category="values",
    hint="what to_library reads from the layer: the four projections and num_heads are all that part 3 promises.",
)
def test_your_own_layer(student: Student) -> None:
    """Both functions work with your own MultiHeadAttention, if part 3 is right."""
    pair = bring(student)
    layer, x = pair.layer, student.draw.normal(2, 7, pair.layer.d_model)
    output = pair.right_output(x)
    try:  # whatever is wrong with part 3 costs part 3
        own = student.MultiHeadAttention(layer.d_model, layer.num_heads, weights=layer.weights)
        expect_close(own(x), "output", output, FLOAT32)
    except (StudentRaised, CheckFailed, WorkerTimedOut, WorkerCrashed):
        return
    if own.attributes.get("num_heads") == layer.num_heads:
        copy = library_of(student, own)
        expect_close(library_answer(copy, x), "output", output, FLOAT32)
        difference = student.library_difference(own, x)
        if not difference.number("difference") < 1e-3:
            fail(difference, "the layer is right, and the difference is not small.")


@hidden(
    points=0.5,
    needs="test_no_difference_between_equal_layers",
    category="masks",
    hint="whether both masks reach both layers, in the convention of each, and which positions are compared.",
)
def test_masks_reach_both_layers(student: Student) -> None:
    """Under every mask a right layer has no difference, not even with rows that see no key, and one that ignores it has."""
    layer, length = student.draw.layer(), 6
    scattered = student.draw.padding(3, length)
    with_empty = scattered.clone()
    with_empty[1] = True
    x = student.draw.normal(3, length, layer.d_model)
    right = bring(student, layer)
    for causal, mask in itertools.product((False, True), (None, scattered, with_empty, common.left_padding(3, length))):
        expect_difference(student, right, x, causal, mask)
    for ignored in ("causal", "key_padding_mask"):
        wrong = bring(student, layer, f"that ignores {ignored}", ignores=(ignored,))
        expect_difference(student, wrong, x, causal=True)
        expect_difference(student, wrong, x, causal=True, mask=scattered)
        expect_difference(student, wrong, x, mask=scattered)
    expect_difference(student, right, x[0], causal=True, mask=scattered[0])


@hidden(
    points=0.5,
    needs="test_no_difference_between_equal_layers",
    category="values",
    hint="whether every entry counts, whichever way it is off, and only at positions that are not padding.",
)
def test_one_entry_is_enough(student: Student) -> None:
    """A single entry that is off a little, up or down, is the difference; at a padded position it is none."""
    layer, mask = student.draw.layer(), student.draw.padding(3, 6)
    for dtype, adds in itertools.product((torch.float32, torch.float64), (2.34567e-3, -1.76543e-3, -3.0)):
        x = student.draw.normal(3, 6, layer.d_model, dtype=dtype)
        for item, feature in ((0, 0), (2, layer.d_model - 1)):
            for position in (0, int(mask[item].nonzero()[0])):  # key 0 is never padding
                wrong = bring(student, layer, "that is off in one entry", dtype=dtype, adds=adds, at=(item, position, feature))
                expect_difference(student, wrong, x, mask=mask)


@hidden(
    points=0.5,
    needs="test_no_difference_between_equal_layers",
    category="numerics",
    hint="what max() makes of a NaN, and where the NaN stands: among the positions that are compared, or at padding.",
)
def test_nan_is_no_small_difference(student: Student) -> None:
    """A NaN in the layer's output gives inf, but not where it stands at a padded position."""
    layer, mask = student.draw.layer(), student.draw.padding(3, 6)
    x = student.draw.normal(3, 6, layer.d_model)
    for item, causal in ((0, False), (2, True)):
        for position in (0, int(mask[item].nonzero()[0])):
            wrong = bring(student, layer, "with a NaN in its output", adds=float("nan"), at=(item, position, 1))
            expect_difference(student, wrong, x, causal, mask)
            expect_difference(student, wrong, x, causal)


@hidden(
    points=0.25,
    needs="test_no_difference_between_equal_layers",
    category="purity",
    hint="torch.no_grad() around the calls and nothing more: no change of mode, weights, inputs, or of torch's own switches.",
)
def test_comparing_leaves_no_trace(student: Student) -> None:
    """library_difference builds no graph, and leaves the layer, its mode, the inputs and torch's gradients as they were."""
    for training in (True, False):
        pair = bring(student, training=training)
        x, mask = student.draw.normal(2, 6, pair.layer.d_model), student.draw.padding(2, 6)
        before = pair.target.describe()
        answer = student.library_difference.observe(pair.target, x, causal=True, key_padding_mask=mask, after=True)
        answer.number("difference")
        expect_unchanged(answer)
        after = pair.target.describe()
        if after.attributes.get("built_graph"):
            fail(answer, "the layer was called while gradients were recorded, and no graph may be built.")
        if after.attributes != before.attributes:
            fail(answer, "the layer's mode or attributes are not what they were before.")
        _expect_same_state(before.state, after.state, f"{answer.described}: the layer's weights changed.")
        upstream = student.draw.normal(*x.shape)
        student.gradients(pair.target, x, upstream=(upstream,)).gradient("x")


@hidden(
    points=0.5,
    needs="test_fused_attention_under_padding",
    category="masks",
    hint="both masks combined: a key takes part if neither forbids it. The call takes one mask, and no is_causal beside it.",
)
def test_fused_attention_under_every_mask(student: Student) -> None:
    """fused_attention gives part 2's output under each mask and both, with any leading dimensions."""
    sizes = student.draw.sizes()
    for lead in ((sizes.B,), (sizes.B, sizes.H), (sizes.B, 2, 2), (5, 5)):
        for causal, padded in itertools.product((False, True), (False, True)):
            Q, K = (student.draw.normal(*lead, sizes.L_k, sizes.d_k) for _ in range(2))
            V = student.draw.normal(*lead, sizes.L_k, sizes.d_v)
            mask = student.draw.padding(lead[0], sizes.L_k) if padded else None
            output, _ = expected.attention(Q, K, V, mask, causal)
            answer = student.fused_attention(Q, K, V, key_padding_mask=mask, causal=causal)
            expect_close(answer, "output", output, FLOAT32, source=LIBRARY)
    Q, K, V = (student.draw.normal(length, 6) for length in (5, 7, 7))
    expect_close(student.fused_attention(Q, K, V), "output", expected.attention(Q, K, V)[0], FLOAT32, source=LIBRARY)


@hidden(
    points=0.5,
    needs="test_fused_attention_under_padding",
    category="rows that see no key",
    hint="sequences that are padding only, and left padding under the causal mask: zeros, with gradients that are zero.",
)
def test_fused_attention_where_no_key_is_seen(student: Student) -> None:
    """For a query that sees no key, fused_attention gives zeros; all gradients are finite and right."""
    sizes = student.draw.sizes()
    for heads, causal in itertools.product((True, False), (False, True)):
        Q, K, V = student.draw.qkv(sizes, square=causal, heads=heads, dtype=torch.float64)
        mask = common.left_padding(sizes.B, sizes.L_k) if causal else student.draw.padding(sizes.B, sizes.L_k)
        mask[-1] = True
        output, _ = expected.attention(Q, K, V, mask, causal)
        upstream = student.draw.normal(*output.shape, dtype=torch.float64)
        answer = student.gradients(student.fused_attention, Q, K, V, key_padding_mask=mask, causal=causal, upstream=(upstream,))
        dead = expected.forbidden_pairs(Q.shape[-2], sizes.L_k, mask, causal, lead=2 if heads else 1).all(-1, keepdim=True)
        expect_zero(answer, "output", dead, "this query sees no key")
        expect_close(answer, "output", output, FLOAT32, source=LIBRARY)
        expect_gradients(answer, common.library_gradients(Q, K, V, mask, causal, upstream))


@hidden(
    points=0.25,
    needs="test_fused_attention_under_padding",
    category="dtypes",
    hint="casts, and masks made as numbers in a dtype of their own. A bool mask fits any dtype.",
)
def test_fused_attention_keeps_the_dtype(student: Student) -> None:
    """fused_attention answers in the dtype of its inputs, for four dtypes, and leaves its inputs alone."""
    sizes = student.draw.sizes()
    mask = student.draw.padding(sizes.B, sizes.L_k)
    for dtype, causal in itertools.product(common.DTYPES, (False, True)):
        Q, K, V = student.draw.qkv(sizes, square=True, dtype=dtype)
        output, _ = expected.attention(Q, K, V, mask, causal)
        answer = student.fused_attention(Q, K, V, key_padding_mask=mask, causal=causal)
        common.expect_dtype_kept(answer, {"output": output}, dtype)
    Q, K, V = student.draw.qkv(sizes, square=True)
    look = "in-place operations: `~mask` makes a new tensor, `mask.logical_not_()` does not."
    common.expect_leaves_inputs_alone(student.fused_attention, Q, K, V, look=look, key_padding_mask=mask, causal=True)


@hidden(
    points=0.5,
    needs="test_fused_attention_under_padding",
    category="fused call",
    hint="this function is one call of F.scaled_dot_product_attention, whatever the masks, for all items and heads at once.",
)
def test_one_fused_call_does_it(student: Student) -> None:
    """fused_attention calls F.scaled_dot_product_attention once, under every mask."""
    sizes = student.draw.sizes()
    Q, K, V = student.draw.qkv(sizes, square=True)
    for mask, causal in itertools.product((None, student.draw.padding(sizes.B, sizes.L_k)), (False, True)):
        answer = student.fused_attention.observe(Q, K, V, key_padding_mask=mask, causal=causal, count=True)
        if (calls := answer.reply.ready_made.count("scaled_dot_product_attention")) != 1:
            fail(answer, f"F.scaled_dot_product_attention was called {calls} times, and must be called once.")


@hidden(
    points=0.25,
    category="devices",
    hint="tensors made inside the functions, masks above all, and the copy itself: give each of them `device=` of an input.",
)
def test_works_on_any_device(student: Student) -> None:
    """Nothing is made on a device of its own choice, so it also runs on a GPU."""
    sizes, pair = student.draw.sizes(), bring(student)
    Q, K, V = student.draw.qkv(sizes, square=True)
    mask = student.draw.padding(sizes.B, sizes.L_k)
    x = student.draw.normal(sizes.B, sizes.L_k, pair.layer.d_model)
    common.expect_any_device(student.to_library, pair.target)
    for causal, padding in itertools.product((False, True), (None, mask)):
        common.expect_any_device(student.fused_attention, Q, K, V, key_padding_mask=padding, causal=causal)
        common.expect_any_device(student.library_difference, pair.target, x, causal=causal, key_padding_mask=padding)


@hidden(
    points=0.25,
    category="errors",
    hint="a mask that is not bool or not (B, L_k), and shapes that do not fit: a ValueError names the argument and its shape.",
)
def test_what_cannot_be_right_raises(student: Student) -> None:
    """fused_attention raises a ValueError that says so where part 2 does: wrong masks, and shapes that do not fit."""
    Q, K, V = student.draw.qkv(student.draw.sizes())
    B, L_k = K.shape[0], K.shape[-2]
    mask = student.draw.padding(B, L_k)
    attend = functools.partial(functools.partial, student.fused_attention)
    for wrong in (mask.float(), mask.long()):
        called = f"fused_attention(Q, K, V, key_padding_mask) with key_padding_mask in {str(wrong.dtype).removeprefix('torch.')}"
        call = attend(Q, K, V, key_padding_mask=wrong)
        expect_error(call, called, ("ValueError", "TypeError"), why="the mask is not bool")
    for shape in ((B, L_k + 1), (L_k,), (1, L_k), (B, Q.shape[-2])):
        called = f"fused_attention(Q, K, V, key_padding_mask) with key_padding_mask {shape}, B = {B} and L_k = {L_k}"
        call = attend(Q, K, V, key_padding_mask=torch.zeros(shape, dtype=torch.bool))
        text = expect_error(call, called, why=f"the mask is not (B, L_k) = ({B}, {L_k})")
        expect_tells(text, called, ("key_padding_mask", "mask"), shape[-1:])
    for called, call in (
        ("fused_attention with Q and K of different widths", attend(Q, K[..., 1:], V)),
        ("fused_attention with K and V of different lengths", attend(Q, K, V[..., 1:, :])),
        ("fused_attention with causal=True and L_q != L_k", attend(Q, K, V, causal=True)),
        ("fused_attention with causal=True and L_q = 1", attend(Q[..., :1, :], K, V, causal=True)),
    ):
        expect_error(call, called, why="the shapes do not fit")
