"""What all parts need: shape checks, and one softmax that knows about forbidden keys."""
import torch


def refuse(name, problem, *tensors):
    shapes = ", ".join(str(tuple(t.shape)) for t in tensors)
    raise ValueError(f"{name}: {problem} (shapes {shapes})")


def check_qkv(Q, K, V, causal):
    if Q.shape[-1] != K.shape[-1]:
        refuse("Q and K", "different widths", Q, K)
    if K.shape[-2] != V.shape[-2]:
        refuse("K and V", "different lengths", K, V)
    if causal and Q.shape[-2] != K.shape[-2]:
        refuse("causal", "Q and K have different lengths", Q, K)


def upper_triangle(length, device):
    return torch.ones(length, length, dtype=torch.bool, device=device).triu(1)


def attend(Q, K, V, forbidden=None):
    scores = Q @ K.transpose(-2, -1) * Q.shape[-1] ** -0.5
    if forbidden is None:
        weights = scores.softmax(-1)
    else:
        floor = torch.finfo(scores.dtype).min
        weights = scores.masked_fill(forbidden, floor).softmax(-1).masked_fill(forbidden, 0)
    return weights @ V, weights
