"""Public checks of part 2, `attention/masking.py`."""

from __future__ import annotations

import torch

from . import expected
from .compare import FLOAT32, expect_close, expect_pair, expect_rows_sum_to_one, expect_zero, fail
from .registry import check
from .student import Student

PART = "masking"
TRIANGLE = "True means forbidden: key j is forbidden to query i where j > i, and nowhere else."
PART_1 = "what the function does when key_padding_mask is None and causal is False: it is part 1."
EITHER = "a pair is forbidden if the padding mask or the causal mask forbids it."
DEAD = "what a softmax makes of a row in which every score is masked; set such rows to zero."
POLARITY = "the meaning of the mask: True marks padding, a key that nobody may see; it has one row per item, (B, L_k)."


@check(part=PART, points=1, hint=TRIANGLE)
def test_causal_mask(student: Student) -> None:
    """causal_mask(L) is (L, L), bool, and True strictly above the diagonal."""
    length = student.draw.integer(5, 9)
    answer = student.causal_mask(length)
    mask = answer["mask"]
    if mask.dtype != torch.bool:
        fail(answer, f"the mask is {mask.dtype}, and must be torch.bool.", "`.bool()`, or a comparison of positions.")
    expect_close(answer, "mask", torch.ones(length, length).triu(1), FLOAT32, source="1 is True, forbidden")


@check(part=PART, points=1, hint="the return line: two tensors, the output first.")
def test_masked_returns_a_pair(student: Student) -> None:
    """masked_attention returns a pair of tensors: (output, weights)."""
    answer = student.masked_attention(*student.draw.qkv(student.draw.sizes()))
    expect_pair(answer)


@check(part=PART, points=1, needs="test_masked_returns_a_pair", hint=PART_1)
def test_without_masks(student: Student) -> None:
    """Without a mask, masked_attention equals F.scaled_dot_product_attention."""
    Q, K, V = student.draw.qkv(student.draw.sizes())
    output, weights = expected.attention(Q, K, V)
    answer = student.masked_attention(Q, K, V)
    expect_close(answer, "weights", weights, FLOAT32, source="torch's F.scaled_dot_product_attention")
    expect_close(answer, "output", output, FLOAT32, source="torch's F.scaled_dot_product_attention")


@check(part=PART, points=2, needs="test_masked_returns_a_pair", hint=POLARITY)
def test_padded_keys_get_no_weight(student: Student) -> None:
    """A padded key gets no weight, whatever the query, and the other weights still sum to one."""
    sizes = student.draw.sizes()
    Q, K, V = student.draw.qkv(sizes)
    mask = student.draw.padding(sizes.B, sizes.L_k)
    answer = student.masked_attention(Q, K, V, key_padding_mask=mask)
    padded = mask[:, None, None, :]
    expect_zero(answer, "weights", padded, lambda at: f"key {at[-1]} of item {at[0]} is padding")
    expect_rows_sum_to_one(answer, look="masking the scores before the softmax, so that what is left is shared out anew.")


@check(part=PART, points=1.5, needs="test_masked_returns_a_pair", hint=EITHER)
def test_both_masks_together(student: Student) -> None:
    """With both masks, a key is seen only if it is neither padding nor later than the query."""
    sizes = student.draw.sizes()
    Q, K, V = student.draw.qkv(sizes, square=True)
    mask = student.draw.padding(sizes.B, sizes.L_k)
    answer = student.masked_attention(Q, K, V, key_padding_mask=mask, causal=True)
    padded, future = mask[:, None, None, :], expected.forbidden_pairs(sizes.L_k, sizes.L_k, causal=True)
    expect_zero(answer, "weights", padded, lambda at: f"key {at[-1]} of item {at[0]} is padding")
    expect_zero(answer, "weights", future, lambda at: f"key {at[-1]} comes after query {at[-2]}")
    expect_rows_sum_to_one(answer)


@check(part=PART, points=1.5, needs="test_masked_returns_a_pair", hint=DEAD)
def test_row_that_sees_no_key(student: Student) -> None:
    """A query that may see no key at all has zero weights and a zero output."""
    sizes = student.draw.sizes()
    Q, K, V = student.draw.qkv(sizes)
    mask = student.draw.padding(sizes.B, sizes.L_k)
    mask[-1] = True
    answer = student.masked_attention(Q, K, V, key_padding_mask=mask)
    dead = torch.zeros(sizes.B, 1, 1, 1, dtype=torch.bool)
    dead[-1] = True
    because = f"every key of item {sizes.B - 1} is padding"
    expect_zero(answer, "weights", dead, because)
    expect_zero(answer, "output", dead, because)
    expect_rows_sum_to_one(answer, only=~dead[..., 0])
