"""The tiers are what they prove: strict lets nothing through, weaker ones are found out, and are refused unless accepted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from click.testing import CliRunner

from autograder import cli, doctor
from autograder.sandbox import confinement, landlock, preflight, seccomp
from autograder.sandbox.client import Preflight, Sandbox, SandboxBroken, Sandboxed
from autograder.sandbox.confinement import NONE, SETUID, STRICT, Limits
from checks.calls import Call
from checks.errors import BadUsage, StudentRaised, WorkerCrashed
from checks.executor import Layout
from tests.support import SAMPLES

Start = Callable[..., AbstractContextManager[Sandboxed]]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no other system has a tier")
root = os.geteuid() == 0


@pytest.fixture
def hidden(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("nobody's business")
    path.chmod(0o600)
    tmp_path.chmod(0o700)
    return path


@pytest.fixture(scope="module")
def of_setuid() -> Iterator[Sandbox]:
    with Sandbox(accept=NONE, strongest=SETUID) as made:
        yield made


def test_strict_lets_nothing_through(sandbox: Sandbox, hidden: Path) -> None:
    found = sandbox.preflight(hidden)
    assert found.breaches == ()
    assert found.tier == STRICT
    wanted = [STRICT, *(["landlock"] if landlock.version() else []), *(["setuid"] if root else [])]
    assert found.isolation == "+".join(wanted)
    assert os.listdir(hidden.parent) == ["secret"]


def test_limits_alone_are_no_tier(unconfined: Sandbox, hidden: Path) -> None:
    found = unconfined.preflight(hidden)
    assert (found.isolation, found.tier) == (NONE, NONE)
    assert {preflight.READ, "see the grader's files", "make a process", "make a UNIX socket", "become another program"} < set(
        found.breaches
    )
    assert os.listdir(hidden.parent) == ["secret"], "it leaves nothing behind"


@pytest.mark.skipif(not root, reason="only root can become another user")
def test_another_user_is_a_weaker_tier(of_setuid: Sandbox, hidden: Path) -> None:
    found = of_setuid.preflight(hidden)
    assert found.tier == SETUID
    assert "make a process" in found.breaches or "make a UNIX socket" in found.breaches
    assert not set(found.breaches) & set(preflight.ALWAYS_REFUSED)


@pytest.mark.parametrize(
    ("isolation", "breaches", "tier"),
    [
        ("strict+landlock+setuid", (), STRICT),
        ("strict", (), STRICT),
        ("strict+setuid", ("make a TCP socket",), SETUID),
        ("strict", (preflight.READ,), NONE),
        ("setuid", ("make a process",), SETUID),
        ("setuid", (preflight.TRACE,), NONE),
        ("none", (), NONE),
    ],
)
def test_a_tier_is_what_was_achieved(isolation: str, breaches: tuple[str, ...], tier: str) -> None:
    assert Preflight(isolation, breaches).tier == tier


def test_the_order_of_tiers() -> None:
    assert confinement.reaches("strict+landlock", STRICT)
    assert confinement.reaches("strict", SETUID)
    assert confinement.reaches("setuid", NONE)
    assert not confinement.reaches("setuid+landlock", STRICT)
    assert not confinement.reaches("none", SETUID)
    assert not confinement.reaches("anything else", NONE)


def test_no_code_is_run_below_the_accepted_tier() -> None:
    layout = Layout("attention", {"f": "part"}, frozenset())
    with Sandbox(strongest=NONE) as weak:
        with (
            pytest.raises(SandboxBroken, match="isolated by 'none', and must be by 'strict'"),
            weak.session({"attention/part.py": "def f(): return 1"}, layout, Limits(2, 256), 1),
        ):
            raise AssertionError("a session was opened")
        zygote = weak._current().pid
        assert Path(f"/proc/{zygote}/task/{zygote}/children").read_text("ascii").split() == [], "its worker was left"


def test_grading_is_refused_in_a_sentence_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sandbox, "preflight", lambda self, hidden: Preflight("none", ("make a process",)))
    monkeypatch.setattr(confinement, "forbid_looking_inside", lambda: None)
    out = tmp_path / "out"
    ran = CliRunner().invoke(cli.commands, ["grade", str(SAMPLES / "half_done"), "--out", str(out)])
    assert isinstance(ran.exception, BadUsage)
    assert "the tier here is none, and strict is needed" in str(ran.exception)
    assert "container" in str(ran.exception)
    assert "--accept-tier none" in str(ran.exception)
    assert not out.exists()


def test_the_doctor_names_every_layer_and_the_tier(hidden: Path) -> None:
    found = list(doctor.findings(hidden))
    assert all(each.good is not False for each in found)
    told = "\n".join(each.what for each in found)
    for word in ("Python", "torch", "libseccomp", "Landlock", "another user", "tier strict"):
        assert word in told
    bad = doctor.verdict(Preflight("setuid", ("make a process",)))
    assert bad.good is False
    assert "a worker can make a process" in bad.what
    assert "--accept-tier setuid" in bad.advice


# What a worker is left with.


CALLS = """
    import ctypes, ctypes.util, os
    libc = ctypes.CDLL(None, use_errno=True)
    def f(number, a, b, c):
        ctypes.set_errno(0)
        answer = libc.syscall(ctypes.c_long(number), ctypes.c_long(a), ctypes.c_long(b), ctypes.c_long(c), ctypes.c_long(0))
        return answer, ctypes.get_errno()
