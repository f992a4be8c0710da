"""Part 3 with the heads folded into the batch and everything written again, instead of calling part 2."""
import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if num_heads <= 0:
            raise ValueError(f"num_heads is {num_heads} and has to be positive")
        if d_model % num_heads:
            raise ValueError(f"num_heads {num_heads} does not divide d_model {d_model}")
        self.d_model = d_model
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        for name in ("W_q", "W_k", "W_v", "W_o"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=False))

    def fold(self, t):
        # (B, L, d_model) -> (B * H, L, head_dim)
        b, n, _ = t.shape
        return t.reshape(b, n, self.num_heads, self.head_dim).permute(0, 2, 1, 3).reshape(-1, n, self.head_dim)

    def forward(self, x, context=None, *, causal=False, key_padding_mask=None, need_weights=False):
        kv = x if context is None else context
        if x.dim() not in (2, 3) or kv.dim() != x.dim():
            raise ValueError(f"x is {tuple(x.shape)} and context is {tuple(kv.shape)}")
        if x.size(-1) != self.d_model or kv.size(-1) != self.d_model or x.shape[:-2] != kv.shape[:-2]:
            raise ValueError(f"x is {tuple(x.shape)} and context is {tuple(kv.shape)}, the width is {self.d_model}")
        if key_padding_mask is not None:
            if key_padding_mask.dtype != torch.bool:
                raise TypeError(f"key_padding_mask is {key_padding_mask.dtype}, not bool")
            if key_padding_mask.shape != kv.shape[:-1]:
                raise ValueError(f"key_padding_mask is {tuple(key_padding_mask.shape)} for a context of {tuple(kv.shape)}")
        if causal and x.size(-2) != kv.size(-2):
            raise ValueError(f"causal: x is {tuple(x.shape)} and context is {tuple(kv.shape)}")

        if x.dim() == 2:
            mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
            out, w = self.attend(x.unsqueeze(0), kv.unsqueeze(0), causal, mask)
            out, w = out.squeeze(0), w.squeeze(0)
        else:
            out, w = self.attend(x, kv, causal, key_padding_mask)
        if need_weights:
            return out, w
        return out

    def attend(self, x, kv, causal, mask):
        b, lq, lk = x.size(0), x.size(1), kv.size(1)
        q, k, v = self.fold(self.W_q(x)), self.fold(self.W_k(kv)), self.fold(self.W_v(kv))
        s = torch.bmm(q * self.head_dim ** -0.5, k.transpose(1, 2))
        blocked = torch.zeros(b, lq, lk, dtype=torch.bool, device=x.device)
        if causal:
            blocked = blocked | torch.triu(torch.ones(lq, lk, dtype=torch.bool, device=x.device), 1)
        if mask is not None:
            blocked = blocked | mask.unsqueeze(1)
        blocked = blocked.repeat_interleave(self.num_heads, dim=0)
        dead = blocked.all(dim=2, keepdim=True)
        s = s.masked_fill(blocked & ~dead, float("-inf")).masked_fill(dead, 0.0)
        w = torch.softmax(s, dim=2).masked_fill(dead, 0.0)
        out = torch.bmm(w, v).reshape(b, self.num_heads, lq, self.head_dim).transpose(1, 2).reshape(b, lq, self.d_model)
        return self.W_o(out), w.reshape(b, self.num_heads, lq, lk)
