import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from .helpers import check_qkv, refuse, upper_triangle


def to_library(mha):
    wq, wk, wv, wo = (p.detach() for p in (mha.W_q.weight, mha.W_k.weight, mha.W_v.weight, mha.W_o.weight))
    lib = nn.MultiheadAttention(wq.shape[1], mha.num_heads, bias=False, batch_first=True, device=wq.device, dtype=wq.dtype)
    lib.in_proj_weight = nn.Parameter(torch.cat((wq, wk, wv)))
    lib.out_proj.weight = nn.Parameter(wo.clone())
    lib.train(mha.training)
    return lib


def library_difference(mha, x, causal=False, key_padding_mask=None):
    with torch.inference_mode():
        mine = mha(x, causal=causal, key_padding_mask=key_padding_mask)
        mask = upper_triangle(x.shape[-2], x.device) if causal else None
        theirs = to_library(mha)(x, x, x, key_padding_mask, False, mask)[0]
        worst = 0.0
        gaps = (mine - theirs).abs()
        if key_padding_mask is not None:
            gaps = gaps[key_padding_mask.logical_not()]
        if gaps.numel():
            worst = float(gaps.max())
    return worst if worst == worst else float("inf")


def fused_attention(Q, K, V, key_padding_mask=None, causal=False):
    check_qkv(Q, K, V, causal)
    forbidden = upper_triangle(Q.shape[-2], Q.device) if causal else torch.zeros(Q.shape[-2], K.shape[-2], device=Q.device).bool()
    if key_padding_mask is not None:
        if key_padding_mask.dtype != torch.bool:
            refuse("key_padding_mask", f"is {key_padding_mask.dtype} and must be bool", key_padding_mask)
        if Q.ndim < 3 or tuple(key_padding_mask.shape) != (Q.shape[0], K.shape[-2]):
            refuse("key_padding_mask", "must be (B, L_k)", key_padding_mask, Q, K)
        forbidden = forbidden | key_padding_mask.reshape(Q.shape[0], *[1] * (Q.ndim - 2), K.shape[-2])
    nothing = forbidden.all(-1, keepdim=True)
    output = scaled_dot_product_attention(Q, K, V, (~forbidden).masked_fill(nothing, True))
    return output * (~nothing).to(output.dtype)
