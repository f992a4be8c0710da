"""The reference against torch's own attention: values, gradients, dtypes, rows that see no key, devices, errors."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from solutions.attention.masking import causal_mask, masked_attention
from solutions.attention.multi_head import MultiHeadAttention
from solutions.attention.scaled_dot_product import scaled_dot_product_attention

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 5e-3}
SCATTERED = torch.tensor([[0, 1, 0, 0, 1, 0, 1], [0, 0, 0, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1]], dtype=torch.bool)  # (3, 7)
LEFT = torch.tensor([[1, 1, 0, 0, 0], [0, 0, 0, 1, 1], [1, 1, 1, 1, 1]], dtype=torch.bool)  # (3, 5): the last is padding only


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def qkv(lead: tuple[int, ...], L_q: int, L_k: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    return (
        normal(*lead, L_q, 6, seed=1, dtype=dtype),
        normal(*lead, L_k, 6, seed=2, dtype=dtype),
        normal(*lead, L_k, 4, seed=3, dtype=dtype),
    )


def library(Q: Tensor, K: Tensor, V: Tensor, forbidden: Tensor | None = None) -> Tensor:
    """The fused call in float64, by the plain kernel: the one whose gradient is zero where a row sees no key."""
    allowed = None if forbidden is None else ~forbidden
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(Q.double(), K.double(), V.double(), attn_mask=allowed)


def future(length: int) -> Tensor:
    """Made another way than the reference makes it."""
    position = torch.arange(length)
    return position[None, :] > position[:, None]


def gradients(function: Callable[..., Tensor], *inputs: Tensor) -> tuple[Tensor, ...]:
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    output = function(*leaves)
    return torch.autograd.grad(output, leaves, normal(*output.shape, seed=9, dtype=output.dtype))


def close(found: Tensor, expected: Tensor, dtype: torch.dtype = torch.float64) -> None:
    assert found.shape == expected.shape
    torch.testing.assert_close(found.double(), expected.double(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


# --- part 1


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_part_1_is_the_librarys_attention(lead: tuple[int, ...], causal: bool, dtype: torch.dtype) -> None:
    inputs = qkv(lead, 5, 5 if causal else 7, dtype)
    output, weights = scaled_dot_product_attention(*inputs, causal=causal)
    assert output.dtype == weights.dtype == dtype
    forbidden = future(5) if causal else None
    close(output, library(*inputs, forbidden), dtype)
    close(weights, library(*inputs[:2], torch.eye(inputs[1].shape[-2]).expand(*lead, -1, -1), forbidden), dtype)


def test_part_1_broadcasts_leading_dimensions() -> None:
    Q, K, V = normal(2, 1, 5, 6), normal(3, 7, 6, seed=1), normal(7, 4, seed=2)
    output, weights = scaled_dot_product_attention(Q, K, V)
    assert weights.shape == (2, 3, 5, 7)
    close(output, library(Q, K, V))


@pytest.mark.parametrize("causal", [False, True])
def test_part_1_has_the_librarys_gradients(causal: bool) -> None:
    inputs = qkv((2, 3), 5, 5)
    found = gradients(lambda Q, K, V: scaled_dot_product_attention(Q, K, V, causal=causal)[0], *inputs)
    expected = gradients(lambda Q, K, V: library(Q, K, V, future(5) if causal else None), *inputs)
    for mine, theirs in zip(found, expected, strict=True):
        close(mine, theirs)


@pytest.mark.parametrize("attention", [scaled_dot_product_attention, masked_attention])
@pytest.mark.parametrize(
    ("shapes", "causal", "reason"),
    [
        (((5, 6), (7, 5), (7, 4)), False, r"Q and K must have the same width.*Q \(5, 6\), K \(7, 5\)"),
        (((5, 6), (7, 6), (6, 4)), False, r"K and V must have the same length.*K \(7, 6\), V \(6, 4\)"),
        (((5, 6), (7, 6), (7, 4)), True, r"causal=True needs Q and K of the same length.*Q \(5, 6\), K \(7, 6\)"),
        (((2, 5, 6), (3, 7, 6), (3, 7, 4)), False, r"leading dimensions.*do not broadcast.*Q \(2, 5, 6\)"),
        (((6,), (7, 6), (7, 4)), False, r"need a length and a width.*Q \(6,\)"),
        (((1, 6), (7, 6), (1, 4)), False, r"K and V must have the same length"),
    ],
)
def test_parts_1_and_2_refuse_shapes_that_cannot_be_right(
    attention: Callable[..., object], shapes: tuple[tuple[int, ...], ...], causal: bool, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        attention(*(normal(*shape) for shape in shapes), causal=causal)


@pytest.mark.parametrize("attention", [scaled_dot_product_attention, masked_attention])
def test_parts_1_and_2_refuse_mixed_and_whole_number_dtypes(attention: Callable[..., object]) -> None:
    Q, K, V = qkv((), 5, 7)
    with pytest.raises(TypeError, match=r"one floating-point dtype: got torch.float32, torch.float64"):
        attention(Q.float(), K, V)
    with pytest.raises(TypeError, match=r"one floating-point dtype: got torch.int64"):
        attention(Q.long(), K.long(), V.long())


# --- part 2


def test_causal_mask_is_true_strictly_above_the_diagonal() -> None:
    assert causal_mask(5).dtype == torch.bool
    assert torch.equal(causal_mask(5), future(5))
    assert causal_mask(0).shape == (0, 0)
    assert causal_mask(3, device="meta").device.type == "meta"


CASES: list[tuple[Tensor | None, bool]] = [(SCATTERED, False), (LEFT, False), (LEFT, True), (None, True), (None, False)]
NAMES = ["scattered", "left and padding only", "left and causal", "causal", "no mask"]


def forbidden_of(mask: Tensor | None, causal: bool, lead: int, L: int) -> Tensor:
    forbidden = future(L) if causal else torch.zeros(L, L, dtype=torch.bool)
    if mask is None:
        return forbidden
    return forbidden | mask[(slice(None), *[None] * lead)]


@pytest.mark.parametrize(("mask", "causal"), CASES, ids=NAMES)
@pytest.mark.parametrize("lead", [(3,), (3, 2), (3, 2, 3)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_part_2_is_the_librarys_attention_rows_without_a_key_included(
    mask: Tensor | None, causal: bool, lead: tuple[int, ...], dtype: torch.dtype
) -> None:
    L = 5 if mask is None else mask.shape[1]
    inputs = qkv(lead, L, L, dtype)
    forbidden = forbidden_of(mask, causal, len(lead), L)
    output, weights = masked_attention(*inputs, key_padding_mask=mask, causal=causal)
    assert output.dtype == weights.dtype == dtype
    close(output, library(*inputs, forbidden), dtype)
    seen = ~forbidden.expand_as(weights)
    assert not weights[~seen].any()
    close(weights.double().sum(-1), seen.any(-1).double(), dtype)


@pytest.mark.parametrize(("mask", "causal"), CASES, ids=NAMES)
def test_part_2_has_the_librarys_gradients_rows_without_a_key_included(mask: Tensor | None, causal: bool) -> None:
    L = 5 if mask is None else mask.shape[1]
    inputs = qkv((3, 2), L, L)
    forbidden = forbidden_of(mask, causal, 2, L)
    found = gradients(lambda Q, K, V: masked_attention(Q, K, V, mask, causal)[0], *inputs)
    expected = gradients(lambda Q, K, V: library(Q, K, V, forbidden), *inputs)
    for mine, theirs in zip(found, expected, strict=True):
        assert torch.isfinite(mine).all()
        close(mine, theirs)
    if mask is not None:  # and exactly nothing reaches a padded key or its value
        for gradient in found[1:]:
            assert not gradient.movedim(2, 1)[mask].any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_part_2_gradients_are_zero_where_everything_is_padding(dtype: torch.dtype) -> None:
    inputs = qkv((3,), 5, 5, dtype)
    everything = torch.ones(3, 5, dtype=torch.bool)
    for gradient in gradients(lambda Q, K, V: masked_attention(Q, K, V, everything)[0], *inputs):
        assert torch.equal(gradient, torch.zeros_like(gradient))


def test_part_2_ignores_what_padded_keys_and_values_hold() -> None:
    Q, K, V = qkv((3,), 5, 7, torch.float32)
    padded = SCATTERED[..., None]
    before = masked_attention(Q, K, V, SCATTERED)
    after = masked_attention(Q, K.masked_fill(padded, 1e5), V.masked_fill(padded, -1e30), SCATTERED)
    assert torch.equal(before[0], after[0])
    assert torch.equal(before[1], after[1])


def test_part_2_keeps_its_masks_under_scores_of_a_hundred_thousand() -> None:
    Q = torch.tensor([[[1.0]], [[-1.0]]])  # (2, 1, 1)
    K = torch.tensor([[[-1e5], [1e5], [-2e5]]]).expand(2, 3, 1)
    mask = torch.tensor([[False, True, False], [False, False, True]])
    _, weights = masked_attention(Q, K, K, mask)
    assert weights.tolist() == [[[1.0, 0.0, 0.0]], [[1.0, 0.0, 0.0]]]


def test_part_2_without_masks_takes_inputs_without_a_batch() -> None:
    inputs = qkv((), 5, 7)
    close(masked_attention(*inputs)[0], library(*inputs))


def test_part_2_applies_the_mask_to_the_first_dimension_where_a_later_one_is_as_long() -> None:
    Q, K, V = qkv((3, 3), 3, 7)
    _, weights = masked_attention(Q, K, V, SCATTERED)
    assert torch.equal(weights == 0, SCATTERED[:, None, None, :].expand(3, 3, 3, 7))


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (SCATTERED.float(), r"key_padding_mask must be a bool tensor.*got torch.float32"),
        (SCATTERED.to(torch.uint8), r"key_padding_mask must be a bool tensor.*got torch.uint8"),
        (SCATTERED.tolist(), r"key_padding_mask must be a bool tensor.*got list"),
        (SCATTERED[:, :6], r"key_padding_mask must be \(B, L_k\).*got \(3, 6\)"),
        (SCATTERED[:1], r"key_padding_mask must be \(B, L_k\).*got \(1, 7\)"),
        (SCATTERED[0], r"key_padding_mask must be \(B, L_k\).*got \(7,\)"),
        (SCATTERED[:, None, :], r"key_padding_mask must be \(B, L_k\).*got \(3, 1, 7\)"),
    ],
)
def test_part_2_refuses_a_mask_that_is_not_bool_or_not_one_row_a_sequence(mask: Tensor, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        masked_attention(*qkv((3, 2), 5, 7), key_padding_mask=mask)
    with pytest.raises(ValueError, match="key_padding_mask"):
        masked_attention(*qkv((), 5, 7), key_padding_mask=mask)


# --- part 3


def layers(d_model: int = 12, num_heads: int = 4) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    """The reference and the library's layer with the same weights, large enough for the softmax to matter."""
    mine = MultiHeadAttention(d_model, num_heads).double()
    theirs = nn.MultiheadAttention(d_model, num_heads, bias=False, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        for seed, parameter in enumerate(mine.parameters()):
            parameter.copy_(normal(d_model, d_model, seed=10 + seed) * 0.6)
        theirs.in_proj_weight.copy_(torch.cat([mine.W_q.weight, mine.W_k.weight, mine.W_v.weight]))
        theirs.out_proj.weight.copy_(mine.W_o.weight)
    return mine, theirs


X, CONTEXT = normal(3, 5, 12, seed=20), normal(3, 7, 12, seed=21)
RIGHT = torch.tensor([[0, 0, 0, 0, 1], [0, 0, 0, 1, 1], [0, 1, 0, 0, 0]], dtype=torch.bool)
MULTI_HEAD: list[tuple[Tensor | None, Tensor | None, bool]] = [
    (None, None, False),
    (None, None, True),
    (None, RIGHT, False),
    (None, RIGHT, True),
    (CONTEXT, None, False),
    (CONTEXT, SCATTERED, False),
    (CONTEXT[:, :5], RIGHT, True),
]


@pytest.mark.parametrize(("context", "mask", "causal"), MULTI_HEAD)
@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("num_heads", [1, 3, 4, 12])
def test_part_3_is_the_librarys_layer(
    context: Tensor | None, mask: Tensor | None, causal: bool, batched: bool, num_heads: int
) -> None:
    mine, theirs = layers(num_heads=num_heads)
    x, source = X, context
    if not batched:
        x, source, mask = X[1], None if context is None else context[1], None if mask is None else mask[1]
    keys = x if source is None else source
    attn_mask = future(5) if causal else None
    expected = theirs(x, keys, keys, key_padding_mask=mask, attn_mask=attn_mask, average_attn_weights=False)
    output, weights = mine(x, source, causal=causal, key_padding_mask=mask, need_weights=True)
    close(output, expected[0])
    close(weights, expected[1])
    assert torch.equal(mine(x, source, causal=causal, key_padding_mask=mask), output)


@pytest.mark.parametrize(("context", "mask", "causal"), MULTI_HEAD)
def test_part_3_has_the_librarys_gradients(context: Tensor | None, mask: Tensor | None, causal: bool) -> None:
    mine, theirs = layers()
    attn_mask = future(5) if causal else None

    def of_library(x: Tensor, keys: Tensor | None = None) -> Tensor:
        keys = x if keys is None else keys
        output: Tensor = theirs(x, keys, keys, key_padding_mask=mask, attn_mask=attn_mask)[0]
        return output

    inputs = [X] if context is None else [X, context]
    found = gradients(lambda *given: mine(*given, causal=causal, key_padding_mask=mask), *inputs)
    for gradient, expected in zip(found, gradients(of_library, *inputs), strict=True):
        close(gradient, expected)
    upstream = normal(3, 5, 12, seed=30)
    mine(*inputs, causal=causal, key_padding_mask=mask).backward(upstream)
    of_library(*inputs).backward(upstream)
    packed = torch.cat([layer.weight.grad for layer in (mine.W_q, mine.W_k, mine.W_v) if layer.weight.grad is not None])
    assert theirs.in_proj_weight.grad is not None
    close(packed, theirs.in_proj_weight.grad)
    assert mine.W_o.weight.grad is not None
    assert theirs.out_proj.weight.grad is not None
    close(mine.W_o.weight.grad, theirs.out_proj.weight.grad)


def test_part_3_gives_zero_and_finite_gradients_for_rows_without_a_key() -> None:
    mine, _ = layers()
    x = X.clone().requires_grad_()
    output, weights = mine(x, causal=True, key_padding_mask=LEFT, need_weights=True)
    dead = torch.tensor([[1, 1, 0, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
    assert torch.equal(output == 0, dead[..., None].expand_as(output))
    assert not weights.movedim(1, 2)[dead].any()
    output.backward(normal(*output.shape))
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
    assert not x.grad[2].any()
    assert all(parameter.grad is not None and torch.isfinite(parameter.grad).all() for parameter in mine.parameters())


@pytest.mark.parametrize("dtype", DTYPES)
def test_part_3_keeps_the_dtype(dtype: torch.dtype) -> None:
    mine, _ = layers()
    expected, expected_weights = mine(X, causal=True, key_padding_mask=RIGHT, need_weights=True)
    output, weights = mine.to(dtype)(X.to(dtype), causal=True, key_padding_mask=RIGHT, need_weights=True)
    assert output.dtype == weights.dtype == dtype
    assert (output.double() - expected).abs().max() < 10 * TOLERANCE[dtype]
    assert (weights.double() - expected_weights).abs().max() < 4 * TOLERANCE[dtype]


def test_part_3_has_four_projections_and_its_number_of_heads() -> None:
    layer = MultiHeadAttention(12, 4)
    shapes = {name: tuple(parameter.shape) for name, parameter in layer.named_parameters()}
    assert shapes == {f"{name}.weight": (12, 12) for name in ("W_q", "W_k", "W_v", "W_o")}
    assert layer.num_heads == 4


@pytest.mark.parametrize(("d_model", "num_heads"), [(12, 5), (12, 0), (12, -3), (0, 1)])
def test_part_3_refuses_heads_that_do_not_divide_the_width(d_model: int, num_heads: int) -> None:
    with pytest.raises(ValueError, match=rf"d_model={d_model}, num_heads={num_heads}"):
        MultiHeadAttention(d_model, num_heads)


@pytest.mark.parametrize(
    ("x", "context", "options", "reason"),
    [
        (normal(3, 5, 11), None, {}, r"x must be \(B, L_q, 12\).*got \(3, 5, 11\)"),
        (normal(12), None, {}, r"x must be .*got \(12,\)"),
        (normal(2, 3, 5, 12), None, {}, r"x must be .*got \(2, 3, 5, 12\)"),
        (X, normal(3, 7, 13), {}, r"context must be \(3, 'L_k', 12\).*got \(3, 7, 13\)"),
        (X, normal(7, 12), {}, r"context must be .*got \(7, 12\)"),
        (X[0], CONTEXT, {}, r"context must be .*got \(3, 7, 12\)"),
        (X, CONTEXT[:1], {}, r"context must be .*got \(1, 7, 12\)"),
        (X[:1], CONTEXT, {}, r"context must be .*got \(3, 7, 12\)"),
        (X, CONTEXT, {"causal": True}, r"causal=True needs.*x \(3, 5, 12\), context \(3, 7, 12\)"),
        (X, CONTEXT, {"key_padding_mask": RIGHT}, r"key_padding_mask must be \(3, 7\).*got \(3, 5\)"),
        (X, CONTEXT, {"key_padding_mask": SCATTERED[0]}, r"key_padding_mask must be \(3, 7\).*got \(7,\)"),
        (X[0], CONTEXT[0], {"key_padding_mask": SCATTERED[:1]}, r"key_padding_mask must be \(7,\).*got \(1, 7\)"),
        (X, CONTEXT, {"key_padding_mask": SCATTERED.double()}, r"key_padding_mask must be a bool.*got torch.float64"),
        (X, CONTEXT, {"key_padding_mask": SCATTERED.tolist()}, r"key_padding_mask must be a bool.*got list"),
    ],
)
def test_part_3_refuses_what_cannot_be_right(x: Tensor, context: Tensor | None, options: dict[str, Tensor], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        layers()[0](x, context, **options)


# --- all parts


def calls() -> list[Callable[[Tensor], Tensor]]:
    """Every public function as a function of a (3, 5, 12) tensor."""
    layer = MultiHeadAttention(12, 4)
    return [
        lambda x: scaled_dot_product_attention(x, x, x, causal=True)[0],
        lambda x: masked_attention(x, x, x, RIGHT.to(x.device), causal=True)[0],
        lambda x: layer.to(x.device)(x, causal=True, key_padding_mask=RIGHT.to(x.device)),
        lambda x: layer.to(x.device)(x[0], x[1], key_padding_mask=RIGHT[0].to(x.device)),
    ]


@pytest.mark.parametrize("call", range(4))
def test_nothing_is_made_on_a_device_of_its_own_choice(call: int) -> None:
    output = calls()[call](X.float().to("meta"))
    assert output.device.type == "meta"
    assert output.shape == (X if call < 3 else X[0]).shape


@pytest.mark.parametrize("call", range(4))
def test_inputs_stay_as_they_were_and_the_answer_too(call: int) -> None:
    function, x = calls()[call], X.float().clone()
    first = function(x)
    assert torch.equal(x, X.float())
    assert torch.equal(function(x), first)
    strided = X.float().transpose(0, 1).contiguous().transpose(0, 1)
    assert torch.equal(function(strided), first)


@pytest.mark.parametrize("part", ["scaled_dot_product", "masking", "multi_head"])
def test_the_reference_uses_no_ready_made_attention_and_no_loop(part: str) -> None:
    ready_made = {"MultiheadAttention", "flex_attention", "functional"}
    path = Path(__file__).parents[1] / "solutions" / "attention" / f"{part}.py"
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        assert not isinstance(node, ast.For | ast.While)
        assert not (isinstance(node, ast.Attribute) and node.attr in ready_made)
        assert not (isinstance(node, ast.alias) and node.name.split(".")[-1] in ready_made)
