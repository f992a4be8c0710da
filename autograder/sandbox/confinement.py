"""What a worker is not allowed, applied in the worker itself before it reads anything of a student's.

The layers, from the outside in: limits on what can be used up; another user; Landlock; an allow-list of system calls. What
holds is the last one. It gives a worker no file system, no processes and no sockets, needs no privileges, and together with
the limits it makes the tier `strict`. The others stand behind it and are applied where they work.
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
from typing import Any

from . import landlock, seccomp, users

STRICT, SETUID, NONE = "strict", "setuid", "none"
TIERS = (STRICT, SETUID, NONE)  # from the strongest to the weakest

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_MOST_DESCRIPTORS = 64
_MOST_SIGNALS = 64
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


@dataclass(frozen=True)
class Layers:
    """What this machine has for confining a worker: found out once, before the first fork, since it takes looking at files."""

    system_calls: Any | None  # pyseccomp; None: there is no allow-list
    landlock: int  # its version; 0: there is none
    other_user: bool  # whether this process may become another user

    def apply(self, limits: Limits, zygote: int) -> str:
        """Confine this process, a child of process `zygote`, and return the tier that holds, `strict+landlock+setuid`.

        Raises OSError where even the limits cannot be set. A layer that is refused is left out, and not named.
        """
        _limit(limits)
        if sys.platform != "linux":
            return NONE
        # First, since a change of user takes the last two settings back.
        user = self.other_user and _held(users.become_nobody, os.getpid())
        set_process_option(_PR_SET_NO_NEW_PRIVS, 1)
        set_process_option(_PR_SET_DUMPABLE, 0)
        set_process_option(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != zygote:  # it died before the line above could take effect
            os._exit(1)
        locked = self.landlock > 0 and _held(landlock.deny_everything, self.landlock)
        listed = self.system_calls is not None and _held(seccomp.restrict, self.system_calls)
        if listed:
            return "+".join([STRICT, *(["landlock"] if locked else []), *(["setuid"] if user else [])])
        return "+".join([SETUID, *(["landlock"] if locked else [])]) if user else NONE


def available(strongest: str = STRICT) -> Layers:
    """The layers that this machine has for its workers, without those of a tier above `strongest`: CUDA works under none of
    the system calls' lists.
    """
    if sys.platform != "linux" or strongest == NONE:
        return Layers(None, 0, False)
    return Layers(seccomp.library() if strongest == STRICT else None, landlock.version(), os.geteuid() == 0)


def tier_of(isolation: str) -> str:
    """The tier of an isolation's full name: `strict` of `strict+landlock`."""
    return isolation.partition("+")[0]


def reaches(isolation: str, wanted: str) -> bool:
    """Whether the isolation that a worker has is of the wanted tier or a stronger one."""
    tier = tier_of(isolation)
    return tier in TIERS and TIERS.index(tier) <= TIERS.index(wanted)


def adopt_orphans() -> None:
    """Make this process the parent of whatever its descendants leave behind, so that it can end it. Linux only."""
    if sys.platform == "linux":
        set_process_option(_PR_SET_CHILD_SUBREAPER, 1)


def forbid_looking_inside() -> None:
    """Let no other process of the same user trace this one or read its memory, environment and descriptors. Linux only."""
    if sys.platform == "linux":
        set_process_option(_PR_SET_DUMPABLE, 0)


def set_process_option(option: int, value: int) -> None:
    """prctl(2) with one argument."""
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) was refused")


def _held(lock: Any, *arguments: Any) -> bool:
    with contextlib.suppress(OSError):
        lock(*arguments)
        return True
    return False


def _limit(limits: Limits) -> None:
    """Processor time, memory, and nothing of what else a process could use up; on macOS as much of it as there is."""
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, _MOST_DESCRIPTORS)
    _lower(resource.RLIMIT_MEMLOCK, 0)
    # First SIGXCPU, which says what it is for; a second later SIGKILL, for code that put the first one off.
    _lower(resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1)
    if sys.platform == "linux":
        _lower(resource.RLIMIT_AS, _address_space() + (limits.memory_mib << 20))
        _lower(resource.RLIMIT_MSGQUEUE, 0)
        _lower(resource.RLIMIT_SIGPENDING, _MOST_SIGNALS)


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
