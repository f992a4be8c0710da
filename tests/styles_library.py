"""Part 4 written rightly in five other ways. `test_styles_4_8.py` holds the checks to them: none loses a point."""

_ERRORS = """
import math
import torch, torch.nn.functional as F
from torch import nn


def check(Q, K, V, mask, causal):
    got = f"Q {tuple(Q.shape)}, K {tuple(K.shape)}, V {tuple(V.shape)}"
    if Q.shape[-1] != K.shape[-1] or K.shape[-2] != V.shape[-2]:
        raise ValueError("shapes do not fit: " + got)
    if causal and Q.shape[-2] != K.shape[-2]:
        raise ValueError("causal needs as many queries as keys: " + got)
    if mask is not None:
        if mask.dtype != torch.bool:
            raise TypeError(f"key_padding_mask is {mask.dtype}")
        if Q.dim() < 3 or tuple(mask.shape) != (Q.shape[0], K.shape[-2]):
            raise ValueError(f"key_padding_mask is {tuple(mask.shape)}; {got}")
"""

SLICES = (
    _ERRORS
    + """
def to_library(mha):
    d = mha.W_q.weight.shape[0]
    lib = nn.MultiheadAttention(d, mha.num_heads, dropout=0.0, bias=False, batch_first=True)
    lib = lib.to(device=mha.W_q.weight.device, dtype=mha.W_q.weight.dtype)
    for i, linear in enumerate((mha.W_q, mha.W_k, mha.W_v)):
        lib.in_proj_weight.data[i * d : (i + 1) * d] = linear.weight.data
    lib.out_proj.weight.data[:] = mha.W_o.weight.data
    lib.training = mha.training
    return lib


def library_difference(mha, x, causal=False, key_padding_mask=None):
    with torch.no_grad():
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[-2], device=x.device, dtype=x.dtype) if causal else None
        lib, weights = to_library(mha)(x, x, x, key_padding_mask=key_padding_mask, attn_mask=mask)
        own, _ = mha(x, None, causal=causal, key_padding_mask=key_padding_mask, need_weights=True)
        if key_padding_mask is not None:
            lib, own = lib[~key_padding_mask], own[~key_padding_mask]
        if torch.isnan(lib).any() or torch.isnan(own).any():
            return math.inf
        return torch.linalg.vector_norm(lib - own, ord=math.inf).item()


def fused_attention(Q, K, V, key_padding_mask=None, causal=False):
    check(Q, K, V, key_padding_mask, causal)
    keep = torch.ones(Q.shape[-2], K.shape[-2], dtype=torch.bool, device=Q.device)
    if causal:
        keep = keep.tril()
    if key_padding_mask is not None:
        keep = keep & ~key_padding_mask[(slice(None), *[None] * (Q.dim() - 2))]
    alive = keep.any(-1, keepdim=True)
    out = F.scaled_dot_product_attention(Q, K, V, attn_mask=torch.where(alive, keep, True))
    return torch.where(alive, out, 0.0)
"""
)

PARAMETERS = (
    _ERRORS
    + """
def to_library(mha):
    lib = nn.MultiheadAttention(
        mha.W_q.size(1), mha.num_heads, bias=False, batch_first=True, device=mha.W_q.device, dtype=mha.W_q.dtype
    )
    with torch.no_grad():
        lib.in_proj_weight.set_(torch.cat([mha.W_q, mha.W_k, mha.W_v]))
        lib.out_proj.weight.set_(mha.W_o.clone())
    lib.train(mha.training)
    return lib


@torch.inference_mode()
def library_difference(mha, x, causal=False, key_padding_mask=None):
    n = x.size(-2)
    position = torch.arange(n, device=x.device)
    mask = position[None] > position[:, None] if causal else None
    lib = to_library(mha)(x, x, x, key_padding_mask=key_padding_mask, attn_mask=mask, average_attn_weights=False)[0]
    gap = mha(x, causal=causal, key_padding_mask=key_padding_mask).sub(lib).abs()
    if key_padding_mask is not None:
        gap = torch.where(key_padding_mask[..., None], torch.zeros_like(gap), gap)
    worst = gap.max().item()
    return math.inf if math.isnan(worst) else worst


def fused_attention(Q, K, V, key_padding_mask=None, causal=False):
    check(Q, K, V, key_padding_mask, causal)
    hide = torch.zeros(Q.size(-2), K.size(-2), dtype=torch.bool, device=Q.device)
    if causal:
        hide = torch.triu(torch.ones_like(hide), 1)
    if key_padding_mask is not None:
        hide = hide | key_padding_mask.view(-1, *(1 for _ in Q.shape[1:-1]), K.size(-2))
    blind = hide.all(-1, keepdim=True)
    bias = torch.zeros(hide.shape, dtype=Q.dtype, device=Q.device).masked_fill(hide & ~blind, -math.inf)
    return F.scaled_dot_product_attention(Q, K, V, attn_mask=bias) * blind.logical_not()
"""
)

