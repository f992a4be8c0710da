"""One packed projection, attention written again with a finite fill, positions made anew at each call. SGD with momentum."""
import torch
from torch import nn


def circle_embedding(length, period):
    if length < 1 or period <= 0:
        raise ValueError(f"length={length}, period={period}")
    angle = torch.arange(length) * (2 * torch.pi / period)
    return torch.view_as_real(torch.polar(torch.ones(length), angle.float())).flip(-1)


def lag_profile(weights):
    if weights.ndim < 2 or weights.shape[-1] != weights.shape[-2]:
        raise ValueError(f"weights: {weights.shape}")
    n = weights.shape[-1]
    i = torch.arange(n, device=weights.device)
    lag = i[:, None] - i
    onto_lag = (lag.unsqueeze(-1) == i).to(weights.dtype)  # (L, L, lags)
    return torch.einsum("...ij,ijk->...k", weights, onto_lag / onto_lag.sum((0, 1)))


def dominant_lag(profile):
    if profile.ndim != 1:
        raise ValueError(f"profile: {profile.shape}")
    if profile.numel() < 3:
        return 0
    rises = profile[2:] > profile[1:-1]
    found = torch.where(rises & (profile[2:] >= profile[2:].max()))[0]
    return found[0].item() + 2 if found.numel() else 0


def sinusoidal_positions(length, d_model):
    if min(length, d_model) < 1:
        raise ValueError(f"length={length}, d_model={d_model}")
    t = torch.arange(length, dtype=torch.float64)
    even = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = torch.outer(t, 1 / 10000 ** (even / d_model))
    return torch.stack([angle.sin(), angle.cos()], -1).reshape(length, -1)[:, :d_model].float()


def next_step_pairs(series):
    if series.ndim != 2 or series.shape[-1] < 2:
        raise ValueError(f"series: {series.shape}")
    return series.narrow(1, 0, series.shape[1] - 1), series.narrow(1, 1, series.shape[1] - 1)


class AttentionForecaster(nn.Module):
    def __init__(self, d_model, max_length):
        super().__init__()
        if d_model < 1:
            raise ValueError(f"d_model={d_model}")
        if max_length < 1:
            raise ValueError(f"max_length={max_length}")
        self.d_model, self.max_length = d_model, max_length
        self.lift = nn.Linear(1, d_model)
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, 1)

    def forward(self, series):
        if series.ndim != 2:
            raise ValueError(f"series: {series.shape}")
        length = series.shape[1]
        if length > self.max_length:
            raise ValueError(f"series: length {length}, and max_length is {self.max_length}")
        x = self.lift(series[:, :, None]) + sinusoidal_positions(length, self.d_model).to(series)
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = torch.bmm(q, k.mT) / self.d_model**0.5
        seen = torch.ones_like(scores, dtype=torch.bool).tril()
        weights = scores.where(seen, torch.finfo(scores.dtype).min).softmax(-1)
        return self.out(torch.bmm(weights, v)).squeeze(-1), weights


def train_forecaster(model, series, steps, learning_rate):
    optimiser = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    losses = []
    for _ in range(steps):
        forecasts, _ = model(series)
        loss = ((forecasts[:, :-1] - series[:, 1:]) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses
