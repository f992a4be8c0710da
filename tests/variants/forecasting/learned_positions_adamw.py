"""Learned positions and biases everywhere, small initial weights, part 2's attention in place of part 1's. AdamW."""
from math import pi

import torch
from torch import nn
from torch.nn import functional as F

from .masking import masked_attention


def _positive(**numbers):
    for name, number in numbers.items():
        if number <= 0:
            raise ValueError(f"{name} is {number} and must be positive")


def circle_embedding(length, period):
    _positive(length=length, period=period)
    angle = torch.linspace(0, 2 * pi * (length - 1) / period, length)
    return torch.stack([torch.sin(angle), torch.cos(angle)], 1)


def lag_profile(weights):
    if weights.dim() < 2 or weights.shape[-1] != weights.shape[-2]:
        raise ValueError(f"weights must be square, and are {list(weights.shape)}")
    n = weights.shape[-1]
    steps = torch.arange(n, device=weights.device)
    lags = (steps[:, None] - steps).flatten()
    past = lags >= 0
    flat = weights.flatten(-2)[..., past]
    total = torch.zeros(*weights.shape[:-1], dtype=weights.dtype, device=weights.device)
    return total.index_add(-1, lags[past], flat) / (n - steps)


def dominant_lag(profile):
    if profile.dim() != 1:
        raise ValueError(f"profile must be (L,), and is {list(profile.shape)}")
    best = max(profile[2:].tolist(), default=0)
    lags = [k for k in range(2, len(profile)) if profile[k].item() == best and bool(profile[k] > profile[k - 1])]
    return min(lags, default=0)


def sinusoidal_positions(length, d_model):
    _positive(length=length, d_model=d_model)
    column = torch.arange(d_model)
    pair = torch.div(column, 2, rounding_mode="floor")
    angle = torch.arange(length)[:, None] / torch.pow(10000, 2 * pair / d_model)
    return torch.sin(angle + (column % 2) * pi / 2)


def next_step_pairs(series):
    if series.dim() != 2:
        raise ValueError(f"series must be (B, L), and is {list(series.shape)}")
    return tuple(series.unfold(1, series.shape[1] - 1, 1).unbind(1))


class AttentionForecaster(nn.Module):
    def __init__(self, d_model, max_length):
        super().__init__()
        _positive(d_model=d_model, max_length=max_length)
        self.value_to_vector = nn.Linear(1, d_model)
        self.position = nn.Embedding(max_length, d_model)
        nn.init.normal_(self.position.weight, std=0.5)
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, d_model) for _ in range(3))
        self.W_o = nn.Linear(d_model, d_model)
        self.head = nn.Sequential(nn.Tanh(), nn.Linear(d_model, 1))

    def forward(self, series):
        length = series.shape[-1]
        if series.dim() != 2 or length > self.position.num_embeddings:
            raise ValueError(f"series must be (B, L) with L <= {self.position.num_embeddings}, and is {list(series.shape)}")
        x = self.value_to_vector(series.unsqueeze(2)) + self.position(torch.arange(length, device=series.device))
        output, weights = masked_attention(self.W_q(x), self.W_k(x), self.W_v(x), causal=True)
        return self.head(self.W_o(output)).flatten(1), weights


def train_forecaster(model, series, steps, learning_rate):
    inputs, targets = next_step_pairs(series)
    optimiser = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    losses = []
    model.train()
    for _ in range(steps):
        loss = F.mse_loss(model(inputs)[0], targets)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        losses.append(loss.detach().item())
    return losses
