"""Public checks of part 3, `attention/multi_head.py`."""

from __future__ import annotations

from . import expected
from .compare import FLOAT32, expect_close, expect_shape, expect_zero
from .errors import CheckFailed
from .registry import check
from .student import Student

PART = "multi_head"
LIBRARY = "torch's nn.MultiheadAttention with the same weights"
SPLIT = (
    "how the width is split: head i owns columns i·d_k … (i+1)·d_k of each projection. Then the scale, √d_k of one head, and W_o."
)


@check(part=PART, points=1)
def test_four_projections(student: Student) -> None:
    """It has the weights W_q, W_k, W_v and W_o, each (d_model, d_model), no bias, and the attribute num_heads."""
    layer = student.draw.layer()
    made = student.MultiHeadAttention(layer.d_model, layer.num_heads, weights=layer.weights)
    if others := [name for name in made.parameters if name.removesuffix(".weight") not in layer.weights]:
        raise CheckFailed(
            f"{made.shown} has the parameter {others[0]} besides its four weight matrices, and must have no other.\n"
            "Look at: `bias=False` in each nn.Linear."
        )
    if (found := made.attributes.get("num_heads")) != layer.num_heads:
        raise CheckFailed(
            f"{made.shown}: its attribute num_heads is {found}, and must be {layer.num_heads}.\n"
            "Look at: `self.num_heads = num_heads` in __init__."
        )


@check(part=PART, points=2)
def test_one_sequence(student: Student) -> None:
    """Self-attention on one sequence (L, d_model) equals nn.MultiheadAttention."""
    layer, length = student.draw.layer(), student.draw.choice((7, 8))
    made = student.MultiHeadAttention(layer.d_model, layer.num_heads, weights=layer.weights)
    x = student.draw.normal(length, layer.d_model)
    output, _ = expected.multi_head(layer.weights, layer.num_heads, x[None])
    expect_close(made(x), "output", output[0], FLOAT32, source=LIBRARY, look=SPLIT)


@check(part=PART, points=2.5)
def test_batch(student: Student) -> None:
    """Self-attention on a batch (B, L, d_model) equals nn.MultiheadAttention."""
    layer, length = student.draw.layer(), student.draw.choice((7, 8))
    made = student.MultiHeadAttention(layer.d_model, layer.num_heads, weights=layer.weights)
    x = student.draw.normal(2, length, layer.d_model)
    output, _ = expected.multi_head(layer.weights, layer.num_heads, x)
    look = "which axis is which after the split: heads come before positions, (B, H, L, d_k), and go back behind them at the end."
    expect_close(made(x), "output", output, FLOAT32, source=LIBRARY, look=look)


@check(part=PART, points=2, needs="test_batch")
def test_cross_attention(student: Student) -> None:
    """With a context, queries come from x, and keys and values from the context, which may have another length."""
    layer = student.draw.layer()
    made = student.MultiHeadAttention(layer.d_model, layer.num_heads, weights=layer.weights)
    x, context = student.draw.normal(2, 5, layer.d_model), student.draw.normal(2, 8, layer.d_model)
    output, _ = expected.multi_head(layer.weights, layer.num_heads, x, context)
    look = "what W_k and W_v are applied to, and that the length of the keys is the context's."
    expect_close(made(x, context), "output", output, FLOAT32, source=LIBRARY, look=look)


@check(part=PART, points=1.5, needs="test_batch")
def test_weights_of_each_head(student: Student) -> None:
    """With need_weights=True it returns (output, weights), one weight matrix per head: (B, H, L_q, L_k)."""
    layer = student.draw.layer()
    made = student.MultiHeadAttention(layer.d_model, layer.num_heads, weights=layer.weights)
    x = student.draw.normal(2, 7, layer.d_model)
    output, weights = expected.multi_head(layer.weights, layer.num_heads, x)
    answer = made(x, need_weights=True)
    expect_shape(answer, "weights", weights.shape, "the weights are per head, neither averaged nor summed over heads.")
    expect_close(answer, "weights", weights, FLOAT32, source=LIBRARY, look=SPLIT)
    expect_close(answer, "output", output, FLOAT32, source=LIBRARY, look=SPLIT)


@check(part=PART, points=1)
def test_masks_reach_every_head(student: Student) -> None:
    """causal and key_padding_mask hold in every head."""
    layer, length = student.draw.layer(), 7
    made = student.MultiHeadAttention(layer.d_model, layer.num_heads, weights=layer.weights)
    x, mask = student.draw.normal(2, length, layer.d_model), student.draw.padding(2, length)
    look = "that forward hands both masks on, and that the mask (B, L_k) is the same for every head and query: (B, 1, 1, L_k)."
    answer = made(x, causal=True, key_padding_mask=mask, need_weights=True)
    padded, future = mask[:, None, None, :], expected.forbidden_pairs(length, length, causal=True)
    expect_shape(answer, "weights", (2, layer.num_heads, length, length), look)
    expect_zero(answer, "weights", padded, lambda at: f"key {at[-1]} of item {at[0]} is padding", look=look)
    expect_zero(answer, "weights", future, lambda at: f"key {at[-1]} comes after query {at[-2]}", look=look)
