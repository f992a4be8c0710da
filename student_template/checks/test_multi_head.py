"""Public checks of part 3, `attention/multi_head.py`."""

from __future__ import annotations

from . import expected
from .compare import FLOAT32, expect_close, expect_rows_sum_to_one, expect_zero
from .errors import CheckFailed
from .registry import check
from .student import Student

PART = "multi_head"
LIBRARY = "torch's nn.MultiheadAttention with the same weights"
PROJECTIONS = "__init__: four nn.Linear without bias, assigned to the module itself, and the number of heads under its name."
AXES = "the axes: x is (B, L, d_model) here. after the split, (B, H, L, d_k). Mend the check above first, if it fails too."
CONTEXT = "what W_k and W_v are applied to, and that the length of the keys is the context's."
PER_HEAD = "the returned weights: they are per head, neither averaged nor summed over heads."
MASKS = "that forward hands both masks on, and that the mask (B, L_k) is the same for every head and query: (B, 1, 1, L_k)."
SPLIT = "how the width is split: head i owns features i·d_k … (i+1)·d_k of each projection. Then the scale of one head, and W_o."


@check(part=PART, points=1, hint=PROJECTIONS)
def test_four_projections(student: Student) -> None:
    """It has the weights W_q, W_k, W_v and W_o, each (d_model, d_model), no bias, and the attribute num_heads."""
    layer = student.draw.layer()
    made = student.MultiHeadAttention(layer.d_model, layer.num_heads, weights=layer.weights)
    if others := [name for name in made.parameters if name.removesuffix(".weight") not in layer.weights]:
        raise CheckFailed(f"{made.shown} has the parameter {others[0]} besides its four weight matrices, and must have no other.")
    if (found := made.attributes.get("num_heads")) != layer.num_heads:
        raise CheckFailed(f"{made.shown}: its attribute num_heads is {found}, and must be {layer.num_heads}.")


@check(part=PART, points=2, hint=SPLIT)
def test_one_sequence(student: Student) -> None:
    """Self-attention on one sequence (L, d_model) equals nn.MultiheadAttention."""
    layer, length = student.draw.layer(), student.draw.choice((7, 8))
    made = student.MultiHeadAttention(layer.d_model, layer.num_heads, weights=layer.weights)
    x = student.draw.normal(length, layer.d_model)
    output, _ = expected.multi_head(layer.weights, layer.num_heads, x[None])
    expect_close(made(x), "output", output[0], FLOAT32, source=LIBRARY)


@check(part=PART, points=2.5, hint=AXES)
def test_batch(student: Student) -> None:
    """Self-attention on a batch (B, L, d_model) equals nn.MultiheadAttention."""
    layer, length = student.draw.layer(), student.draw.choice((7, 8))
    made = student.MultiHeadAttention(layer.d_model, layer.num_heads, weights=layer.weights)
    x = student.draw.normal(2, length, layer.d_model)
    output, _ = expected.multi_head(layer.weights, layer.num_heads, x)
    expect_close(made(x), "output", output, FLOAT32, source=LIBRARY)


@check(part=PART, points=2, needs="test_batch", hint=CONTEXT)
def test_cross_attention(student: Student) -> None:
    """With a context, queries come from x, and keys and values from the context, which may have another length."""
    layer = student.draw.layer()
    made = student.MultiHeadAttention(layer.d_model, layer.num_heads, weights=layer.weights)
    x, context = student.draw.normal(2, 5, layer.d_model), student.draw.normal(2, 8, layer.d_model)
    output, _ = expected.multi_head(layer.weights, layer.num_heads, x, context)
    expect_close(made(x, context), "output", output, FLOAT32, source=LIBRARY)


@check(part=PART, points=1.5, needs="test_batch", hint=PER_HEAD)
def test_weights_of_each_head(student: Student) -> None:
    """With need_weights=True it returns (output, weights), one weight matrix per head: (B, H, L_q, L_k)."""
    layer = student.draw.layer()
    made = student.MultiHeadAttention(layer.d_model, layer.num_heads, weights=layer.weights)
    x = student.draw.normal(2, 7, layer.d_model)
    output, weights = expected.multi_head(layer.weights, layer.num_heads, x)
    answer = made(x, need_weights=True)
    expect_close(answer, "weights", weights, FLOAT32, source=LIBRARY)
    expect_close(answer, "output", output, FLOAT32, source=LIBRARY)


@check(part=PART, points=1, hint=MASKS)
def test_masks_reach_every_head(student: Student) -> None:
    """causal and key_padding_mask hold in every head."""
    layer, length = student.draw.layer(), 7
    made = student.MultiHeadAttention(layer.d_model, layer.num_heads, weights=layer.weights)
    x, mask = student.draw.normal(2, length, layer.d_model), student.draw.padding(2, length)
    answer = made(x, causal=True, key_padding_mask=mask, need_weights=True)
    padded, future = mask[:, None, None, :], expected.forbidden_pairs(length, length, causal=True)
    expect_zero(answer, "weights", padded, lambda at: f"key {at[-1]} of item {at[0]} is padding")
    expect_zero(answer, "weights", future, lambda at: f"key {at[-1]} comes after query {at[-2]}")
    expect_rows_sum_to_one(answer)
