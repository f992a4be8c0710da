"""The layer that the checks bring along: right unless told to be wrong, and then wrong in that one way."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor

from checks.calls import Call, Make, ModuleRef
from checks.executor import Direct, Layout
from checks.package import Package
from checks.stand_in import MultiHeadAttention
from solutions.attention.multi_head import MultiHeadAttention as Reference

MASK = torch.tensor([[0, 1, 0, 0, 1], [1, 1, 1, 1, 1]], dtype=torch.bool)


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("plain", [False, True])
def test_it_is_part_3(x: Tensor, plain: bool) -> None:
    layer, reference = MultiHeadAttention(12, 4, plain=plain).double(), Reference(12, 4).double()
    with torch.no_grad():
        for name, weight in layer.weights().items():
            getattr(reference, name).weight.copy_(weight)
    context = x.flip(1)[:, :4]
    for inputs, options in (
        ((x,), {}),
        ((x,), {"causal": True, "key_padding_mask": MASK, "need_weights": True}),
        ((x, context), {"key_padding_mask": MASK[:, 1:], "need_weights": True}),
        ((x[0],), {"causal": True, "key_padding_mask": MASK[0], "need_weights": True}),
    ):
        torch.testing.assert_close(layer(*inputs, **options), reference(*inputs, **options))
    assert layer.built_graph
    with torch.no_grad():
        layer(x)
    assert not layer.built_graph
    assert layer(x.float()).dtype == torch.float32


def test_it_is_wrong_as_it_is_told(x: Tensor) -> None:
    right = MultiHeadAttention(12, 4).double()

    def wrong(**how: object) -> MultiHeadAttention:
        made = MultiHeadAttention(12, 4, **how).double()  # type: ignore[arg-type]
        made.load_state_dict(right.state_dict())
        return made

    both = {"causal": True, "key_padding_mask": ~MASK}
    torch.testing.assert_close(wrong(ignores=("causal",))(x, **both), right(x, key_padding_mask=~MASK))
    torch.testing.assert_close(wrong(ignores=("key_padding_mask",))(x, **both), right(x, causal=True))
    turned = copy.deepcopy(right)
    with torch.no_grad():
        turned.weights()["W_k"].copy_(right.weights()["W_k"].T)
    torch.testing.assert_close(wrong(transposed=("W_k",))(x), turned(x))
    for adds in (-0.5, math.nan):
        difference = wrong(adds=adds, at=(1, 2, 3))(x) - right(x)
        assert (difference != 0).nonzero().tolist() == [[1, 2, 3]]
        torch.testing.assert_close(difference[1, 2, 3].item(), adds, equal_nan=True)


def test_it_is_made_where_the_students_code_is_and_may_be_handed_to_it(x: Tensor) -> None:
    package = Package({"attention/library.py": "def f(mha, x):\n    return mha(x), mha\n"})
    transport = Direct(package, Layout("attention", {"f": "library"}, frozenset({"library"})))
    made = transport.perform(Make("@MultiHeadAttention", (12, 4), {"adds": 1.0, "at": (0, 0, 0)}, dtype=torch.float64))
    assert made.module is not None
    output, module = transport.perform(Call("f", (ModuleRef(made.module), x))).value
    assert module.index == made.module
    assert torch.equal(transport.perform(Call("forward", (x,), module=made.module)).value, output)
