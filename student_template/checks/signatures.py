"""The public names of the assignment: what their arguments and results are called in every message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Signature:
    parameters: tuple[str, ...]  # of the function, or of `forward`
    results: tuple[str, ...]
    constructor: tuple[str, ...] = ()


SIGNATURES: Mapping[str, Signature] = {
    "scaled_dot_product_attention": Signature(("Q", "K", "V", "causal"), ("output", "weights")),
    "causal_mask": Signature(("length", "device"), ("mask",)),
    "masked_attention": Signature(("Q", "K", "V", "key_padding_mask", "causal"), ("output", "weights")),
    "MultiHeadAttention": Signature(("x", "context"), ("output",), constructor=("d_model", "num_heads")),
}
WITH_WEIGHTS = ("output", "weights")  # the results of a call with need_weights=True
