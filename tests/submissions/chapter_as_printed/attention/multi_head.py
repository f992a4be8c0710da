import torch
import torch.nn.functional as F
import torch.nn as nn

class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.h, self.d_k = num_heads, d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=False)  # packs all heads' W^Q
        self.W_k = nn.Linear(d_model, d_model, bias=False)
        self.W_v = nn.Linear(d_model, d_model, bias=False)
        self.W_o = nn.Linear(d_model, d_model, bias=False)  # final mix across heads

    def forward(self, x, causal=False):
        L, d_model = x.shape
        def split(t):                                       # (L, d_model) -> (h, L, d_k)
            return t.view(L, self.h, self.d_k).transpose(0, 1)
        Q, K, V = split(self.W_q(x)), split(self.W_k(x)), split(self.W_v(x))
        scores = Q @ K.transpose(-2, -1) / (self.d_k ** 0.5)   # (h, L, L), all heads at once
        if causal:
            mask = torch.triu(torch.ones(L, L), diagonal=1).bool()
            scores = scores.masked_fill(mask, float("-inf"))
        ctx = F.softmax(scores, dim=-1) @ V                    # (h, L, d_k) per-head outputs
        ctx = ctx.transpose(0, 1).reshape(L, d_model)          # concatenate the heads
        return self.W_o(ctx)                                   # (L, d_model)
