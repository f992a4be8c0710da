"""A little Transformer block: normalised input, residual connection, a read-out with a hidden layer. Adam."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from .scaled_dot_product import scaled_dot_product_attention as attend


def circle_embedding(length, period):
    if length <= 0:
        raise ValueError(f"length must be positive, is {length}")
    if not period > 0:
        raise ValueError(f"period must be positive, is {period}")
    t = torch.arange(length, dtype=torch.float32).unsqueeze(1)
    return torch.cat([torch.sin(2 * math.pi * t / period), torch.cos(2 * math.pi * t / period)], dim=1)


def lag_profile(weights):
    n = weights.size(-1)
    if weights.dim() < 2 or weights.size(-2) != n:
        raise ValueError(f"weights is {tuple(weights.shape)} and has to be square")
    # Append a column of zeros to the mirrored matrix and read it again in rows that are one longer: diagonals become columns.
    mirrored = torch.tril(weights).flip(-1)
    skewed = F.pad(mirrored, (0, n)).flatten(-2)[..., : n * (2 * n - 1)].unflatten(-1, (n, 2 * n - 1))
    sums = skewed[..., n - 1 :].sum(-2)
    return sums / torch.arange(n, 0, -1, device=weights.device)


def dominant_lag(profile):
    if profile.dim() != 1:
        raise ValueError(f"profile has shape {tuple(profile.shape)}, not (L,)")
    values = profile.tolist()
    top = max(values[2:], default=None)
    for k in range(2, len(values)):
        if values[k] == top and values[k] > values[k - 1]:
            return k
    return 0


def sinusoidal_positions(length, d_model):
    if length <= 0 or d_model <= 0:
        raise ValueError(f"length {length} and d_model {d_model} have to be positive")
    table = torch.zeros(length, d_model)
    t = torch.arange(length).unsqueeze(1)
    rate = torch.exp(-math.log(10000.0) * torch.arange(0, d_model, 2) / d_model)
    table[:, 0::2] = torch.sin(t * rate)
    table[:, 1::2] = torch.cos(t * rate[: d_model // 2])
    return table


def next_step_pairs(series):
    if series.dim() != 2 or series.size(1) < 2:
        raise ValueError(f"series has shape {tuple(series.shape)}, not (B, L)")
    return series[:, :-1].clone(), series[:, 1:].clone()


class AttentionForecaster(nn.Module):
    def __init__(self, d_model, max_length):
        if d_model < 1 or max_length < 1:
            raise ValueError(f"d_model={d_model} and max_length={max_length} have to be positive")
        super().__init__()
        self.max_length = max_length
        self.input = nn.Linear(1, d_model)
        self.norm = nn.LayerNorm(d_model)
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.read_out = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Linear(2 * d_model, 1))
        self.register_buffer("table", sinusoidal_positions(max_length, d_model))

    def forward(self, series):
        if series.dim() != 2 or series.size(1) > self.max_length:
            raise ValueError(f"series is {tuple(series.shape)}, at most (B, {self.max_length})")
        x = self.input(series.unsqueeze(-1)) + self.table[: series.size(1)]
        z = self.norm(x)
        mixed, weights = attend(self.query(z), self.key(z), self.value(z), causal=True)
        return self.read_out(x + mixed).squeeze(-1), weights


def train_forecaster(model, series, steps, learning_rate):
    x, y = next_step_pairs(series)
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    history = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = F.mse_loss(model(x)[0], y)
        history.append(float(loss))
        loss.backward()
        optimiser.step()
    return history
