"""The system calls that a worker may make: to compute, to allocate, to start threads, to read one pipe and write two.

Everything else is refused with EPERM: no file is opened or looked at, no process made, no socket, no signal to another
process. A system call that an architecture does not have is passed over.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Any

_READ_AND_WRITE = (
    "read readv write writev close dup dup3 lseek fstat poll ppoll select pselect6 "
    "epoll_create1 epoll_ctl epoll_wait epoll_pwait eventfd2"
)
_MEMORY = "brk mmap munmap mremap mprotect madvise mincore mlock munlock membarrier"
_THREADS = (
    "futex futex_waitv set_robust_list get_robust_list rseq sched_yield set_tid_address arch_prctl sched_getaffinity "
    "sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min exit exit_group restart_syscall"
)
_SIGNALS = "rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack"
_QUESTIONS = (
    "gettid getpid getppid getuid geteuid getgid getegid getpgid getpgrp getsid clock_gettime clock_getres clock_nanosleep "
    "nanosleep gettimeofday time getrandom getrusage times sysinfo uname getcpu getcwd"
)
ALLOWED = tuple(f"{_READ_AND_WRITE} {_MEMORY} {_THREADS} {_SIGNALS} {_QUESTIONS}".split())

_CLONE_THREAD = 0x10000
_TERMINAL_QUERIES = (0x5401, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_DESCRIPTOR_COMMANDS = (0, 1, 2, 3, 4, 1030)  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC
_NAMES = (15, 16, 0x53564D41)  # PR_SET_NAME, PR_GET_NAME, and PR_SET_VMA, which names a stretch of memory


def library() -> Any | None:
    """pyseccomp, where it and the C library under it are there; None elsewhere. Ask before the fork: it opens files."""
    try:
        import pyseccomp
    except (ImportError, OSError, RuntimeError):
        return None
    return pyseccomp


def restrict(seccomp: Any) -> None:
    """Allow this process, and every thread it starts, what is above, for good. Raises OSError where that is refused."""
    rules = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
    _kill_foreign(rules, seccomp)

    def allow(name: str, *arguments: Any, action: Any = seccomp.ALLOW) -> None:
        # One that this architecture has not got is ENOSYS or EPERM without a rule; it can be left out.
        with contextlib.suppress(OSError):
            rules.add_rule(action, name, *arguments)

    for name in ALLOWED:
        allow(name)
    allow("clone", seccomp.Arg(0, seccomp.MASKED_EQ, _CLONE_THREAD, _CLONE_THREAD))
    allow("clone3", action=seccomp.ERRNO(errno.ENOSYS))  # its flags are in memory; the C library falls back to clone
    for name in ("kill", "tgkill"):
        allow(name, seccomp.Arg(0, seccomp.EQ, os.getpid()))
    for number, name, values in ((1, "ioctl", _TERMINAL_QUERIES), (1, "fcntl", _DESCRIPTOR_COMMANDS), (0, "prctl", _NAMES)):
        for value in values:
            allow(name, seccomp.Arg(number, seccomp.EQ, value))
    for pid in (0, os.getpid()):
        allow("prlimit64", seccomp.Arg(0, seccomp.EQ, pid), seccomp.Arg(2, seccomp.EQ, 0))  # to ask, and not to set
    rules.load()


def _kill_foreign(rules: Any, seccomp: Any) -> None:
    """End the process at a call by another architecture's numbers (int 0x80, x32), which the rules would misread."""
    for action in (getattr(seccomp, "KILL_PROCESS", None), seccomp.KILL):
        if action is not None:
            with contextlib.suppress(OSError):
                rules.set_attr(seccomp.Attr.ACT_BADARCH, action)
                return
