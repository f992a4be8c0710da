"""Part 8's memory is judged by the kernel: what makes the whole matrix fails, whatever it says of itself, and blocks pass."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection, Iterator

import pytest

from autograder.sandbox.client import Sandbox
from autograder.sandbox.confinement import Limits
from checks import run
from checks.calls import Transport
from checks.records import Outcome
from tests.styles_streaming import STYLES
from tests.support import LAYOUT, MANIFEST, all_checks, reference

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="macOS limits no address space")

FILE = "attention/streaming.py"
CHECK = next(check for check in all_checks() if check.memory_mib is not None)
NAIVE = """
def streaming_attention(Q, K, V, causal=False, block_size=64):
    return (Q @ K.mT / Q.shape[-1] ** 0.5).softmax(-1) @ V
"""
IN_TWO_HALVES = """
import torch
def streaming_attention(Q, K, V, causal=False, block_size=64):
    return torch.cat([(half @ K.mT / Q.shape[-1] ** 0.5).softmax(-1) @ V for half in Q.chunk(2, -2)], -2)
"""


def judge(sandbox: Sandbox, source: str) -> run.Ending:
    @contextlib.contextmanager
    def open_transport(
        part: str, seed: int, substitutes: Collection[str] = (), memory_mib: int | None = None
    ) -> Iterator[Transport]:
        limits = MANIFEST.part(part).limits
        assert memory_mib is not None
        assert memory_mib < limits.memory_mib
        with sandbox.session({FILE: source}, LAYOUT, Limits(limits.seconds, memory_mib), seed) as transport:
            yield transport

    return run.run_one(CHECK, open_transport, seed=1)


ALL_MASKS = """
import torch
def streaming_attention(Q, K, V, causal=False, block_size=64):
    masks = [torch.ones(len(Q), len(Q)).triu(1).bool()] if causal else []
    return V
"""


@pytest.mark.parametrize("source", [NAIVE, IN_TWO_HALVES, ALL_MASKS], ids=["naive", "in_two_halves", "all_masks"])
def test_the_whole_matrix_does_not_fit(sandbox: Sandbox, source: str) -> None:
    ending = judge(sandbox, source)
    assert ending.outcome is Outcome.CRASHED
    assert ending.message == "needed more than 96 MiB of memory"


@pytest.mark.parametrize("source", [reference()[FILE], *STYLES.values()], ids=["reference", *STYLES])
def test_blocks_fit(sandbox: Sandbox, source: str) -> None:
    ending = judge(sandbox, source)
    assert ending.outcome is Outcome.PASSED, ending.message