FUNCTIONAL = (
    _ERRORS
    + """
class Same(nn.MultiheadAttention):
    def __init__(self, mha):
        weight = mha.W_q.weight
        super().__init__(len(weight), mha.num_heads, bias=False, batch_first=True, device=weight.device, dtype=weight.dtype)
        packed = torch.stack([each.weight.detach() for each in (mha.W_q, mha.W_k, mha.W_v)]).flatten(0, 1)
        self.load_state_dict({"in_proj_weight": packed, "out_proj.weight": mha.W_o.weight.detach()})
        self.train(mha.training)


def to_library(mha):
    return Same(mha)


def library_difference(mha, x, causal=False, key_padding_mask=None):
    with torch.no_grad():
        if x.dim() == 2:
            mask = None if key_padding_mask is None else key_padding_mask[None]
            return library_difference(mha, x[None], causal, mask)
        mask = torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1).bool() if causal else None
        theirs = to_library(mha).forward(x, x, x, key_padding_mask, True, mask)[0]
        ours = mha(x, x, causal=causal, key_padding_mask=key_padding_mask)
        real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if key_padding_mask is None else ~key_padding_mask
        worst = 0.0
        for a, b, keep in zip(ours, theirs, real):
            if keep.any():
                gap = (a[keep] - b[keep]).abs()
                if gap.isnan().any():
                    return float("inf")
                worst = max(worst, float(gap.max()))
        return worst


def fused_attention(Q, K, V, key_padding_mask=None, causal=False):
    check(Q, K, V, key_padding_mask, causal)
    if key_padding_mask is None:
        return F.scaled_dot_product_attention(Q, K, V, is_causal=causal, scale=Q.shape[-1] ** -0.5)
    shape = (Q.shape[0],) + (1,) * (Q.dim() - 2) + (K.shape[-2],)
    attend = torch.logical_not(key_padding_mask).reshape(shape)
    if causal:
        i = torch.arange(Q.shape[-2], device=Q.device)
        attend = torch.logical_and(attend, i[:, None] >= i)
    dead = attend.sum(-1, keepdim=True) == 0
    return F.scaled_dot_product_attention(Q, K, V, attn_mask=attend.logical_or(dead)).masked_fill(dead, 0)
"""
)

