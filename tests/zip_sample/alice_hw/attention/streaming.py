import torch

from .helpers import check_qkv, refuse


def streaming_attention(Q, K, V, causal=False, block_size=64):
    check_qkv(Q, K, V, causal)
    if block_size < 1:
        refuse("block_size", f"is {block_size} and must be at least 1", Q, K)
    scale = Q.shape[-1] ** -0.5
    m, l, o = None, 0.0, 0.0
    for j0 in range(0, K.shape[-2], block_size):
        j1 = min(K.shape[-2], j0 + block_size)
        s = (Q * scale) @ K[..., j0:j1, :].transpose(-2, -1)
        if causal:
            i, j = torch.arange(Q.shape[-2], device=Q.device), torch.arange(j0, j1, device=Q.device)
            s = s.masked_fill(j[None] > i[:, None], -torch.inf)
        top = s.max(dim=-1, keepdim=True)[0]
        new = top if m is None else torch.maximum(m, top)
        a = 0.0 if m is None else torch.exp(m - new)
        p = torch.exp(s - new)
        l = l * a + p.sum(-1, keepdim=True)
        o = o * a + p @ V[..., j0:j1, :]
        m = new
    return o / l
