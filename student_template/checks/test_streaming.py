"""Public checks of part 8, `attention/streaming.py`."""

from __future__ import annotations

from . import expected
from .compare import FLOAT32, expect_close, fail
from .registry import check
from .student import Student

PART = "streaming"
LIBRARY = "torch's F.scaled_dot_product_attention"
RUNNING = (
    "what is kept from block to block: the largest score so far, the sum of exponentials and the blend of values. When the "
    "largest moves, both sums shrink by the same factor; one division at the end."
)
LAST_BLOCK = "the last block, which may be shorter than the others, or the only one: K[..., start:start + block_size, :]."
POSITIONS = "which keys of a block lie in the future: key j of the block that begins at start is key start + j of all."
WHOLE = "scores, weights and masks: each is made for one block of keys and given up with it. The causal mask, too."


@check(part=PART, points=1, hint=RUNNING)
def test_streaming_matches_library(student: Student) -> None:
    """The output equals F.scaled_dot_product_attention, with blocks that divide the length."""
    draw = student.draw
    Q, K, V = draw.normal(2, 3, 5, 6), draw.normal(2, 3, 12, 6), draw.normal(2, 3, 12, 4)
    output, _ = expected.attention(Q, K, V)
    for block_size in (4, 6):
        answer = student.streaming_attention(Q, K, V, block_size=block_size)
        expect_close(answer, "output", output, FLOAT32, source=LIBRARY, look=RUNNING)


@check(part=PART, points=1, needs="test_streaming_matches_library", hint=LAST_BLOCK)
def test_any_block_size(student: Student) -> None:
    """The size of the blocks does not matter: blocks of one, blocks that do not divide the length, one larger than it."""
    sizes = student.draw.sizes()
    Q, K, V = student.draw.qkv(sizes)
    output, _ = expected.attention(Q, K, V)
    for block_size in (1, 2, 3, 4, sizes.L_k - 1, sizes.L_k, 50):
        answer = student.streaming_attention(Q, K, V, block_size=block_size)
        expect_close(answer, "output", output, FLOAT32, source=LIBRARY, look=LAST_BLOCK)


@check(part=PART, points=1, needs="test_streaming_matches_library", hint=POSITIONS)
def test_streaming_sees_only_the_past(student: Student) -> None:
    """With causal=True, the output is the library's under the causal mask, whatever the size of the blocks."""
    draw = student.draw
    Q, K, V = draw.normal(2, 3, 12, 6), draw.normal(2, 3, 12, 6), draw.normal(2, 3, 12, 4)
    output, _ = expected.attention(Q, K, V, causal=True)
    for block_size in (1, 3, 4, 12):
        answer = student.streaming_attention(Q, K, V, causal=True, block_size=block_size)
        expect_close(answer, "output", output, FLOAT32, source=LIBRARY, look=POSITIONS)


@check(part=PART, points=1, needs="test_streaming_matches_library", hint=WHOLE)
def test_never_the_whole_matrix(student: Student) -> None:
    """No tensor as large as the matrix of all scores is made in the forward pass."""
    for causal, block_size in ((False, 15), (True, 15), (True, 6)):
        L_q, L_k = (60, 60) if causal else (40, 60)
        Q, K, V = student.draw.normal(L_q, 6), student.draw.normal(L_k, 6), student.draw.normal(L_k, 3)
        answer = student.streaming_attention.observe(Q, K, V, causal=causal, block_size=block_size, count=True)
        if (largest := answer.reply.largest) >= L_q * L_k:
            fail(answer, f"an operation made a tensor of {largest} elements, and L_q × L_k is {L_q * L_k}.", WHOLE)
