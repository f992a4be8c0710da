"""What a worker is not allowed, applied in the worker itself before it reads anything of a student's.

`Confinement` is the seam: the zygote applies one and the worker reports its name. `ResourceLimits` is the one there is. It
bounds what code can use up, and hides nothing: a worker under it can still read files and open connections. A stronger one
(no file system, no new processes, another user) is another class here, chosen in `chosen()`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_MOST_DESCRIPTORS = 64
_WALL_SECONDS_PER_CPU_SECOND = 5  # a machine with five times more to do than it can still fails nobody


@dataclass(frozen=True)
class Limits:
    """What one worker may use: processor seconds, and MiB of memory beyond what torch itself takes.

    `wall_seconds` is a backstop against code that sleeps; time in which the worker has nothing to do is not counted.
    """

    cpu_seconds: int
    memory_mib: int
    wall_seconds: float | None = None

    @property
    def wall(self) -> float:
        return self.cpu_seconds * _WALL_SECONDS_PER_CPU_SECOND if self.wall_seconds is None else self.wall_seconds


class Confinement(Protocol):
    """Something that a freshly forked worker does to itself and cannot undo."""

    @property
    def name(self) -> str:
        """What stands in the reports: `limits`, …"""
        ...

    def apply(self, limits: Limits, zygote: int) -> None:
        """Confine this process, a child of process `zygote`. Raises OSError where that cannot be done."""
        ...


@dataclass(frozen=True)
class ResourceLimits:
    """Processor time, memory, no files written, and an end with the zygote's; on macOS as much of it as there is."""

    name: str = "limits"

    def apply(self, limits: Limits, zygote: int) -> None:
        _lower(resource.RLIMIT_FSIZE, 0)
        _lower(resource.RLIMIT_CORE, 0)
        _lower(resource.RLIMIT_NOFILE, _MOST_DESCRIPTORS)
        _lower(resource.RLIMIT_MEMLOCK, 0)
        # First SIGXCPU, which says what it is for; a second later SIGKILL, for code that put the first one off.
        _lower(resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1)
        if sys.platform == "linux":
            _lower(resource.RLIMIT_AS, _address_space() + (limits.memory_mib << 20))
            set_process_option(_PR_SET_NO_NEW_PRIVS, 1)
            set_process_option(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != zygote:  # it died before the line above could take effect
            os._exit(1)


def chosen() -> Confinement:
    """The confinement that this machine's workers get."""
    return ResourceLimits()


def adopt_orphans() -> None:
    """Make this process the parent of whatever its descendants leave behind, so that it can end it. Linux only."""
    if sys.platform == "linux":
        set_process_option(_PR_SET_CHILD_SUBREAPER, 1)


def set_process_option(option: int, value: int) -> None:
    """prctl(2) with one argument."""
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) was refused")


def _lower(what: int, soft: int, hard: int | None = None) -> None:
    """Set both limits, to `soft` where no `hard` is given; where the system allows less than that already, it stays at less."""
    _, most = resource.getrlimit(what)
    wanted = (soft, soft if hard is None else hard)
    values = wanted if most == resource.RLIM_INFINITY else (min(wanted[0], most), min(wanted[1], most))
    with contextlib.nullcontext() if sys.platform == "linux" else contextlib.suppress(ValueError, OSError):
        resource.setrlimit(what, values)


def _address_space() -> int:
    """The bytes of address space that this process has now."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
