"""Part 2: key padding and the causal mask. Section 3 of the chapter, and its Exercise 12.1.2.

Both masks are bool, and in both `True` takes a key away: it is padding, or it lies in the future. This is the convention
of `nn.MultiheadAttention` and the opposite of `F.scaled_dot_product_attention`, where `True` means "take part".
"""

from __future__ import annotations

import torch


def causal_mask(length: int, device: torch.device | str | None = None) -> torch.Tensor:
    """The mask that hides the future: `(length, length)` bool, `True` = forbidden, which is where `j > i`.

    Row `i` belongs to query `i` and column `j` to key `j`: the mask is `True` strictly above the diagonal.
    device: where the mask is made; torch's default device when it is None.
    """
    raise NotImplementedError("part 2: causal_mask")


def masked_attention(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    key_padding_mask: torch.Tensor | None = None,
    causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Part 1's attention, in which a query sees only the keys that no mask forbids.

    Q: `(B, ..., L_q, d_k)`, K: `(B, ..., L_k, d_k)`, V: `(B, ..., L_k, d_v)`.
    key_padding_mask: `(B, L_k)` bool, `True` = this key is padding, ignore it; it holds for every query of its sequence,
        and row `b` of it belongs to entry `b` of the first dimension. None: no key is padding.
    causal: when true, query `i` sees no key `j > i`; this needs `L_q == L_k`. Both masks may be given together.

    Returns `(output (B, ..., L_q, d_v), weights (B, ..., L_q, L_k))`, in the inputs' dtype and on their device. Forbidden
    keys have weight zero and the weights of the others sum to one. A query that sees no key at all has all-zero weights
    and an all-zero output, and the gradients through it are zero, never NaN. Only keys are masked: a query at a padded
    position is treated like any other.

    Raises `ValueError`, naming the argument and the shapes it got, when the mask is not bool or not `(B, L_k)`, and
    wherever part 1 does.
    """
    raise NotImplementedError("part 2: masked_attention")
