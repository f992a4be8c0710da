from typing import NamedTuple

import torch


class ScoreStatistics(NamedTuple):
    variance: float
    max_weight: float
    entropy: float
    sensitivity: float


def score_statistics(Q, K, scaled=True):
    if Q.ndim != 2 or K.ndim != 2 or Q.shape[1] != K.shape[1]:
        raise ValueError(f"Q must be (n, d_k) and K (m, d_k), got {tuple(Q.shape)} and {tuple(K.shape)}")
    scores = Q @ K.T
    if scaled:
        scores = scores / Q.shape[1] ** 0.5
    p = torch.softmax(scores, dim=1)
    entropy = -torch.xlogy(p, p).sum(dim=1)  # xlogy is 0 where p is
    sensitivity = (p * (1 - p)).sum(dim=1)
    return ScoreStatistics(
        scores.var(unbiased=False).item(), p.max(dim=1).values.mean().item(), entropy.mean().item(), sensitivity.mean().item()
    )
