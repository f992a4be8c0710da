"""The reference of parts 4 and 8 against torch's own attention."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch
from torch import Tensor, nn

from solutions.attention.library import fused_attention, library_difference, to_library
from solutions.attention.masking import masked_attention
from solutions.attention.multi_head import MultiHeadAttention
from solutions.attention.streaming import streaming_attention

from .test_reference import DTYPES, LEFT, SCATTERED, close, future, gradients, library, normal, qkv

EMPTY = torch.ones(3, 7, dtype=torch.bool)
LEFT_OF_7 = torch.arange(7) < torch.tensor([[1], [7], [3]])


# --- part 4


def layer(dtype: torch.dtype = torch.float64, d_model: int = 15, num_heads: int = 3) -> MultiHeadAttention:
    mha = MultiHeadAttention(d_model, num_heads).to(dtype)
    with torch.no_grad():
        for seed, parameter in enumerate(mha.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=seed) * 0.4)
    return mha


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("training", [False, True])
def test_the_copy_is_the_librarys_and_the_same(dtype: torch.dtype, training: bool) -> None:
    mha = layer(dtype).train(training)
    copy = to_library(mha)
    assert type(copy) is nn.MultiheadAttention
    assert copy.batch_first
    assert copy.training is mha.training is training
    assert {name: p.dtype for name, p in copy.named_parameters()} == {"in_proj_weight": dtype, "out_proj.weight": dtype}
    assert all(p.requires_grad and p.is_leaf for p in copy.parameters())
    x = normal(2, 7, 15, dtype=dtype)
    close(copy(x, x, x, need_weights=False)[0], mha(x), dtype)


def test_the_copy_and_the_layer_are_trained_apart() -> None:
    mha = layer()
    copy = to_library(mha)
    before = [p.detach().clone() for p in copy.parameters()]
    with torch.no_grad():
        for p in mha.parameters():
            p.add_(1)
    assert all(torch.equal(p, old) for p, old in zip(copy.parameters(), before, strict=True))
    assert to_library(MultiHeadAttention(6, 2).to("meta")).in_proj_weight.device.type == "meta"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_right_layer_has_no_difference_under_any_mask(dtype: torch.dtype) -> None:
    mha, x = layer(dtype), normal(3, 5, 15, dtype=dtype)
    for causal, mask in itertools.product((False, True), (None, LEFT, ~LEFT, EMPTY[:, :5])):
        difference = library_difference(mha, x, causal, mask)
        assert type(difference) is float
        assert difference < (1e-10 if dtype == torch.float64 else 1e-4)
    assert library_difference(mha, x[0], True, LEFT[0]) < 1e-4


class Off(MultiHeadAttention):
    """Adds `amount` to one entry."""

    amount = 0.0
    at = (1, 3, 2)

    def forward(self, *args: Tensor, **kwargs: object) -> Tensor:  # type: ignore[override]
        output = super().forward(*args, **kwargs)  # type: ignore[arg-type]
        assert isinstance(output, Tensor)
        assert not output.requires_grad, "no graph is built"
        output[self.at] += self.amount
        return output


def test_a_difference_is_as_large_as_it_is() -> None:
    mha, x = Off(15, 3).double(), normal(3, 5, 15)
    real = torch.zeros(3, 5, dtype=torch.bool)
    padded = real.clone()
    padded[1, 3] = True
    for amount in (1e-6, -1e-6, 3.0, float("inf"), float("nan")):
        mha.amount = amount
        wanted = float("inf") if amount != amount else abs(amount)
        assert library_difference(mha, x) == pytest.approx(wanted, rel=1e-6)
        assert library_difference(mha, x, key_padding_mask=real) == pytest.approx(wanted, rel=1e-6)
        assert library_difference(mha, x, key_padding_mask=padded) < 1e-10
    assert library_difference(mha, x, key_padding_mask=~real) == 0.0


@pytest.mark.parametrize("lead", [(3,), (3, 2), (3, 1, 2)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_fused_call_is_part_2(lead: tuple[int, ...], dtype: torch.dtype) -> None:
    for causal, mask in itertools.product((False, True), (None, SCATTERED, EMPTY, LEFT_OF_7)):
        inputs = qkv(lead, 7, 7, dtype)
        output = fused_attention(*inputs, key_padding_mask=mask, causal=causal)
        assert output.dtype == dtype
        close(output, masked_attention(*inputs, key_padding_mask=mask, causal=causal)[0], dtype)


def test_gradients_of_the_fused_call() -> None:
    for causal, mask in itertools.product((False, True), (None, SCATTERED, EMPTY)):
        fused = gradients(lambda Q, K, V: fused_attention(Q, K, V, mask, causal), *qkv((3, 2), 7, 7))  # noqa: B023
        part_2 = gradients(lambda Q, K, V: masked_attention(Q, K, V, mask, causal)[0], *qkv((3, 2), 7, 7))  # noqa: B023
        for mine, theirs in zip(fused, part_2, strict=True):
            close(mine, theirs)


def test_the_fused_call_refuses_what_part_2_refuses() -> None:
    Q, K, V = qkv((3,), 5, 7)
    wrong: list[tuple[tuple[Tensor, ...], dict[str, object]]] = [
        ((Q, K[..., 1:], V), {}),
        ((Q, K, V[..., 1:, :]), {}),
        ((Q, K, V), {"causal": True}),
        ((Q[0, 0], K, V), {}),
        ((Q, K[:2], V), {}),
        ((Q, K, V), {"key_padding_mask": SCATTERED.long()}),
        ((Q, K, V), {"key_padding_mask": SCATTERED[:, 1:]}),
        ((Q, K, V), {"key_padding_mask": SCATTERED[:1]}),
        ((Q[0], K[0], V[0]), {"key_padding_mask": SCATTERED[0]}),
    ]
    for inputs, options in wrong:
        with pytest.raises(ValueError, match="got"):
            fused_attention(*inputs, **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="dtype"):
        fused_attention(Q.float(), K, V)


# --- part 8


@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_streaming_is_the_librarys_attention(lead: tuple[int, ...], causal: bool, dtype: torch.dtype) -> None:
    inputs = qkv(lead, 11, 11, dtype) if causal else qkv(lead, 5, 11, dtype)
    wanted = library(*inputs, future(11) if causal else None)
    for block_size in (1, 2, 3, 10, 11, 64):
        output = streaming_attention(*inputs, causal=causal, block_size=block_size)
        assert output.dtype == dtype
        close(output, wanted, dtype)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_streaming(causal: bool) -> None:
    inputs = qkv((2,), 11, 11)
    wanted = gradients(lambda Q, K, V: library(Q, K, V, future(11) if causal else None), *inputs)
    for block_size in (1, 4, 64):
        found = gradients(functools.partial(streaming_attention, causal=causal, block_size=block_size), *inputs)
        for mine, theirs in zip(found, wanted, strict=True):
            close(mine, theirs)


def test_streaming_broadcasts_and_answers_without_any_key() -> None:
    Q, K, V = normal(2, 1, 5, 6), normal(3, 7, 6, seed=1), normal(4, 1, 1, 7, 4, seed=2)
    close(streaming_attention(Q, K, V, block_size=3), library(*(each.expand(4, 2, 3, -1, -1) for each in (Q, K, V))))
    assert torch.equal(streaming_attention(Q, K[:, :0], V[..., :0, :]), torch.zeros(4, 2, 3, 5, 4, dtype=torch.float64))


@pytest.mark.parametrize("level", [-3e4, -300.0, 300.0, 3e4])
@pytest.mark.parametrize("causal", [False, True])
def test_streaming_at_any_level_of_scores(level: float, causal: bool) -> None:
    Q, K, V = qkv((2,), 9, 9)
    Q, K = torch.cat([Q, torch.full((2, 9, 1), 10.0)], -1), torch.cat([K, torch.full((2, 9, 1), level * 7**0.5 / 10)], -1)
    for inputs in ((Q, K, V), (Q, K * torch.linspace(0.1, 1, 9)[:, None], V), (Q, K * torch.linspace(1, 0.1, 9)[:, None], V)):
        wanted = library(*inputs, future(9) if causal else None)
        for block_size in (1, 2, 9):
            torch.testing.assert_close(streaming_attention(*inputs, causal=causal, block_size=block_size), wanted)


def test_streaming_refuses_what_cannot_be_right() -> None:
    Q, K, V = qkv((3,), 5, 7)
    wrong: list[tuple[tuple[Tensor, ...], dict[str, object]]] = [
        ((Q, K[..., 1:], V), {}),
        ((Q, K, V[..., 1:, :]), {}),
        ((Q, K, V), {"causal": True}),
        ((Q[0, 0], K, V), {}),
        ((Q, K[:2], V), {}),
        ((Q, K, V), {"block_size": 0}),
        ((Q, K, V), {"block_size": -3}),
    ]
    for inputs, options in wrong:
        with pytest.raises(ValueError, match="got"):
            streaming_attention(*inputs, **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="dtype"):
        streaming_attention(Q.float(), K, V)
