"""The public names of the assignment: what their arguments and results are called, and what the results must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import nn

Shape: TypeAlias = tuple[int, ...]
Result: TypeAlias = Shape | type[Any]  # a tensor of that shape; or a float, an int, a module
Arguments = Mapping[str, Any]  # of the call, and of the constructor where there is one


@dataclass(frozen=True)
class Signature:
    parameters: tuple[str, ...]  # of the function, or of `forward`
    shapes: Callable[[Arguments], Mapping[str, Result]]  # the results, in order, for a call that can be right
    constructor: tuple[str, ...] = ()


def _attention(given: Arguments) -> dict[str, Shape]:
    Q, K, V = given["Q"].shape, given["K"].shape, given["V"].shape
    scores = torch.broadcast_shapes(Q[:-2], K[:-2])
    return {
        "output": (*torch.broadcast_shapes(scores, V[:-2]), Q[-2], V[-1]),
        "weights": (*scores, Q[-2], K[-2]),
    }


def _output(given: Arguments) -> dict[str, Shape]:
    return {"output": _attention(given)["output"]}


def _square(given: Arguments) -> dict[str, Shape]:
    return {"mask": (given["length"], given["length"])}


def _multi_head(given: Arguments) -> dict[str, Shape]:
    x = given["x"].shape
    keys = x if given.get("context") is None else given["context"].shape
    shapes = {"output": tuple(x)}
    if given.get("need_weights"):
        shapes["weights"] = (*x[:-2], given["num_heads"], x[-2], keys[-2])
    return shapes


def _statistics(given: Arguments) -> Mapping[str, Result]:
    return dict.fromkeys(STATISTICS, float)


def _cost(given: Arguments) -> Mapping[str, Result]:
    return dict.fromkeys(COSTS, int)


STATISTICS = ("variance", "max_weight", "entropy", "sensitivity")  # the fields of ScoreStatistics
COSTS = ("multiply_adds", "stored_scores", "sequential_steps")  # of Cost


def _pairs(given: Arguments) -> dict[str, Shape]:
    B, L = given["series"].shape
    return {"inputs": (B, L - 1), "targets": (B, L - 1)}


def _forecasts(given: Arguments) -> dict[str, Shape]:
    B, L = given["series"].shape
    return {"forecasts": (B, L), "weights": (B, L, L)}


def _library(given: Arguments) -> dict[str, Shape]:
    query, key = given["query"].shape, given["key"].shape
    return {"output": tuple(query), "weights": (*query[:-1], key[-2])}


LIBRARY = Signature(("query", "key", "value"), _library)  # torch's own nn.MultiheadAttention
SIGNATURES: Mapping[str, Signature] = {
    "scaled_dot_product_attention": Signature(("Q", "K", "V", "causal"), _attention),
    "causal_mask": Signature(("length", "device"), _square),
    "masked_attention": Signature(("Q", "K", "V", "key_padding_mask", "causal"), _attention),
    "MultiHeadAttention": Signature(("x", "context"), _multi_head, constructor=("d_model", "num_heads")),
    "ScoreStatistics": Signature(STATISTICS, _statistics),
    "score_statistics": Signature(("Q", "K", "scaled"), _statistics),
    "Cost": Signature(COSTS, _cost),
    "attention_cost": Signature(("length", "width"), _cost),
    "recurrence_cost": Signature(("length", "width"), _cost),
    "crossover_length": Signature(("width",), lambda given: {"length": int}),
    "score_bytes": Signature(("length", "num_heads", "dtype"), lambda given: {"bytes": int}),
    "circle_embedding": Signature(("length", "period"), lambda given: {"embedding": (given["length"], 2)}),
    "lag_profile": Signature(("weights",), lambda given: {"profile": tuple(given["weights"].shape[:-1])}),
    "dominant_lag": Signature(("profile",), lambda given: {"lag": int}),
    "sinusoidal_positions": Signature(("length", "d_model"), lambda given: {"positions": (given["length"], given["d_model"])}),
    "next_step_pairs": Signature(("series",), _pairs),
    "AttentionForecaster": Signature(("series",), _forecasts, constructor=("d_model", "max_length")),
    "train_forecaster": Signature(("model", "series", "steps", "learning_rate"), lambda given: {"errors": float}),
    "to_library": Signature(("mha",), lambda given: {"library": nn.Module}),
    "library_difference": Signature(("mha", "x", "causal", "key_padding_mask"), lambda given: {"difference": float}),
    "fused_attention": Signature(("Q", "K", "V", "key_padding_mask", "causal"), _output),
    "streaming_attention": Signature(("Q", "K", "V", "causal", "block_size"), _output),
}
