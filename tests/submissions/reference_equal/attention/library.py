"""Part 4 with load_state_dict for the copy, and a mask of numbers for the fused call."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def to_library(mha):
    state = mha.state_dict()
    width = state["W_o.weight"].size(0)
    copy = nn.MultiheadAttention(width, mha.num_heads, bias=False, batch_first=True).to(state["W_o.weight"])
    rows = [state[f"W_{letter}.weight"] for letter in "qkv"]
    copy.load_state_dict({"in_proj_weight": torch.cat(rows, dim=0), "out_proj.weight": state["W_o.weight"]})
    if not mha.training:
        copy.eval()
    return copy


@torch.no_grad()
def library_difference(mha, x, causal=False, key_padding_mask=None):
    n = x.size(-2)
    mask = None
    if causal:
        mask = torch.full((n, n), -math.inf, dtype=x.dtype, device=x.device).triu(1)
    padding = None
    if key_padding_mask is not None:
        padding = torch.zeros_like(key_padding_mask, dtype=x.dtype).masked_fill(key_padding_mask, -math.inf)
    theirs = to_library(mha)(x, x, x, attn_mask=mask, key_padding_mask=padding)[0]
    gap = (mha(x, causal=causal, key_padding_mask=key_padding_mask) - theirs).abs().amax(dim=-1)
    if key_padding_mask is not None:
        gap = gap.masked_fill(key_padding_mask, 0.0)
    return gap.nan_to_num(nan=math.inf, posinf=math.inf).max().item()


def fused_attention(Q, K, V, key_padding_mask=None, causal=False):
    if Q.size(-1) != K.size(-1):
        raise ValueError(f"widths of Q and K differ: {tuple(Q.shape)} and {tuple(K.shape)}")
    if K.size(-2) != V.size(-2):
        raise ValueError(f"lengths of K and V differ: {tuple(K.shape)} and {tuple(V.shape)}")
    if causal and Q.size(-2) != K.size(-2):
        raise ValueError(f"causal with different lengths of Q and K: {tuple(Q.shape)} and {tuple(K.shape)}")
    bias = torch.zeros(Q.size(-2), K.size(-2), dtype=Q.dtype, device=Q.device)
    if causal:
        bias = bias.masked_fill(torch.ones_like(bias, dtype=torch.bool).triu(1), -math.inf)
    dead = None
    if key_padding_mask is not None:
        if key_padding_mask.dtype is not torch.bool:
            raise TypeError(f"key_padding_mask has to be bool and is {key_padding_mask.dtype}")
        if Q.dim() < 3 or key_padding_mask.shape != (Q.size(0), K.size(-2)):
            raise ValueError(f"key_padding_mask is {tuple(key_padding_mask.shape)}, Q {tuple(Q.shape)}, K {tuple(K.shape)}")
        bias = bias.masked_fill(key_padding_mask.view(Q.size(0), *[1] * (Q.dim() - 2), K.size(-2)), -math.inf)
        dead = bias.amax(-1, keepdim=True) == -math.inf
        bias = bias.masked_fill(dead, 0.0)
    out = F.scaled_dot_product_attention(Q, K, V, attn_mask=bias)
    return out if dead is None else torch.where(dead, torch.zeros_like(out), out)
