"""Inputs for checks, from one seeded generator.

A mistake hides behind coincidences: two sizes that are equal, a width that is a perfect square, the same padding in every
item, weights too small to matter. So the sizes of one draw all differ, no width is a square, padding is scattered and differs
from item to item, and projections are about three times as large as a fresh layer's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


@dataclass(frozen=True)
class Sizes:
    """One set of sizes, all different: batch, heads, query length, key length, width of queries and keys, width of values."""

    B: int
    H: int
    L_q: int
    L_k: int
    d_k: int
    d_v: int


@dataclass(frozen=True)
class Layer:
    """A multi-head layer's sizes and weights; `d_k` differs from the number of heads."""

    d_model: int
    num_heads: int
    weights: dict[str, Tensor]  # W_q, W_k, W_v, W_o, each (d_model, d_model)


class Draw:
    """Everything is drawn in float64 on the CPU and cast, so that one seed means the same numbers in every dtype."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Independent unit normals of this shape."""
        return torch.randn(*shape, generator=self._generator, dtype=torch.float64).to(dtype)

    def integer(self, low: int, high: int) -> int:
        """One whole number, `low` and `high` included."""
        return int(torch.randint(low, high + 1, (1,), generator=self._generator))

    def choice(self, options: Sequence[T]) -> T:
        return options[self.integer(0, len(options) - 1)]

    def permutation(self, length: int) -> Tensor:
        """A permutation (length,) that leaves not everything in place."""
        order = torch.randperm(length, generator=self._generator)
        return order.roll(1) if torch.equal(order, torch.arange(length)) else order

    def sizes(self) -> Sizes:
        batch = self.choice((2, 3))
        heads = self.choice(tuple(n for n in (3, 4) if n != batch))
        lengths_and_widths = torch.tensor((5, 6, 7, 8, 10, 11))[self.permutation(6)].tolist()
        return Sizes(batch, heads, *lengths_and_widths[:4])

    def qkv(
        self, sizes: Sizes, *, heads: bool = True, square: bool = False, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Q (B, H, L_q, d_k), K (B, H, L_k, d_k), V (B, H, L_k, d_v); without H where not `heads`; L_k for L_q where `square`."""
        lead = (sizes.B, sizes.H) if heads else (sizes.B,)
        queries = sizes.L_k if square else sizes.L_q
        return (
            self.normal(*lead, queries, sizes.d_k, dtype=dtype),
            self.normal(*lead, sizes.L_k, sizes.d_k, dtype=dtype),
            self.normal(*lead, sizes.L_k, sizes.d_v, dtype=dtype),
        )

    def padding(self, items: int, length: int) -> Tensor:
        """A key padding mask (items, length), True = padding: scattered, different in every item, key 0 always real.

        Needs a length of 5 or more, and no more than ten items.
        """
        if length < 5 or items > 10:
            raise ValueError(f"there are not {items} scattered paddings of {length} positions to draw from")
        rows: list[Tensor] = []
        while len(rows) < items:
            row = torch.rand(length, generator=self._generator) < 0.45
            row[0] = False
            real_after_padding = bool((row[:-1] & ~row[1:]).any())
            if real_after_padding and not any(torch.equal(row, other) for other in rows):
                rows.append(row)
        return torch.stack(rows)

    def layer(self, dtype: torch.dtype = torch.float32) -> Layer:
        """Sizes and weights of a multi-head layer."""
        d_model, num_heads = self.choice(((12, 4), (18, 3), (20, 4), (15, 3)))
        return Layer(d_model, num_heads, self.projections(d_model, dtype))

    def projections(self, d_model: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
        """The four packed projections in `nn.Linear` layout, about three times a fresh layer's size."""
        return {name: self.normal(d_model, d_model, dtype=dtype) * (3 / d_model) ** 0.5 for name in ("W_q", "W_k", "W_v", "W_o")}


def seed_for(secret: str, check: str) -> int:
    """A seed that depends on the check, so that no two checks draw the same inputs."""
    return int.from_bytes(hashlib.sha256(f"{secret}\n{check}".encode()).digest()[:7], "big")
