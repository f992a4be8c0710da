"""Hidden checks of part 8."""

from __future__ import annotations

import functools
import itertools

import torch
from torch import Tensor

from checks import expected
from checks.compare import (
    FLOAT32,
    LARGE_SCORES,
    expect_close,
    expect_error,
    expect_gradients,
    expect_tells,
)
from checks.registry import check
from checks.student import Answer, Student

from . import common

PART = "streaming"
hidden = functools.partial(check, part=PART, hidden=True)
LIBRARY = "torch's F.scaled_dot_product_attention"
LONG = 8192  # the text's own example: 67 million scores, which are 256 MiB in float32
MEMORY_MIB = 96  # with blocks of 256 keys, right solutions of several kinds have needed less than 48


@hidden(
    points=1.5,
    needs="test_streaming_matches_library",
    category="memory",
    hint="what grows with L_q × L_k at a length of 8192: scores, weights, masks, or what is kept of every block.",
    memory_mib=MEMORY_MIB,
)
def test_a_long_sequence_fits(student: Student) -> None:
    """A sequence of 8192 positions, 16 wide, causal or not, fits in three eighths of the memory of its matrix of scores."""
    Q, K, V = (student.draw.normal(LONG, 16) for _ in range(3))
    looked_at = torch.arange(LONG) % 97 == 0  # some queries will do
    wanted = torch.zeros(LONG, 16, dtype=torch.float64)
    wanted[looked_at], _ = expected.attention(Q[looked_at], K, V)
    student.streaming_attention(Q, K, V, causal=True, block_size=256)  # masks take memory, too
    answer = student.streaming_attention(Q, K, V, block_size=256)
    expect_close(answer, "output", wanted, FLOAT32, only=looked_at[:, None], source=LIBRARY)


