"""Part 8 written rightly in five other ways. `test_styles_4_8.py` holds the checks to them: none loses a point."""

_ERRORS = """
import math
import torch


def check(Q, K, V, causal, block_size):
    got = f"Q {tuple(Q.shape)}, K {tuple(K.shape)}, V {tuple(V.shape)}"
    if Q.shape[-1] != K.shape[-1] or K.shape[-2] != V.shape[-2]:
        raise ValueError("shapes do not fit: " + got)
    if causal and Q.shape[-2] != K.shape[-2]:
        raise ValueError("causal needs as many queries as keys: " + got)
    if block_size < 1:
        raise ValueError(f"block_size is {block_size} and must be positive")
"""

TWO_PASSES = (
    _ERRORS
    + '''
def scores_of(Q, K, start, block_size, causal):
    s = Q @ K[..., start : start + block_size, :].transpose(-1, -2) / math.sqrt(Q.shape[-1])
    if causal:
        j = torch.arange(start, start + s.shape[-1], device=Q.device)
        s = s.masked_fill(j[None, :] > torch.arange(Q.shape[-2], device=Q.device)[:, None], -math.inf)
    return s


def streaming_attention(Q, K, V, causal=False, block_size=64):
    """First the logarithm of each row's sum of exponentials, then the weighted values."""
    check(Q, K, V, causal, block_size)
    starts = range(0, K.shape[-2], block_size)
    norm = None
    for start in starts:
        part = scores_of(Q, K, start, block_size, causal).logsumexp(-1, keepdim=True)
        norm = part if norm is None else torch.logaddexp(norm, part)
    out = 0.0
    for start in starts:
        weights = (scores_of(Q, K, start, block_size, causal) - norm).exp()
        out = out + weights @ V[..., start : start + block_size, :]
    return out
'''
)

MERGED_PARTIALS = (
    _ERRORS
    + '''
def streaming_attention(Q, K, V, causal=False, block_size=64):
    """A softmax in each block by itself; at the end a softmax over the blocks of their logarithms of sums."""
    check(Q, K, V, causal, block_size)
    outs, logs = [], []
    for start, (k, v) in enumerate(zip(K.split(block_size, -2), V.split(block_size, -2))):
        s = torch.einsum("...qd,...kd->...qk", Q * Q.shape[-1] ** -0.5, k)
        if causal:
            hide = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1 - start * block_size)
            s = s.masked_fill(hide, torch.finfo(s.dtype).min)
        outs.append(torch.softmax(s, -1) @ v)
        logs.append(s.logsumexp(-1))
    share = torch.softmax(torch.stack(logs, -1), -1)
    return sum(out * w.unsqueeze(-1) for out, w in zip(outs, share.unbind(-1)))
'''
)

RIGHT_TO_LEFT = (
    _ERRORS
    + '''
def streaming_attention(Q, K, V, causal=False, block_size=64):
    """The last block first: under the causal mask it is hidden from most queries, and they begin with nothing."""
    check(Q, K, V, causal, block_size)
    n, m = Q.shape[-2], K.shape[-2]
    half = Q.dtype in (torch.float16, torch.bfloat16)
    q, k, v = (t.float() if half else t for t in (Q, K, V))
    i = torch.arange(n, device=Q.device).unsqueeze(-1)
    top = total = blend = None
    for start in reversed(range(0, m, block_size)):
        stop = min(start + block_size, m)
        s = torch.matmul(q, k[..., start:stop, :].mT).div(q.shape[-1] ** 0.5)
        if causal:
            s = torch.where(torch.arange(start, stop, device=Q.device) <= i, s, -torch.inf)
        new = s.amax(-1, keepdim=True) if top is None else torch.maximum(top, s.amax(-1, keepdim=True))
        safe = torch.where(new == -torch.inf, 0.0, new).detach()
        p = (s - safe).exp()
        if top is None:
            total, blend = p.sum(-1, keepdim=True), p @ v[..., start:stop, :]
        else:
            old = (top - safe).exp()
            total, blend = total * old + p.sum(-1, keepdim=True), blend * old + p @ v[..., start:stop, :]
        top = new.detach()
    return (blend / total).to(Q.dtype)
'''
)

ALWAYS_NORMALISED = (
    _ERRORS
    + '''
def streaming_attention(Q, K, V, causal=False, block_size=64):
    """The output so far and the logarithm of its sum; each block is mixed in with the weight that is due to it."""
    check(Q, K, V, causal, block_size)
    done, log_done = None, None
    position = torch.arange(K.size(-2), device=Q.device)
    for j, k, v in zip(position.split(block_size), K.split(block_size, dim=-2), V.split(block_size, dim=-2)):
        s = (Q / Q.size(-1) ** 0.25) @ (k / k.size(-1) ** 0.25).transpose(-2, -1)
        if causal:
            s = s.masked_fill(j > position[:, None], torch.finfo(s.dtype).min / 4)
        log_block = s.logsumexp(-1, keepdim=True)
        block = torch.softmax(s, dim=-1) @ v
        if done is None:
            done, log_done = block, log_block
        else:
            share = torch.sigmoid(log_block - log_done)
            done = done * (1 - share) + block * share
            log_done = torch.logaddexp(log_done, log_block)
    return done
'''
)

BLOCKS_OF_QUERIES_TOO = (
    _ERRORS
    + '''
def row_block(q, first, K, V, causal, block_size):
    m = torch.full((*q.shape[:-1], 1), float("-inf"), dtype=q.dtype, device=q.device)
    l, acc = torch.zeros_like(m), 0
    for start in range(0, K.shape[-2], block_size):
        s = q @ K[..., start : start + block_size, :].transpose(-2, -1)
        if causal:
            i, j = (torch.arange(n, device=q.device) for n in s.shape[-2:])
            s.masked_fill_(j + start > i[:, None] + first, float("-inf"))
        new = torch.maximum(m, s.max(-1, keepdim=True).values)
        p, scale = torch.exp(s - new), torch.exp(m - new)
        l, acc, m = l * scale + p.sum(-1, keepdim=True), acc * scale + p @ V[..., start : start + block_size, :], new
    return acc / l


def streaming_attention(Q, K, V, causal=False, block_size=64):
    """As FlashAttention does it: blocks of queries, and for each of them blocks of keys."""
    check(Q, K, V, causal, block_size)
    scaled = Q * (1 / math.sqrt(Q.shape[-1]))
    rows = [row_block(scaled[..., i : i + block_size, :], i, K, V, causal, block_size) for i in range(0, Q.shape[-2], block_size)]
    return torch.cat(rows, dim=-2)
'''
)

STYLES = {
    "two_passes": TWO_PASSES,
    "merged_partials": MERGED_PARTIALS,
    "right_to_left": RIGHT_TO_LEFT,
    "always_normalised": ALWAYS_NORMALISED,
    "blocks_of_queries_too": BLOCKS_OF_QUERIES_TOO,
}
