import torch
import torch.nn.functional as F

def scaled_dot_product_attention(Q, K, V, causal=False):
    """One head of attention: softmax(Q K^T / sqrt(d_k)) V.
    Q, K, V have shape (L, d_k). Returns (output (L, d_v), weights (L, L))."""
    d_k = Q.shape[-1]
    scores = Q @ K.transpose(-2, -1) / (d_k ** 0.5)   # (L, L) scaled scores
    if causal:                                         # forbid attending to the future
        L = scores.shape[-1]
        mask = torch.triu(torch.ones(L, L), diagonal=1).bool()  # strict upper triangle
        scores = scores.masked_fill(mask, float("-inf"))        # -inf -> 0 after softmax
    weights = F.softmax(scores, dim=-1)                # (L, L) rows sum to 1
    return weights @ V, weights                        # weighted average of values
