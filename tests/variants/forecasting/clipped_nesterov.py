"""A head with an output projection and dropout that is off, weights averaged late. SGD with Nesterov momentum, clipped."""
import numpy as np
import torch
from torch import nn


def circle_embedding(length, period):
    if length < 1 or not period > 0:
        raise ValueError(f"length and period must be positive: {length}, {period}")
    angle = 2 * np.pi * np.arange(length) / period
    return torch.from_numpy(np.column_stack([np.sin(angle), np.cos(angle)])).float()


def lag_profile(weights):
    shape = tuple(weights.shape)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(f"weights must be (..., L, L), not {shape}")
    n = shape[-1]
    flat = weights.reshape(*shape[:-2], n * n)
    index = torch.arange(n, device=weights.device)
    where = (index[None, :] + index[:, None]) % n * n + index[None, :]  # (lag, key): row key + lag
    valid = index[None, :] + index[:, None] < n
    return (flat[..., where] * valid).sum(-1) / valid.sum(-1)


def dominant_lag(profile):
    if profile.ndim != 1:
        raise ValueError(f"profile must be (L,), not {tuple(profile.shape)}")
    values = profile.detach().cpu().numpy()
    if values.size < 3:
        return 0
    (found,) = np.nonzero((values[2:] == values[2:].max()) & (np.diff(values)[1:] > 0))
    return int(found[0]) + 2 if found.size else 0


def sinusoidal_positions(length, d_model):
    if length < 1 or d_model < 1:
        raise ValueError(f"length and d_model must be positive: {length}, {d_model}")
    column = np.arange(d_model)
    angle = np.arange(length)[:, None] / 10000 ** (2 * (column // 2) / d_model)
    return torch.tensor(np.where(column % 2 == 0, np.sin(angle), np.cos(angle)), dtype=torch.float32)


def next_step_pairs(series):
    if series.ndim != 2:
        raise ValueError(f"series must be (B, L), not {tuple(series.shape)}")
    return series[..., :-1], series[..., 1:]


class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.o = nn.Linear(width, width)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(1, 2) * x.shape[-1] ** -0.5
        future = torch.ones(scores.shape[1:], device=x.device).triu(1) > 0
        powers = scores.masked_fill(future, -torch.inf)
        powers = (powers - powers.amax(-1, keepdim=True)).exp()
        total = powers.sum(-1, keepdim=True)
        return self.o(powers @ self.v(x) / total), powers / total


class AttentionForecaster(nn.Module):
    def __init__(self, d_model, max_length):
        super().__init__()
        if d_model < 1 or max_length < 1:
            raise ValueError(f"d_model and max_length must be positive: {d_model}, {max_length}")
        self.max_length = max_length
        self.embedding = nn.Linear(1, d_model)
        self.register_buffer("positions", sinusoidal_positions(max_length, d_model), persistent=False)
        self.head = Head(d_model)
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(0.0)
        self.read_out = nn.Linear(d_model, 1)

    def forward(self, series):
        if series.ndim != 2 or series.shape[1] > self.max_length:
            raise ValueError(f"series must be (B, L), L up to {self.max_length}, not {tuple(series.shape)}")
        x = self.embedding(series.unsqueeze(-1)) + self.positions[: series.shape[1]].unsqueeze(0)
        found, weights = self.head(x)
        return self.read_out(self.norm(x + self.dropout(found))).squeeze(-1), weights


def train_forecaster(model, series, steps, learning_rate):
    optimiser = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9, nesterov=True)
    inputs, targets = next_step_pairs(series)
    losses = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = nn.functional.mse_loss(model(inputs)[0], targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
    return losses
