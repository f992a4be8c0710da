"""The library's attention earns nothing, in whatever way it is called: in the sandbox its kernels are not there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from autograder.grading import layout
from autograder.sandbox.client import Sandbox
from autograder.sandbox.confinement import Limits
from checks.calls import Call
from checks.errors import StudentRaised

from .support import MANIFEST

PART = MANIFEST.part("scaled_dot_product")
BODIES = {
    "by its name": "F.scaled_dot_product_attention(Q, K, V)",
    "by the operator": "torch.ops.aten.scaled_dot_product_attention(Q, K, V)",
    "by the kernel": "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(Q, K, V)[0]",
    "in a thread": "in_thread(lambda: F.scaled_dot_product_attention(Q, K, V))",
    "with the modes switched off": "unwatched(lambda: F.scaled_dot_product_attention(Q, K, V))",
    "in TorchScript": "scripted(Q, K, V)",
    "as a layer": "nn.MultiheadAttention(4, 2, batch_first=True)(Q[0], K[0], V[0])[0]",
    "as a layer, in a thread": "in_thread(lambda: nn.MultiheadAttention(4, 2, batch_first=True)(Q[0], K[0], V[0])[0])",
    "as a layer in eval mode": "nn.MultiheadAttention(4, 2, batch_first=True).eval()(Q[0], K[0], V[0], need_weights=False)[0]",
    "as a whole encoder": "in_thread(lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()(Q[0]))",
}
HEADER = """
import threading, torch
from torch import nn
import torch.nn.functional as F

@torch.jit.ignore
def in_thread(body):
    found = []
    thread = threading.Thread(target=lambda: found.append(body()))
    thread.start()
    thread.join()
    return found[0]

def unwatched(body):
    with torch._C.DisableTorchFunction():
        return body()
"""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as opened:
        yield opened


def call(sandbox: Sandbox, text: str) -> object:
    Q, K, V = (torch.randn(2, 3, 5, 4) for _ in range(3))
    limits = Limits(PART.limits.seconds, PART.limits.memory_mib)
    with sandbox.session({PART.file: HEADER + text}, layout(MANIFEST, PART), limits, 0) as transport:
        return transport.perform(Call("scaled_dot_product_attention", (Q, K, V))).value


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_ready_made_attention_answers_nothing(sandbox: Sandbox, body: str) -> None:
    script = "torch.jit.CompilationUnit('def f(q, k, v):\\n    return torch._C._nn.scaled_dot_product_attention(q, k, v)\\n').f"
    text = f"def scaled_dot_product_attention(Q, K, V, causal=False):\n    scripted = {script}\n    return {body}, None\n"
    if body != BODIES["in TorchScript"]:
        text = text.replace(f"    scripted = {script}\n", "")
    told = "IndexError" if "thread" in body or "encoder" in body.lower() else "ready-made attention"  # a thread ends by itself
    with pytest.raises(StudentRaised, match=told):
        call(sandbox, text)


def test_ordinary_operations_are_left_alone(sandbox: Sandbox) -> None:
    body = "torch.softmax(Q @ K.mT, -1) @ V, F.softmax(Q, -1)"
    found = call(sandbox, f"def scaled_dot_product_attention(Q, K, V, causal=False):\n    return {body}\n")
    assert isinstance(found, tuple)
    assert found[0].shape == (2, 3, 5, 4)
