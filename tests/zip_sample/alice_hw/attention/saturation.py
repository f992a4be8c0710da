from collections import namedtuple

import torch

from .helpers import refuse

ScoreStatistics = namedtuple("ScoreStatistics", "variance max_weight entropy sensitivity")


def score_statistics(Q, K, scaled=True):
    if Q.ndim != 2 or K.ndim != 2:
        refuse("Q and K", "not matrices", Q, K)
    if Q.shape[1] != K.shape[1]:
        refuse("Q and K", "different widths", Q, K)
    scores = Q @ K.T * (Q.shape[1] ** -0.5 if scaled else 1)
    weights = scores.softmax(-1)
    per_row = (weights.amax(-1), torch.special.entr(weights).sum(-1), (weights - weights**2).sum(-1))
    return ScoreStatistics(scores.var(correction=0).item(), *(row.mean().item() for row in per_row))