DEEP_COPY = (
    _ERRORS
    + """
import copy


def to_library(mha):
    own = copy.deepcopy(mha)
    lib = nn.MultiheadAttention(own.W_o.in_features, own.num_heads, bias=False, batch_first=True)
    lib.in_proj_weight = nn.Parameter(torch.vstack([own.W_q.weight, own.W_k.weight, own.W_v.weight]))
    lib.out_proj = own.W_o
    return lib.train() if mha.training else lib.eval()


def library_difference(mha, x, causal=False, key_padding_mask=None):
    previous = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    try:
        forbidden = torch.triu(x.new_ones(x.shape[-2], x.shape[-2]), 1) > 0 if causal else None
        options = dict(key_padding_mask=key_padding_mask, attn_mask=forbidden, need_weights=False, is_causal=causal)
        lib = to_library(mha)(x, x, x, **options)[0].double()
        own = mha(x, causal=causal, key_padding_mask=key_padding_mask).double()
    finally:
        torch.set_grad_enabled(previous)
    gap = (own - lib).abs().nan_to_num(nan=math.inf, posinf=math.inf)
    if key_padding_mask is not None:
        gap = gap * 0 if key_padding_mask.all() else gap[key_padding_mask == False]
    return gap.flatten().tolist() and max(gap.flatten().tolist())


def fused_attention(Q, K, V, key_padding_mask=None, causal=False):
    check(Q, K, V, key_padding_mask, causal)
    B, L_q, L_k = Q.shape[0], Q.shape[-2], K.shape[-2]
    see = torch.ones((L_q, L_k), dtype=torch.bool, device=Q.device)
    see = see.tril() if causal else see
    if key_padding_mask is not None:
        see = see.expand(B, L_q, L_k) & ~key_padding_mask.unsqueeze(1)
        see = see.reshape(B, *[1] * (Q.ndim - 3), L_q, L_k)
    none = ~see.any(-1)
    see = see | none.unsqueeze(-1)
    return F.scaled_dot_product_attention(Q, K, V, see).masked_fill(none.unsqueeze(-1), 0.0)
"""
)

FOLDED = (
    _ERRORS
    + """
def to_library(mha):
    weights = mha.state_dict()
    lib = nn.MultiheadAttention(weights["W_q.weight"].shape[1], mha.num_heads, 0.0, False, batch_first=True)
    lib.to(weights["W_q.weight"].device, weights["W_q.weight"].dtype).train(mha.training)
    with torch.no_grad():
        for part, name in zip(lib.in_proj_weight.chunk(3), "qkv"):
            part.copy_(weights[f"W_{name}.weight"])
        nn.init.zeros_(lib.out_proj.weight).add_(weights["W_o.weight"])
    return lib


def library_difference(mha, x, causal=False, key_padding_mask=None):
    with torch.no_grad():
        lib, other = to_library(mha), (lambda t: t)
        ours = mha(x, causal=causal, key_padding_mask=key_padding_mask)
        n = x.shape[-2]
        mask = torch.tril(torch.ones((n, n), dtype=torch.bool, device=x.device)).logical_not() if causal else None
        theirs = lib(query=x, key=x, value=x, key_padding_mask=key_padding_mask, attn_mask=mask)[0]
    differences = (ours - theirs).abs().max(dim=-1).values
    if key_padding_mask is not None:
        differences = differences.masked_select(key_padding_mask.logical_not())
    if not differences.numel():
        return 0.0
    return float("inf") if not (differences == differences).all() else float(differences.amax())


def fused_attention(Q, K, V, key_padding_mask=None, causal=False):
    check(Q, K, V, key_padding_mask, causal)
    lead = torch.broadcast_shapes(Q.shape[:-2], K.shape[:-2], V.shape[:-2])
    fold = lambda t: t.expand(*lead, *t.shape[-2:]).reshape(-1, 1, *t.shape[-2:])
    L_q, L_k = Q.shape[-2], K.shape[-2]
    bias = torch.zeros(L_q, L_k, dtype=Q.dtype, device=Q.device)
    if causal:
        bias = bias.masked_fill(torch.ones(L_q, L_k, device=Q.device).triu(1) == 1, torch.finfo(Q.dtype).min / 2)
    if key_padding_mask is not None:
        padding = torch.zeros(key_padding_mask.shape, dtype=Q.dtype, device=Q.device)
        padding = padding.masked_fill(key_padding_mask, torch.finfo(Q.dtype).min / 2)
        padding = padding.reshape(-1, *[1] * (len(lead) - 1), 1, L_k).expand(*lead, 1, L_k).reshape(-1, 1, 1, L_k)
        bias = bias + padding
    out = F.scaled_dot_product_attention(fold(Q), fold(K), fold(V), attn_mask=bias)
    dead = (bias < torch.finfo(Q.dtype).min / 4).all(-1, keepdim=True)
    return out.masked_fill(dead, 0.0).reshape(*lead, L_q, V.shape[-1])
"""
)

STYLES = {
    "slices": SLICES,
    "parameters": PARAMETERS,
    "functional": FUNCTIONAL,
    "deep_copy": DEEP_COPY,
    "folded": FOLDED,
}
