import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if num_heads < 1 or d_model % num_heads != 0:
            raise ValueError(f"num_heads={num_heads} must be positive and divide d_model={d_model}")
        self.num_heads, self.d_k = num_heads, d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, d_model, bias=False)
        self.W_v = nn.Linear(d_model, d_model, bias=False)
        self.W_o = nn.Linear(d_model, d_model, bias=False)

    def split(self, t):
        # (B, L, d_model) -> (B, h, L, d_k)
        B, L, _ = t.shape
        return t.reshape(B, L, self.num_heads, self.d_k).transpose(1, 2)

    def forward(self, x, context=None, *, causal=False, key_padding_mask=None, need_weights=False):
        if context is None:
            context = x
        d_model = self.num_heads * self.d_k
        if x.shape[-1] != d_model or context.shape[-1] != d_model:
            raise ValueError(f"width must be {d_model}: x is {tuple(x.shape)}, context is {tuple(context.shape)}")
        if x.dim() not in (2, 3) or x.shape[:-2] != context.shape[:-2]:
            raise ValueError(f"x is {tuple(x.shape)}, context is {tuple(context.shape)}: ranks or batches differ")
        if causal and x.shape[-2] != context.shape[-2]:
            raise ValueError(f"causal needs L_q == L_k: x is {tuple(x.shape)}, context is {tuple(context.shape)}")
        if key_padding_mask is not None:
            if key_padding_mask.dtype != torch.bool:
                raise ValueError(f"key_padding_mask must be bool, got {key_padding_mask.dtype}")
            if key_padding_mask.shape != context.shape[:-1]:
                raise ValueError(f"key_padding_mask is {tuple(key_padding_mask.shape)}, context is {tuple(context.shape)}")

        batched = x.dim() == 3
        if not batched:
            x, context = x.unsqueeze(0), context.unsqueeze(0)
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        B, L_q, _ = x.shape
        L_k = context.shape[1]

        Q, K, V = self.split(self.W_q(x)), self.split(self.W_k(context)), self.split(self.W_v(context))
        scores = Q @ K.transpose(-2, -1) / (self.d_k ** 0.5)          # (B, h, L_q, L_k)
        mask = torch.zeros(B, 1, L_q, L_k, dtype=torch.bool, device=x.device)
        if causal:
            mask = mask | torch.ones(L_q, L_k, dtype=torch.bool, device=x.device).triu(1)
        if key_padding_mask is not None:
            mask = mask | key_padding_mask[:, None, None, :]
        scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
        weights = F.softmax(scores, dim=-1).masked_fill(mask, 0.0)    # rows without a key become 0
        out = (weights @ V).transpose(1, 2).reshape(B, L_q, d_model)
        out = self.W_o(out)
        if not batched:
            out, weights = out.squeeze(0), weights.squeeze(0)
        return (out, weights) if need_weights else out
