"""A multi-head layer that the checks bring along, so that a part about such layers does not hang on the student's own.

It computes what `expected.multi_head` does, unless it is told to be wrong in one way: then how far it is from the library is
known, and whoever compares the two must find that out. It stands on either side of the wire: the executor makes it where the
student's code is, and a check makes another to know what the first one must answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from . import expected

PROJECTIONS = ("W_q", "W_k", "W_v", "W_o")


class MultiHeadAttention(nn.Module):
    """Part 3's layer. `plain`: the projections are parameters `W_q`, … and not linear layers.

    What can be wrong with it: it `ignores` masks ("causal", "key_padding_mask"); it uses the projections named in
    `transposed` the wrong way round; it `adds` a number to the one entry of the output `at` this index.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        plain: bool = False,
        ignores: Sequence[str] = (),
        transposed: Sequence[str] = (),
        adds: float = 0.0,
        at: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.built_graph = False  # whether the last output could have been differentiated
        self._ignores, self._transposed, self._adds, self._at = ignores, transposed, adds, tuple(at)
        for name in PROJECTIONS:
            linear = nn.Linear(d_model, d_model, bias=False)
            setattr(self, name, linear.weight if plain else linear)

    def weights(self) -> dict[str, Tensor]:
        """The four projections by name, (d_model, d_model) each."""
        return {name.removesuffix(".weight"): parameter for name, parameter in self.named_parameters()}

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        causal: bool = False,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        if x.device.type == "meta":  # no values to look at, and nothing here is what is watched there
            return torch.empty_like(x)
        batched = x if x.dim() == 3 else x[None]
        source = context if context is None or context.dim() == 3 else context[None]
        mask = key_padding_mask if key_padding_mask is None or key_padding_mask.dim() == 2 else key_padding_mask[None]
        with x.device:  # what is made without a word about its device is made there
            output, per_head = expected.multi_head(
                {name: weight.T if name in self._transposed else weight for name, weight in self.weights().items()},
                self.num_heads,
                batched,
                source,
                causal=causal and "causal" not in self._ignores,
                key_padding_mask=None if "key_padding_mask" in self._ignores else mask,
            )
        output, per_head = (each.to(x.dtype) if x.dim() == 3 else each[0].to(x.dtype) for each in (output, per_head))
        if self._at:
            off = torch.zeros_like(output)
            off[self._at] = self._adds
            output = output + off
        self.built_graph = output.requires_grad
        return (output, per_head) if need_weights else output


STAND_INS: Mapping[str, type[nn.Module]] = {"@MultiHeadAttention": MultiHeadAttention}  # by the name in a `calls.Make`
