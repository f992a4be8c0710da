"""Bare parameters, einsum, exponentials by hand, a residual read-out. RMSprop with a schedule."""
import math

import torch
from torch import nn


def circle_embedding(length, period):
    if length < 1:
        raise ValueError(f"length {length}")
    if period <= 0:
        raise ValueError(f"period {period}")
    phase = torch.tensor([0.0, math.pi / 2])
    return torch.sin(2 * math.pi / period * torch.arange(length)[:, None] + phase)


def lag_profile(weights):
    if weights.ndim < 2 or weights.shape[-1] != weights.shape[-2]:
        raise ValueError(f"weights {tuple(weights.shape)}")
    n = weights.shape[-1]
    row = torch.arange(n, device=weights.device)[:, None]
    key = row - torch.arange(n, device=weights.device)
    picked = weights[..., row, key % n] * (key >= 0)
    return picked.sum(-2) / (key >= 0).sum(0)


def dominant_lag(profile):
    if profile.ndim != 1:
        raise ValueError(f"profile {tuple(profile.shape)}")
    if profile.shape[0] <= 2:
        return 0
    top = profile[2:].max()
    k = 2
    while k < len(profile) and not (profile[k] == top and profile[k] > profile[k - 1]):
        k += 1
    return k if k < len(profile) else 0


def sinusoidal_positions(length, d_model):
    if length < 1 or d_model < 1:
        raise ValueError(f"length {length}, d_model {d_model}")
    column = torch.arange(d_model, dtype=torch.double)
    angle = torch.arange(length)[:, None] * 10000.0 ** (-2 * (column // 2) / d_model)
    odd = column % 2
    return ((1 - odd) * angle.sin() + odd * angle.cos()).float()


def next_step_pairs(series):
    if series.ndim != 2:
        raise ValueError(f"series {tuple(series.shape)}")
    return torch.split(series, series.shape[1] - 1, dim=1)[0], series[:, 1:]


class AttentionForecaster(nn.Module):
    def __init__(self, d_model, max_length):
        super().__init__()
        if d_model < 1 or max_length < 1:
            raise ValueError(f"d_model {d_model}, max_length {max_length}")

        def matrix(rows, columns):
            return nn.Parameter(torch.randn(rows, columns) / math.sqrt(rows))

        self.embed, self.bias = matrix(1, d_model), nn.Parameter(torch.zeros(d_model))
        self.q, self.k, self.v = matrix(d_model, d_model), matrix(d_model, d_model), matrix(d_model, d_model)
        self.out, self.shift = matrix(d_model, 1), nn.Parameter(torch.zeros(1))
        self.register_buffer("pos", sinusoidal_positions(max_length, d_model)[None])

    def forward(self, series):
        if series.ndim != 2 or series.shape[1] > self.pos.shape[1]:
            raise ValueError(f"series {tuple(series.shape)} for at most {self.pos.shape[1]}")
        n = series.shape[1]
        x = series[..., None] * self.embed[0] + self.bias + self.pos[:, :n]
        scores = torch.einsum("bid,bjd->bij", x @ self.q, x @ self.k) / math.sqrt(x.shape[-1])
        future = torch.arange(n, device=series.device) > torch.arange(n, device=series.device)[:, None]
        scores = scores.masked_fill(future, -1e9)
        weights = torch.exp(scores - scores.logsumexp(-1, keepdim=True))
        mixed = torch.einsum("bij,bjd->bid", weights, x @ self.v)
        return ((mixed + x) @ self.out + self.shift)[:, :, 0], weights


def train_forecaster(model, series, steps, learning_rate):
    inputs, targets = next_step_pairs(series)
    optimiser = torch.optim.RMSprop(model.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.1, total_iters=max(steps, 1))
    history = []
    for _ in range(steps):
        loss = (model(inputs)[0] - targets).pow(2).mean()
        history.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return history
