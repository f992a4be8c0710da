"""What must come out, from torch's own library in float64; where the library is wrong (a row that sees no key), the contract.

Weights are had from the fused call, which returns none, with an identity matrix for values: the output then *is* the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel


def forbidden_pairs(L_q: int, L_k: int, key_padding_mask: Tensor | None = None, causal: bool = False, lead: int = 1) -> Tensor:
    """True = query i may not see key j: (L_q, L_k), or under padding (B, 1, …, L_q, L_k) with `lead` leading dimensions."""
    future = torch.arange(L_k)[None, :] > torch.arange(L_q)[:, None] if causal else torch.zeros(L_q, L_k, dtype=torch.bool)
    if key_padding_mask is None:
        return future
    items = key_padding_mask.shape[0]
    return key_padding_mask.reshape(items, *[1] * lead, L_k) | future


def attention(
    Q: Tensor, K: Tensor, V: Tensor, key_padding_mask: Tensor | None = None, causal: bool = False
) -> tuple[Tensor, Tensor]:
    """`F.scaled_dot_product_attention` in float64: output (..., L_q, d_v) and weights (..., L_q, L_k). Differentiable."""
    lead = torch.broadcast_shapes(Q.shape[:-2], K.shape[:-2], V.shape[:-2])
    query, key, value = (each.double().expand(*lead, *each.shape[-2:]) for each in (Q, K, V))
    L_q, L_k = Q.shape[-2], K.shape[-2]
    may_see = forbidden_pairs(L_q, L_k, key_padding_mask, causal, lead=len(lead)).logical_not()
    one_hot = torch.eye(L_k, dtype=torch.float64).expand(*lead, L_k, L_k)
    with sdpa_kernel(SDPBackend.MATH):  # the one whose gradients are zero, not NaN, where a row sees nothing
        output = F.scaled_dot_product_attention(query, key, value, may_see)
        weights = F.scaled_dot_product_attention(query, key, one_hot, may_see)
    return output, weights


def multi_head(
    weights: Mapping[str, Tensor], num_heads: int, x: Tensor, context: Tensor | None = None, **masks: Tensor | bool | None
) -> tuple[Tensor, Tensor]:
    """The library's layer with these projections on x (B, L_q, d_model): output, and weights (B, H, L_q, L_k), in float64.

    `nn.MultiheadAttention` answers wherever every row sees a key. It gives NaN for a row that sees none, so then the fused
    call answers between the same projections.
    """
    key_padding_mask, causal = masks.get("key_padding_mask"), bool(masks.get("causal"))
    assert key_padding_mask is None or isinstance(key_padding_mask, Tensor)
    source = x if context is None else context
    forbidden = forbidden_pairs(x.shape[-2], source.shape[-2], key_padding_mask, causal)
    if forbidden.all(-1).any():
        return _around_fused_call(weights, num_heads, x, source, key_padding_mask, causal)
    width = x.shape[-1]
    layer = nn.MultiheadAttention(width, num_heads, bias=False, batch_first=True, dtype=torch.float64)
    named = {
        "in_proj_weight": torch.cat([weights[name].double() for name in ("W_q", "W_k", "W_v")]),
        "out_proj.weight": weights["W_o"].double(),
    }
    inputs = (x.double(), source.double(), source.double())
    options = {
        "key_padding_mask": key_padding_mask,
        "attn_mask": forbidden_pairs(x.shape[-2], source.shape[-2], causal=True) if causal else None,
        "average_attn_weights": False,
    }
    output, per_head = torch.func.functional_call(layer, named, inputs, options)
    return output, per_head


def _around_fused_call(
    weights: Mapping[str, Tensor], num_heads: int, x: Tensor, source: Tensor, key_padding_mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    def heads(name: str, sequence: Tensor) -> Tensor:
        projected: Tensor = F.linear(sequence.double(), weights[name].double()).unflatten(-1, (num_heads, -1))
        return projected.movedim(-2, -3)

    blended, per_head = attention(heads("W_q", x), heads("W_k", source), heads("W_v", source), key_padding_mask, causal)
    return F.linear(blended.movedim(-3, -2).flatten(-2), weights["W_o"].double()), per_head


def gradients(function: Callable[..., Tensor], inputs: Mapping[str, Tensor], upstream: Tensor) -> dict[str, Tensor]:
    """Gradients of `<upstream, function(**inputs)>` by input, in float64."""
    leaves = {name: value.detach().double().requires_grad_() for name, value in inputs.items()}
    with torch.enable_grad():  # on a student's desk their code runs in this process, and may have left it off
        found = torch.autograd.grad(function(**leaves), list(leaves.values()), upstream.double())
    return dict(zip(leaves, found, strict=True))
