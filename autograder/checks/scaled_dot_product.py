"""Hidden checks of part 1."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from checks import expected
from checks.compare import (
    FLOAT32,
    FLOAT64,
    LARGE_SCORES,
    expect_alive,
    expect_close,
    expect_error,
    expect_gradients,
    expect_tells,
    fail,
)
from checks.registry import check
from checks.student import Student

from . import common

PART = "scaled_dot_product"
hidden = functools.partial(check, part=PART, hidden=True)


@hidden(
    points=1,
    category="scale",
    hint="the divisor: the square root of the last size of Q, whatever the other sizes are.",
)
def test_scale_follows_the_width(student: Student) -> None:
    """The scores are divided by √d_k, for every width d_k."""
    for d_k in (1, 2, 6, 23, 64):
        Q, K, V = student.draw.normal(2, 5, d_k), student.draw.normal(2, 7, d_k), student.draw.normal(2, 7, 3)
        _, weights = expected.attention(Q, K, V)
        expect_close(student.scaled_dot_product_attention(Q, K, V), "weights", weights, FLOAT32, source="scores divided by √d_k")


@hidden(
    points=1,
    needs="test_matches_library",
    category="shapes",
    hint="axes counted from the front. Count them from the end (-1, -2), and any number of leading dimensions works.",
)
def test_any_leading_dimensions(student: Student) -> None:
    """Any number of leading dimensions works, none included, and they broadcast."""
    sizes, draw = student.draw.sizes(), student.draw
    leads = [
        ((),) * 3,
        ((sizes.B,),) * 3,
        ((sizes.B, sizes.H),) * 3,
        ((2, 3, 4),) * 3,
        ((sizes.B, 1), (sizes.H,), (sizes.B, sizes.H)),
    ]
    for lead_q, lead_k, lead_v in [*leads, ((1, 1),) * 3]:
        Q = draw.normal(*lead_q, sizes.L_q, sizes.d_k)
        K, V = draw.normal(*lead_k, sizes.L_k, sizes.d_k), draw.normal(*lead_v, sizes.L_k, sizes.d_v)
        output, weights = expected.attention(Q, K, V)
        answer = student.scaled_dot_product_attention(Q, K, V)
        common.expect_both(answer, output, weights, "torch's library")


@hidden(
    points=1,
    needs="test_matches_library",
    category="numerics",
    hint="the exponential of a large score. Take the largest score of the row out first, as torch.softmax does.",
)
def test_large_scores_stay_finite(student: Student) -> None:
    """Very large and very small scores give finite, right results."""
    Q, K = common.exact(student.draw.normal(2, 6, 16)), common.exact(student.draw.normal(2, 6, 16))
    V = student.draw.normal(2, 6, 4)
    rows = torch.tensor([1.0, 32.0, 256.0, 4096.0, 2**-10, 2**13])[:, None]
    one = torch.tensor([1.0] + [0.0] * 15)  # the first feature alone shifts every score of a row
    shifted = (Q * (1 - one) + 64 * one, K * (1 - one) - 125 * one)  # all scores of a row are near -2000
    cases = ((Q * rows, K), (Q * -4096, K), shifted, common.with_gaps(student.draw, 2, 6, -80000.0))
    for causal in (False, True):
        for query, key in cases:
            output, weights = expected.attention(query, key, V, causal=causal)
            answer = student.scaled_dot_product_attention(query, key, V, causal=causal)
            expect_close(answer, "weights", weights, LARGE_SCORES, source="torch's library")
            expect_close(answer, "output", output, LARGE_SCORES, source="torch's library")


@hidden(
    points=0.5,
    needs="test_matches_library",
    category="shapes",
    hint="what the code assumes about the length: a table of fixed size, small weights that are dropped, a special case.",
)
def test_short_and_long_sequences(student: Student) -> None:
    """It is right for one query, for one key, and for long sequences."""
    for L_q, L_k in ((1, 1), (1, 9), (9, 1), (3, 150), (150, 130)):
        Q, K, V = student.draw.normal(2, L_q, 6), student.draw.normal(2, L_k, 6), student.draw.normal(2, L_k, 5)
        output, weights = expected.attention(Q, K, V)
        answer = student.scaled_dot_product_attention(Q, K, V)
        common.expect_both(answer, output, weights, "torch's library")


@hidden(
    points=1,
    needs=("test_causal_sees_only_the_past", "test_short_and_long_sequences"),
    category="causal mask",
    hint="how the causal mask is made: from positions, for the actual length, and not from the values of the scores.",
)
def test_causal_at_any_length(student: Student) -> None:
    """With causal=True output and weights are right at any length, also where every score is zero."""
    for length in (1, 2, 7, 130):
        Q, K, V = student.draw.normal(2, length, 6), student.draw.normal(2, length, 6), student.draw.normal(2, length, 5)
        for query in (Q, torch.zeros_like(Q)):
            output, weights = expected.attention(query, K, V, causal=True)
            answer = student.scaled_dot_product_attention(query, K, V, causal=True)
            common.expect_both(answer, output, weights, "torch's library with the future forbidden")


@hidden(
    points=1,
    needs="test_returns_a_pair",
    category="causal mask",
    hint="what an output still takes from later positions. A weight of the future must be zero, not small.",
)
def test_future_does_not_matter(student: Student) -> None:
    """With causal=True, changing later queries, keys and values changes no earlier output."""
    Q, K, V = student.draw.qkv(student.draw.sizes(), square=True)
    length = Q.shape[-2]
    cut = student.draw.integer(2, length - 2)
    later = torch.arange(length)[:, None] >= cut
    before = student.scaled_dot_product_attention(Q, K, V, causal=True)
    expect_alive(before)
    scales = ((Q, 5.0), (K, 5.0), (V, 1e6))
    moved = (torch.where(later, student.draw.normal(*each.shape) * scale, each) for each, scale in scales)
    answer = student.scaled_dot_product_attention(*moved, causal=True)
    earlier = ~later
    source = f"what the same call returned before everything from position {cut} on was changed"
    expect_close(answer, "output", before["output"], FLOAT32, source=source, only=earlier)
    expect_close(answer, "weights", before["weights"], FLOAT32, source=source, only=earlier)


@hidden(
    points=0.5,
    needs="test_returns_a_pair",
    category="structure",
    hint="what depends on the order of keys or queries. Without a mask, attention treats its keys as a set.",
)
def test_keys_are_a_set(student: Student) -> None:
    """Keys and values may be reordered together, queries too, and one vector added to every key changes nothing."""
    Q, K, V = student.draw.qkv(student.draw.sizes(), dtype=torch.float64)
    before = student.scaled_dot_product_attention(Q, K, V)
    expect_alive(before)
    order = student.draw.permutation(K.shape[-2])
    answer = student.scaled_dot_product_attention(Q, K[..., order, :], V[..., order, :])
    source = "what the same call returned before keys and values were reordered together"
    expect_close(answer, "output", before["output"], FLOAT64, source=source)
    expect_close(answer, "weights", before["weights"][..., order], FLOAT64, source=source + ", with its columns reordered")
    order = student.draw.permutation(Q.shape[-2])
    answer = student.scaled_dot_product_attention(Q[..., order, :], K, V)
    source = "what the same call returned before the queries were reordered, with its rows reordered"
    expect_close(answer, "output", before["output"][..., order, :], FLOAT64, source=source)
    answer = student.scaled_dot_product_attention(Q, K + student.draw.normal(Q.shape[-1], dtype=torch.float64), V)
    source = "what the same call returned before one vector was added to every key"
    expect_close(answer, "weights", before["weights"], FLOAT64, source=source)


@hidden(
    points=0.5,
    needs="test_returns_a_pair",
    category="structure",
    hint="that the weights which are returned are the ones that made the output: output = weights V.",
)
def test_output_is_an_average_of_values(student: Student) -> None:
    """The output is the average of the values under the returned weights."""
    Q, K, V = student.draw.qkv(student.draw.sizes(), dtype=torch.float64)
    answer = student.scaled_dot_product_attention(Q, K, V)
    expect_alive(answer)
    average = torch.einsum("bhqk,bhkv->bhqv", answer["weights"].double(), V)
    expect_close(answer, "output", average, FLOAT64, source="the values averaged under the weights that were returned")
    constant = student.draw.normal(V.shape[-1], dtype=torch.float64).expand(V.shape)
    answer = student.scaled_dot_product_attention(Q, K, constant)
    same = constant[..., :1, :].expand(*Q.shape[:-1], V.shape[-1])
    expect_close(answer, "output", same, FLOAT64, source="all values are equal, and so is their average")
    one_hot = torch.eye(K.shape[-2], dtype=torch.float64).expand(*K.shape[:-2], -1, -1)
    answer = student.scaled_dot_product_attention(Q, K, one_hot)
    expect_close(answer, "output", answer["weights"], FLOAT64, source="with one-hot values the output is the weights")
    low, high = V.amin(-2, keepdim=True), V.amax(-2, keepdim=True)
    output = student.scaled_dot_product_attention(Q, K, V)["output"].double()
    if not ((output >= low - 1e-6) & (output <= high + 1e-6)).all():
        fail(answer, "an output lies outside the range of the values, and no average can.")


@hidden(
    points=1.5,
    needs="test_matches_library",
    category="gradients",
    hint="what cuts or bends the graph: detach, no_grad, .data, NumPy, a rounding, an in-place write.",
)
def test_gradients(student: Student) -> None:
    """The gradients of Q, K and V are right, with and without the causal mask."""
    for causal, heads in ((False, True), (False, False), (True, True), (True, False)):
        Q, K, V = student.draw.qkv(student.draw.sizes(), square=causal, heads=heads, dtype=torch.float64)
        upstream = student.draw.normal(*Q.shape[:-1], V.shape[-1], dtype=torch.float64)

        def library(Q: Tensor, K: Tensor, V: Tensor, causal: bool = causal) -> Tensor:
            return expected.attention(Q, K, V, causal=causal)[0]

        wanted = expected.gradients(library, {"Q": Q, "K": K, "V": V}, upstream)
        target = student.scaled_dot_product_attention
        answer = student.gradients(target, Q, K, V, causal=causal, upstream=(upstream, None))
        expect_gradients(answer, wanted)


@hidden(
    points=0.5,
    needs="test_returns_a_pair",
    category="gradients",
    hint="whether a forbidden position still takes part in the sum, if only a little.",
)
def test_future_gets_no_gradient(student: Student) -> None:
    """With causal=True, no gradient of an earlier output reaches a later key or value."""
    Q, K, V = student.draw.qkv(student.draw.sizes(), square=True, dtype=torch.float64)
    length = Q.shape[-2]
    cut = student.draw.integer(2, length - 2)
    upstream = student.draw.normal(*Q.shape[:-1], V.shape[-1], dtype=torch.float64)
    upstream[..., cut:, :] = 0
    answer = student.gradients(student.scaled_dot_product_attention, Q, K, V, causal=True, upstream=(upstream, None))
    for name in ("K", "V"):
        gradient = answer.gradient(name)
        if not (gradient[..., cut:, :].abs() <= 1e-9).all():
            fail(answer, f"outputs before position {cut} have a gradient at {name} from position {cut} on, and must have none.")
        if not (gradient[..., :cut, :].abs() > 0).any():
            fail(answer, f"outputs before position {cut} have no gradient at {name} before that position.")


@hidden(
    points=1,
    needs="test_matches_library",
    category="dtypes",
    hint="casts, and tensors made with a dtype of their own: a mask, a bias, a fill value too large for a half type.",
)
def test_keeps_the_dtype(student: Student) -> None:
    """float64, float32, bfloat16 and float16 inputs give results of the same dtype, and right ones."""
    sizes = student.draw.sizes()
    for causal in (False, True):
        for dtype in common.DTYPES:
            Q, K, V = student.draw.qkv(sizes, square=causal, dtype=dtype)
            output, weights = expected.attention(Q, K, V, causal=causal)
            answer = student.scaled_dot_product_attention(Q, K, V, causal=causal)
            common.expect_dtype_kept(answer, {"weights": weights, "output": output}, dtype)


@hidden(
    points=0.5,
    needs="test_returns_a_pair",
    category="purity",
    hint="operations that end in an underscore or in `=` (`/=`), dropout, anything kept between calls, `view` for `reshape`.",
)
def test_leaves_its_inputs_alone(student: Student) -> None:
    """Inputs are not changed, a second call gives the same, and so do inputs that are not contiguous."""
    Q, K, V = student.draw.qkv(student.draw.sizes(), square=True)
    target = student.scaled_dot_product_attention
    common.expect_leaves_inputs_alone(target, Q, K, V, look="in-place operations, dropout, and `view` on an argument.")
    wider = student.draw.qkv(student.draw.sizes(), square=True)
    common.expect_no_memory(target, (Q, K, V), {}, [((Q, K, V), {"causal": True}), (wider, {}), ((K, Q, V), {})])


@hidden(
    points=0.5,
    needs="test_matches_library",
    category="vectorisation",
    hint="a Python loop over items, heads or positions: one matrix product does them all at once.",
)
def test_takes_no_loop(student: Student) -> None:
    """The number of tensor operations does not grow with batch, heads or length."""
    draw, target = student.draw, student.scaled_dot_product_attention
    for causal in (False, True):
        small = [draw.normal(2, 3, 5, 6) for _ in range(3)]
        large = [draw.normal(5, 4, 9, 6) for _ in range(3)]
        fewer, more = (target.observe(*each, count=True, causal=causal) for each in (small, large))
        common.expect_vectorised(fewer, more, "batch, heads and length grow")


@hidden(
    points=0.5,
    needs="test_matches_library",
    category="devices",
    hint="tensors made inside the function, the causal mask above all: give each of them `device=` of an input.",
)
def test_works_on_any_device(student: Student) -> None:
    """Nothing is made on a device of its own choice, so it also runs on a GPU."""
    Q, K, V = student.draw.qkv(student.draw.sizes(), square=True)
    for causal in (False, True):
        common.expect_any_device(student.scaled_dot_product_attention, Q, K, V, causal=causal)


@hidden(
    points=0.5,
    needs="test_shapes_that_do_not_fit",
    category="errors",
    hint="the text of the errors: an f-string with the argument's name and the shapes that it got.",
)
def test_errors_name_the_shapes(student: Student) -> None:
    """An error's text names the argument and the shapes it got."""
    draw, target = student.draw, student.scaled_dot_product_attention
    target(*draw.qkv(draw.sizes()))  # what fits must not raise
    Q, K, V = draw.normal(2, 5, 6), draw.normal(2, 7, 8), draw.normal(2, 7, 4)
    called = "scaled_dot_product_attention(Q (2, 5, 6), K (2, 7, 8), V (2, 7, 4))"
    expect_tells(expect_error(lambda: target(Q, K, V), called, why="widths differ"), called, ("Q", "K", "query", "key"), (6, 8))
    K, V = draw.normal(2, 7, 6), draw.normal(2, 9, 4)
    called = "scaled_dot_product_attention(Q (2, 5, 6), K (2, 7, 6), V (2, 9, 4))"
    expect_tells(expect_error(lambda: target(Q, K, V), called, why="lengths differ"), called, ("K", "V", "key", "value"), (7, 9))


@hidden(
    points=0.5,
    category="own work",
    hint="this part asks for your own attention, from matrix products and a softmax.",
)
def test_no_ready_made_attention(student: Student) -> None:
    """It uses no ready-made attention of the library's."""
    Q, K, V = student.draw.qkv(student.draw.sizes(), square=True)
    for causal in (False, True):
        common.expect_own_work(student.scaled_dot_product_attention, Q, K, V, causal=causal)
