"""Part 5: the four numbers, from the logarithms of the weights."""
import math
from typing import NamedTuple

import torch


class ScoreStatistics(NamedTuple):
    """How large the scores are, and how much of the softmax over them is still alive. Four floats."""

    variance: float  # of all the scores
    max_weight: float  # the largest weight of a row, averaged over the rows
    entropy: float  # of a row of weights, in nats, averaged over the rows
    sensitivity: float  # how much the weights of a row answer to their own scores, averaged over the rows


def score_statistics(Q, K, scaled=True):
    if Q.dim() != 2 or K.dim() != 2:
        raise ValueError(f"Q and K have to be matrices and are {tuple(Q.shape)} and {tuple(K.shape)}")
    if Q.size(1) != K.size(1):
        raise ValueError(f"widths of Q and K differ: {tuple(Q.shape)} and {tuple(K.shape)}")
    scores = torch.einsum("id,jd->ij", Q, K)
    if scaled:
        scores = scores * (1 / math.sqrt(Q.size(1)))
    log_weights = torch.log_softmax(scores, dim=-1)
    weights = log_weights.exp()
    centred = scores - scores.mean()
    rows = {
        "max_weight": log_weights.max(dim=-1).values.exp(),
        "entropy": -(weights * log_weights).sum(dim=-1),  # the logarithm is finite where the weight is zero
        "sensitivity": 1 - weights.square().sum(dim=-1),  # the weights sum to one
    }
    return ScoreStatistics(float(centred.square().mean()), **{name: float(row.mean()) for name, row in rows.items()})
