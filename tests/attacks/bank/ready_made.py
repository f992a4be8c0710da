"""Ready-made attention where a student's own is asked for. A rule and no boundary, but every easy way around it is held off."""

from __future__ import annotations

from ..attack import FAILED, FILE, HEADER, PUBLIC, WRONG, Attack

_ROW = "call the library's attention under another name, or where nobody looks"

_WAYS = {
    "by its name": "F.scaled_dot_product_attention(Q, K, V, is_causal=causal)",
    "by an alias": "getattr(torch._C._nn, 'scaled' + '_dot_product_attention')(Q, K, V, is_causal=causal)",
    "by the operator": "torch.ops.aten.scaled_dot_product_attention.default(Q, K, V, None, 0.0, causal)",
    "by the kernel": "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(four(Q), four(K), four(V))[0]",
    "by the kernel of plain products": "torch.ops.aten._scaled_dot_product_attention_math(Q, K, V, None, 0.0, causal)[0]",
    "in a thread": "in_thread(lambda: F.scaled_dot_product_attention(Q, K, V, is_causal=causal))",
    "with modes switched off": "off(lambda: F.scaled_dot_product_attention(Q, K, V, is_causal=causal))",
    "with modes popped": "popped(lambda: F.scaled_dot_product_attention(Q, K, V, is_causal=causal))",
    "in TorchScript": "scripted('torch._C._nn.scaled_dot_product_attention(q, k, v)').f(Q, K, V)",
    "in TorchScript by the operator": "scripted('torch.ops.aten.scaled_dot_product_attention(q, k, v)').f(Q, K, V)",
    "traced": "torch.jit.trace(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), (Q, K, V))(Q, K, V)",
    "in a backward": "in_backward(lambda: F.scaled_dot_product_attention(Q, K, V, is_causal=causal))",
    "in a hook": "hooked(lambda: F.scaled_dot_product_attention(Q, K, V, is_causal=causal))",
    "as a layer": "nn.MultiheadAttention(4, 2, batch_first=True)(*layered)[0]",
    "as a layer in a thread": "in_thread(lambda: nn.MultiheadAttention(4, 2, batch_first=True)(*layered)[0])",
    "as a layer that gives no weights": "in_thread(lambda: nn.MultiheadAttention(4, 2).eval()(*layered, need_weights=False)[0])",
    "as an encoder": "in_thread(lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()(layered[0]))",
    "as a transformer": "in_thread(lambda: nn.Transformer(4, 2, 1, 1, 8)(layered[0], layered[0]))",
    "under vmap": "torch.func.vmap(F.scaled_dot_product_attention)(*[each[None] for each in (Q, K, V)])[0]",
    "by what the kit expects": "sys.modules['checks.expected'].attention(Q, K, V, causal=causal)",
    "by what the kit expects, in a thread": "in_thread(lambda: sys.modules['checks.expected'].attention(Q, K, V))",
    "by what the kit expects of a layer": "sys.modules['checks.expected'].multi_head("
    "dict.fromkeys(('W_q', 'W_k', 'W_v', 'W_o'), torch.eye(4)), 2, layered[0])",
    "by its decomposition": "in_thread(lambda: decomposed()(four(Q), four(Q), four(Q))[0])",
}
# Refused is what the rule refuses: another exception is a mistake of the attack's own, and ends the check as `raised`.
_HEAD = """
import threading
from torch import nn
import torch.nn.functional as F


def four(tensor):
    while tensor.ndim < 4:
        tensor = tensor[None]
    return tensor


def in_thread(body):
    found = []
    def run():
        try:
            found.append(body())
        except BaseException as error:
            found.append(error)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise Refused(repr(found[0]))
    return found[0]


def off(body):
    with torch._C.DisableTorchFunction(), torch._C.DisableTorchFunctionSubclass():
        return body()


def popped(body):
    from torch.overrides import _pop_mode, _push_mode
    kept = []
    while torch._C._len_torch_function_stack():
        kept.append(_pop_mode())
    try:
        return body()
    finally:
        for mode in reversed(kept):
            _push_mode(mode)


def in_backward(body):
    class Late(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x): return x.clone()
        @staticmethod
        def backward(ctx, gradient):
            found.append(body())
            return gradient
    found = []
    with torch.enable_grad():
        Late.apply(torch.ones(1, requires_grad=True)).sum().backward()
    return found[0]


def hooked(body):
    found, x = [], torch.ones(1, requires_grad=True)
    with torch.enable_grad():
        y = x * 2
        y.register_hook(lambda gradient: found.append(body()))
        y.sum().backward()
    return found[0]


def scripted(call):
    return torch.jit.CompilationUnit('def f(q, k, v):\\n    return ' + call + '\\n')


def decomposed():
    from torch._decomp import decomposition_table
    return decomposition_table[torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default]


def scaled_dot_product_attention(Q, K, V, causal=False):
    layered = [torch.ones(2, 3, 4)] * 3
    try:
        with torch.no_grad():
            got = $way
    except Exception as error:
        if 'ReadyMade' not in repr(error) and 'eady-made' not in str(error):
            raise
        return wrong(Q, K, V, causal)
    return right(Q, K, V, causal)
"""


def _way(name: str, way: str, policy: str = "") -> Attack:
    source = HEADER + _HEAD.replace("$way", way)
    return Attack(f"ready-made {name}", _ROW, {FILE: source}, WRONG, FAILED, PUBLIC, policy=policy)


_BY_HAND = "a student owns the process that the rule is kept in"
READY_MADE: tuple[Attack, ...] = (
    *(_way(name, way) for name, way in _WAYS.items()),
    _way(
        "after the rule was taken away",
        "[[each._destroy() for each in __import__('gc').get_objects() if type(each) is torch.library.Library], "
        "in_thread(lambda: F.scaled_dot_product_attention(Q, K, V, is_causal=causal))]",
        _BY_HAND,
    ),
)