def _draw(student: Student, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs whose length, 12, many sizes of blocks divide: what a remainder costs is not charged everywhere."""
    return (
        student.draw.normal(2, 3, 12, 6, dtype=dtype),
        student.draw.normal(2, 3, 12, 6, dtype=dtype),
        student.draw.normal(2, 3, 12, 5, dtype=dtype),
    )


@hidden(
    points=0.75,
    needs="test_streaming_matches_library",
    category="gradients",
    hint="detach and no_grad. The running maximum alone may be left out of the graph: it cancels. The sums may not.",
)
def test_gradients(student: Student) -> None:
    """The gradients of Q, K and V are right, for any size of the blocks."""
    _expect_gradients(student, causal=False)


@hidden(
    points=0.25,
    needs=("test_streaming_sees_only_the_past", "test_gradients"),
    category="gradients",
    hint="blocks that are hidden from a query: what they add is zero, and so must be its gradient, never NaN.",
)
def test_gradients_under_the_causal_mask(student: Student) -> None:
    """With causal=True the gradients are right, too."""
    _expect_gradients(student, causal=True)


def _expect_gradients(student: Student, causal: bool) -> None:
    for block_size in (1, 3, 4, 12):
        Q, K, V = _draw(student, torch.float64)
        upstream = student.draw.normal(*V.shape, dtype=torch.float64)
        options = {"causal": causal, "block_size": block_size}
        answer = student.gradients(student.streaming_attention, Q, K, V, **options, upstream=(upstream,))
        expect_gradients(answer, common.library_gradients(Q, K, V, None, causal, upstream))


@hidden(
    points=0.5,
    needs=("test_streaming_sees_only_the_past", "test_any_block_size"),
    category="causal mask",
    hint="positions in long sequences, where most blocks lie wholly in the past or wholly in the future of a query.",
)
def test_causal_at_any_length(student: Student) -> None:
    """With causal=True it is right for short and long sequences, and with the blocks that are used when none are asked for."""
    for length in (1, 2, 64, 65, 130):
        Q, K, V = (student.draw.normal(2, length, width) for width in (6, 6, 4))
        output, _ = expected.attention(Q, K, V, causal=True)
        options = [{"block_size": size} for size in (1, 7, 64, 129, 1000)] if length > 2 else [{"block_size": 1}]
        for more in ({}, *options):
            answer = student.streaming_attention(Q, K, V, causal=True, **more)
            expect_close(answer, "output", output, FLOAT32, source=LIBRARY)


@hidden(
    points=0.5,
    needs="test_streaming_matches_library",
    category="numerics",
    hint="the first value of the running maximum: below any score that there can be, and no finite number is.",
)
def test_very_low_scores(student: Student) -> None:
    """Scores that are all near -300 or -30000 give the same weights as any others."""
    _expect_low_scores(student, causal=False)


@hidden(
    points=0.25,
    needs=("test_streaming_sees_only_the_past", "test_very_low_scores"),
    category="numerics",
    hint="what a block that is hidden from a query does to its running maximum: nothing, however low the scores it may see.",
)
def test_very_low_scores_beside_hidden_blocks(student: Student) -> None:
    """With causal=True, scores near -300 or -30000 are right beside blocks that are hidden from a query."""
    _expect_low_scores(student, causal=True)


def _expect_low_scores(student: Student, causal: bool) -> None:
    first = torch.tensor([1.0] + [0.0] * 15)
    # What is kept as a logarithm of a sum is as exact as the dtype is at -30000, which in float32 is not exact enough.
    for (shift, dtype), block_size in itertools.product(((-300.0, torch.float32), (-3e4, torch.float64)), (1, 2, 3, 6)):
        Q, K = (common.exact(student.draw.normal(2, 6, 16, dtype=dtype)) for _ in range(2))
        V = student.draw.normal(2, 6, 4, dtype=dtype)
        Q, K = Q * (1 - first) + 64 * first, K * (1 - first) + shift / 16 * first  # a score moves by 64 / √16 times shift / 16
        output, _ = expected.attention(Q, K, V, causal=causal)
        answer = student.streaming_attention(Q, K, V, causal=causal, block_size=block_size)
        expect_close(answer, "output", output, LARGE_SCORES, source=LIBRARY)


@hidden(
    points=0.5,
    needs="test_streaming_matches_library",
    category="numerics",
    hint="the running maximum: the larger of the old one and the block's. Exponents are then never above zero.",
)
def test_scores_that_climb_and_fall(student: Student) -> None:
    """Scores that climb or fall by hundreds from key to key, or in any order, stay finite and right."""
    for order, block_size in itertools.product((torch.arange(6), torch.arange(6).flip(0), None), (1, 2, 3, 6)):
        for top in (20000.0, 200.0, -20000.0):
            Q, K = common.with_gaps(student.draw, 2, 6, top)
            if order is not None:
                K[..., 0] = ((top - 64 * order) / 16).float()
            V = student.draw.normal(2, 6, 4)
            output, _ = expected.attention(Q, K, V)
            answer = student.streaming_attention(Q, K, V, block_size=block_size)
            expect_close(answer, "output", output, LARGE_SCORES, source=LIBRARY)


@hidden(
    points=0.25,
    needs="test_streaming_matches_library",
    category="shapes",
    hint="axes counted from the end, and dimensions of Q, K and V that broadcast.",
)
def test_any_leading_dimensions(student: Student) -> None:
    """Any number of leading dimensions works, none included, and they broadcast."""
    for lead_q, lead_k, lead_v in (((), (), ()), ((3,), (3,), (3,)), ((2, 1, 4),) * 3, ((2, 1), (3,), ()), ((), (3,), (2, 1))):
        Q, K = student.draw.normal(*lead_q, 5, 6), student.draw.normal(*lead_k, 9, 6)
        V = student.draw.normal(*lead_v, 9, 4)
        output, _ = expected.attention(Q, K, V)
        answer = student.streaming_attention(Q, K, V, block_size=3)
        expect_close(answer, "output", output, FLOAT32, source=LIBRARY)


@hidden(
    points=0.25,
    needs="test_streaming_matches_library",
    category="dtypes",
    hint="what is kept from block to block: in the inputs' dtype or a wider one, and the output in the inputs' again.",
)
def test_keeps_the_dtype(student: Student) -> None:
    """float64, float32, bfloat16 and float16 inputs give an output of the same dtype, and a right one."""
    for dtype, causal in itertools.product(common.DTYPES, (False, True)):
        Q, K, V = _draw(student, dtype)
        output, _ = expected.attention(Q, K, V, causal=causal)
        answer = student.streaming_attention(Q, K, V, causal=causal, block_size=3)
        common.expect_dtype_kept(answer, {"output": output}, dtype)


@hidden(
    points=0.25,
    needs="test_streaming_matches_library",
    category="purity",
    hint="operations that end in an underscore or in `=`, on an argument or a slice of one; anything kept between calls.",
)
def test_leaves_its_inputs_alone(student: Student) -> None:
    """Inputs are not changed, a second call gives the same, and so do inputs that are not contiguous."""
    Q, K, V = _draw(student)
    target, look = student.streaming_attention, "in-place operations, and `view` on an argument."
    common.expect_leaves_inputs_alone(target, Q, K, V, look=look, causal=True, block_size=3)
    between: list[tuple[tuple[Tensor, ...], dict[str, object]]] = [
        ((Q, K, V), {"causal": True, "block_size": 3}),
        ((K, Q, V), {"block_size": 2}),
    ]
    common.expect_no_memory(target, (Q, K, V), {"block_size": 4}, between)


def _counted(student: Student, B: int, H: int, length: int, block_size: int) -> Answer:
    Q, K, V = (student.draw.normal(B, H, length, 6) for _ in range(3))
    answer: Answer = student.streaming_attention.observe(Q, K, V, causal=True, block_size=block_size, count=True)
    return answer


@hidden(
    points=0.25,
    needs="test_streaming_matches_library",
    category="vectorisation",
    hint="loops besides the one over blocks of keys: all queries, heads and items meet a block at once.",
)
def test_loops_over_blocks_alone(student: Student) -> None:
    """The number of tensor operations grows with the number of blocks alone, not with batch, heads, queries or block size."""
    for (small, small_block), (large, large_block) in (((12, 4), (30, 10)), ((6, 6), (20, 20))):
        fewer, more = _counted(student, 2, 3, small, small_block), _counted(student, 5, 4, large, large_block)
        common.expect_vectorised(fewer, more, "batch, heads and length grow and the number of blocks does not")


@hidden(
    points=0.25,
    needs="test_streaming_matches_library",
    category="devices",
    hint="tensors made inside the function: give each of them `device=` of an input, or make it from one (`Q.new_zeros`).",
)
def test_works_on_any_device(student: Student) -> None:
    """Nothing is made on a device of its own choice, so it also runs on a GPU."""
    Q, K, V = _draw(student)
    for causal in (False, True):
        common.expect_any_device(student.streaming_attention, Q, K, V, causal=causal, block_size=3)


@hidden(
    points=0.25,
    needs="test_streaming_matches_library",
    category="errors",
    hint="a block_size below one, and shapes that do not fit: a ValueError names the argument and what it got.",
)
def test_what_cannot_be_right_raises(student: Student) -> None:
    """A block size below one, and shapes that do not fit each other, raise a ValueError that says so."""
    Q, K, V = student.draw.qkv(student.draw.sizes())
    attend = functools.partial(functools.partial, student.streaming_attention)
    for block_size in (0, -3):
        called = f"streaming_attention(Q, K, V, block_size={block_size})"
        text = expect_error(attend(Q, K, V, block_size=block_size), called, why="no block is that small")
        expect_tells(text, called, ("block_size", "block"), (abs(block_size),))
    for called, call in (
        ("streaming_attention with Q and K of different widths", attend(Q, K[..., 1:], V)),
        ("streaming_attention with K and V of different lengths", attend(Q, K, V[..., 1:, :])),
        ("streaming_attention with more values than keys", attend(Q, K[..., 1:, :], V)),
        ("streaming_attention with causal=True and L_q != L_k", attend(Q, K, V, causal=True)),
        ("streaming_attention with causal=True and L_q = 1", attend(Q[..., :1, :], K, V, causal=True)),
    ):
        expect_error(call, called, why="the shapes do not fit")


@hidden(
    points=0.25,
    category="own work",
    hint="this part asks for your own attention, from matrix products and exponentials.",
)
def test_no_ready_made_attention(student: Student) -> None:
    """It uses no ready-made attention of the library's."""
    Q, K, V = _draw(student)
    for causal in (False, True):
        common.expect_own_work(student.streaming_attention, Q, K, V, causal=causal, block_size=3)