"""
REFUSED = {  # by their numbers on x86-64 and, from 424 on, everywhere
    "open": 2, "stat": 4, "socket": 41, "connect": 42, "sendmsg": 46, "socketpair": 53, "fork": 57, "vfork": 58, "execve": 59,
    "ptrace": 101, "setuid": 105, "setsid": 112, "personality": 135, "chroot": 161, "mount": 165, "openat": 257,
    "newfstatat": 262, "unshare": 272, "perf_event_open": 298, "process_vm_readv": 310, "process_vm_writev": 311,
    "memfd_create": 319, "bpf": 321, "userfaultfd": 323, "statx": 332, "execveat": 322, "keyctl": 250, "shmget": 29,
    "msgget": 68, "semget": 64, "inotify_init1": 294, "seccomp": 317, "setrlimit": 160, "link": 86, "unlink": 87, "rename": 82,
    "pidfd_send_signal": 424, "io_uring_setup": 425, "pidfd_open": 434, "openat2": 437, "pidfd_getfd": 438,
}  # fmt: skip


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are of x86-64")
def test_system_calls_that_are_not_on_the_list_are_refused(start: Start) -> None:
    with start(CALLS) as transport:
        for name, number in REFUSED.items():
            assert transport.perform(Call("f", (number, 0, 0, 0))).value == (-1, 1), name
        assert transport.perform(Call("f", (435, 0, 0, 0))).value == (-1, 38), "clone3 is not there, so that clone is used"
        own = transport.perform(Call("f", (39, 0, 0, 0))).value[0]
        assert transport.perform(Call("f", (62, own, 0, 0))).value == (0, 0), "a process may signal itself"
        assert transport.perform(Call("f", (62, os.getpid(), 0, 0))).value == (-1, 1), "and nobody else"
        assert transport.perform(Call("f", (302, os.getpid(), 7, 0))).value == (-1, 1), "nor asks for another's limits"
        assert transport.perform(Call("f", (157, 4, 1, 0))).value == (-1, 1), "not made dumpable again"
        assert transport.perform(Call("f", (157, 1, 0, 0))).value == (-1, 1), "its end with the zygote's is not called off"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="machine code of x86-64")
def test_calls_by_the_numbers_of_another_architecture_end_the_worker(start: Start) -> None:
    text = """
        import ctypes, mmap
        def f():
            code = mmap.mmap(-1, 4096, prot=7)
            code.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")  # eax = 20 (getpid), int 0x80, ret
            return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
    """
    with start(text) as transport, pytest.raises(WorkerCrashed, match="SIGSYS"):
        transport.perform(Call("f"))


def test_torch_has_what_it_needs(start: Start) -> None:
    """Threads, optimisers, random numbers, half precision, einsum, exceptions with their lines, printing."""
    text = """
        import math, random, threading, time, warnings
        import numpy as np
        import torch
        from torch import nn
        def f():
            torch.set_num_threads(2)
            a = torch.randn(300, 300, dtype=torch.float64)
            layer = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.1))
            for make in (torch.optim.Adam, torch.optim.SGD, torch.optim.RMSprop, torch.optim.AdamW):
                optimiser = make(layer.parameters(), lr=0.01)
                layer(torch.randn(4, 8)).square().mean().backward()
                optimiser.step()
            torch.einsum("bij,bjk->bik", torch.ones(2, 3, 4), torch.ones(2, 4, 5))
            torch.linalg.svd(a), (a @ a).softmax(-1), a.half(), a.bfloat16() @ a.bfloat16(), np.linalg.inv(a.numpy())
            done = []
            thread = threading.Thread(target=lambda: done.append(torch.ones(3).sum().item()))
            thread.start(); thread.join()
            warnings.warn("heard"); print("seen"); time.sleep(0.001)
            return (*done, random.random() < 1, math.pi > 3)
        def g():
            raise ValueError(f"Q is {tuple(torch.ones(2, 3).shape)}")
    """
    with start(text, cpu=10) as transport:
        assert transport.perform(Call("f")).value == (3.0, True, True)
        with pytest.raises(StudentRaised, match=r"Q is \(2, 3\)") as caught:
            transport.perform(Call("g"))
    assert caught.value.where.startswith("attention/part.py:22")
    assert "seen" in transport.printed
    assert "heard" in transport.printed


def test_without_the_library_there_is_no_strict_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    assert seccomp.library() is None
    assert confinement.available().system_calls is None
