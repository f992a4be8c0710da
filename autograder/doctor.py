"""What this machine gives the grader, layer by layer, and what to do about what is missing."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from checks.calls import Call
from checks.executor import Layout

from .sandbox import confinement, landlock, seccomp
from .sandbox.client import Preflight, Sandbox, SandboxBroken
from .sandbox.confinement import NONE, STRICT, Limits

CONTAINER = "grade in a Linux container or virtual machine"
_PROBE = {"attention/probe.py": "def probe(): return 1\n"}


@dataclass(frozen=True)
class Finding:
    """One line: whether it is as it should be (None: it is an extra that is not there), what it is, and what to do."""

    good: bool | None
    what: str
    advice: str = ""


def findings(hidden: Path) -> Iterator[Finding]:
    """Everything that grading needs, in order; starts a sandbox and tries it. `hidden` is a file that workers must not read."""
    yield Finding(sys.version_info >= (3, 11), f"Python {platform.python_version()} on {platform.system()} {platform.release()}")
    yield _torch()
    if sys.platform == "linux":
        yield from _linux_layers()
    else:
        yield Finding(False, f"isolation: {platform.system()} has none that the grader can use", f"{CONTAINER}.")
    try:
        with Sandbox(accept=NONE) as sandbox:
            started = time.perf_counter()
            preflight = sandbox.preflight(hidden)
            yield Finding(True, f"a first worker after {time.perf_counter() - started:.1f} s")
            yield _speed(sandbox)
    except SandboxBroken as error:
        yield Finding(False, f"workers cannot be started: {error}", "mend that first: nothing can be graded.")
        return
    yield verdict(preflight)


def verdict(preflight: Preflight) -> Finding:
    """What the preflight proved."""
    told = f"tier {preflight.tier} ({preflight.isolation})"
    if preflight.breaches:
        told += f"; a worker can {', '.join(preflight.breaches)}"
    if preflight.tier == STRICT:
        return Finding(True, f"{told}; tried, and nothing got through")
    return Finding(False, told, refusal(preflight))


def refusal(preflight: Preflight) -> str:
    """The sentence that tells why a class is not graded here, and what to do."""
    where = "" if sys.platform == "linux" else f" on {platform.system()}"
    return (
        f"Students' code cannot be isolated well enough{where}: the tier here is {preflight.tier}, and {STRICT} is needed. "
        f"{CONTAINER.capitalize()}; `python -m autograder doctor` says what is missing. "
        f"For code of people whom you trust: --accept-tier {preflight.tier}."
    )


def _torch() -> Finding:
    import torch

    return Finding(True, f"torch {torch.__version__}")


def _linux_layers() -> Iterator[Finding]:
    library = "install libseccomp 2.5 (Debian, Ubuntu: apt-get install libseccomp2); pyseccomp comes with the requirements."
    found = seccomp.library() is not None
    yield Finding(found, f"system calls: libseccomp is {'there' if found else 'missing'}", "" if found else library)
    version = landlock.version()
    told = f"version {version}" if version else "none in this kernel; it is an extra layer, and not needed"
    yield Finding(True if version else None, f"Landlock: {told}")
    root = os.geteuid() == 0
    yield Finding(True if root else None, f"another user for each worker: {'yes' if root else 'only as root; an extra layer'}")
    yield Finding(True, f"processor cores: {os.cpu_count()}")
    confinement.forbid_looking_inside()
    yield Finding(True, "the grader's memory and environment: closed to other processes of the same user")


def _speed(sandbox: Sandbox) -> Finding:
    """From the fork to the first answer, the median of some."""
    layout = Layout("attention", {"probe": "probe"}, frozenset())
    seconds = []
    for _ in range(9):
        started = time.perf_counter()
        with sandbox.session(_PROBE, layout, Limits(2, 256), 0) as worker:
            worker.perform(Call("probe"))
        seconds.append(time.perf_counter() - started)
    return Finding(True, f"a worker, from the fork to its end: {1000 * sorted(seconds)[4]:.0f} ms")
