from torch import nn

from .helpers import refuse
from .masking import masked_attention


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if num_heads <= 0 or d_model % num_heads != 0:
            raise ValueError(f"num_heads={num_heads} does not divide d_model={d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def _split(self, t):
        batch, length, width = t.shape
        return t.reshape(batch, length, self.num_heads, width // self.num_heads).permute(0, 2, 1, 3)

    def forward(self, x, context=None, *, causal=False, key_padding_mask=None, need_weights=False):
        if context is None:
            context = x
        width = self.W_q.in_features
        if x.ndim not in (2, 3) or x.shape[-1] != width:
            refuse("x", f"must be (B, L, {width}) or (L, {width})", x)
        if context.ndim != x.ndim or context.shape[-1] != width or context.shape[:-2] != x.shape[:-2]:
            refuse("context", "does not fit to x", context, x)
        if causal and x.shape[-2] != context.shape[-2]:
            refuse("causal", "x and context have different lengths", x, context)
        if key_padding_mask is not None and key_padding_mask.shape != context.shape[:-1]:
            refuse("key_padding_mask", "does not fit to the keys", key_padding_mask, context)

        single = x.ndim == 2
        if single:
            x, context = x.unsqueeze(0), context.unsqueeze(0)
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        out, weights = masked_attention(
            self._split(self.W_q(x)), self._split(self.W_k(context)), self._split(self.W_v(context)), key_padding_mask, causal
        )
        out = self.W_o(out.permute(0, 2, 1, 3).flatten(2))
        if single:
            out, weights = out[0], weights[0]
        return (out, weights) if need_weights else out
