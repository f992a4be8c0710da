"""Multi-head attention on top of part 2."""
from torch import nn

from .masking import masked_attention


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert num_heads > 0 and d_model % num_heads == 0, f"{num_heads} heads do not divide {d_model}"
        self.num_heads = num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, d_model, bias=False)
        self.W_v = nn.Linear(d_model, d_model, bias=False)
        self.W_o = nn.Linear(d_model, d_model, bias=False)

    def heads(self, t):
        return t.unflatten(-1, (self.num_heads, -1)).movedim(-2, 1)

    def forward(self, x, context=None, *, causal=False, key_padding_mask=None, need_weights=False):
        context = x if context is None else context
        width = self.W_q.in_features
        for name, t in (("x", x), ("context", context)):
            if t.dim() not in (2, 3) or t.size(-1) != width:
                raise ValueError(f"{name} is {tuple(t.shape)}, its last dimension must be {width}")
        if x.shape[:-2] != context.shape[:-2]:
            raise ValueError(f"x is {tuple(x.shape)} but context is {tuple(context.shape)}")
        if key_padding_mask is not None and key_padding_mask.shape != context.shape[:-1]:
            raise ValueError(f"key_padding_mask is {tuple(key_padding_mask.shape)} but context is {tuple(context.shape)}")
        if x.dim() == 2:
            mask = key_padding_mask[None] if key_padding_mask is not None else None
            out, w = self.forward(x[None], context[None], causal=causal, key_padding_mask=mask, need_weights=True)
            return (out[0], w[0]) if need_weights else out[0]
        q, k, v = self.heads(self.W_q(x)), self.heads(self.W_k(context)), self.heads(self.W_v(context))
        out, w = masked_attention(q, k, v, key_padding_mask=key_padding_mask, causal=causal)
        out = self.W_o(out.movedim(1, -2).flatten(-2))
        return (out, w) if need_weights else out
