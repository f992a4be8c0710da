"""Part 8 with the logarithm of the sum so far: each block is mixed in by its share."""
import math

import torch


def streaming_attention(Q, K, V, causal=False, block_size=64):
    if Q.size(-1) != K.size(-1):
        raise ValueError(f"widths of Q and K differ: {tuple(Q.shape)} and {tuple(K.shape)}")
    if K.size(-2) != V.size(-2):
        raise ValueError(f"lengths of K and V differ: {tuple(K.shape)} and {tuple(V.shape)}")
    if causal and Q.size(-2) != K.size(-2):
        raise ValueError(f"causal with different lengths of Q and K: {tuple(Q.shape)} and {tuple(K.shape)}")
    if block_size <= 0:
        raise ValueError(f"block_size has to be positive and is {block_size}")

    rows = torch.arange(Q.size(-2), device=Q.device)
    out, log_sum, start = None, None, 0
    for k, v in zip(K.split(block_size, dim=-2), V.split(block_size, dim=-2)):
        s = torch.einsum("...id,...jd->...ij", Q, k) / math.sqrt(Q.size(-1))
        if causal:
            columns = torch.arange(start, start + k.size(-2), device=Q.device)
            s = torch.where(columns.unsqueeze(0) > rows.unsqueeze(1), torch.finfo(s.dtype).min, s)
        start += k.size(-2)
        here, log_here = torch.softmax(s, dim=-1) @ v, torch.logsumexp(s, dim=-1, keepdim=True)
        if out is None:
            out, log_sum = here, log_here
        else:
            both = torch.logaddexp(log_sum, log_here)
            out = out * torch.exp(log_sum - both) + here * torch.exp(log_here - both)
            log_sum = both
    return out
