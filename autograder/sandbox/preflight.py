"""What a worker must not be able to do, tried by a worker that runs no student's code: a tier is what these attempts prove.

Runs in the worker, after it has been confined. Everything here that could do harm undoes it: a process that could be made
after all ends at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

REFUSED = 77  # the exit status of a worker that could not become another program
_TRUE = "/bin/true"

# What no tier allows: the others are refused by the strict one alone.
READ, WRITE = "read the grader's files", "write beside the grader's files"
SIGNAL, TRACE = "signal the grader", "trace the grader"
LOOK, MEMORY = "look into the grader's environment", "read the grader's memory"
ALWAYS_REFUSED = (READ, WRITE, SIGNAL, TRACE, LOOK, MEMORY)
_PTRACE_ATTACH, _PTRACE_DETACH = 16, 17


def attempts(hidden: str, pids: Sequence[int]) -> list[str]:
    """Try everything, and return what succeeded, in words; nothing under the strict tier.

    hidden: a file of the grader's, which holds a secret. pids: the grader's processes.
    """
    tried: dict[str, Callable[[], object]] = {
        READ: lambda: open(hidden, "rb").close(),
        "see the grader's files": lambda: os.stat(hidden),
        WRITE: lambda: _write_beside(hidden),
        "list the file system": lambda: os.listdir("/"),
        "read /proc": lambda: open("/proc/self/status", "rb").close(),
        "make a TCP socket": lambda: socket.socket(socket.AF_INET).close(),
        "make a UNIX socket": lambda: socket.socket(socket.AF_UNIX).close(),
        "make a pair of sockets": socket.socketpair,
        "make memory files": lambda: os.close(os.memfd_create("preflight")),
        "make a process": _fork,
        "raise its limits": _raise_limits,
        "leave its session": os.setsid,
    }
    tried[SIGNAL] = lambda: _any(pids, lambda pid: os.kill(pid, 0))
    tried[TRACE] = lambda: _any(pids, _trace)
    tried[LOOK] = lambda: _any(pids, lambda pid: Path(f"/proc/{pid}/environ").read_bytes())
    tried[MEMORY] = lambda: _any(pids, _read_memory)
    done = []
    for name, attempt in tried.items():
        with contextlib.suppress(OSError, ValueError):
            attempt()
            done.append(name)
    return done


def become_another_program() -> None:
    """End with status REFUSED, unless this process can become another program: then with that one's."""
    with contextlib.suppress(OSError):
        os.execve(_TRUE, [_TRUE], {})
    os._exit(REFUSED)


def _any(pids: Sequence[int], attempt: Callable[[int], object]) -> None:
    """Raises OSError where the attempt is refused for each of them."""
    for pid in pids:
        with contextlib.suppress(OSError):
            attempt(pid)
            return
    raise OSError("refused")


def _write_beside(hidden: str) -> None:
    path = Path(hidden).with_name(".preflight")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    path.unlink()


def _fork() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _raise_limits() -> None:
    import resource  # loaded long before; named here because this alone needs it

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))  # even setting what is there already is setting


def _trace(pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(_PTRACE_ATTACH, pid, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "refused")
    libc.ptrace(_PTRACE_DETACH, pid, 0, 0)
    os.kill(pid, signal.SIGCONT)


def _read_memory(pid: int) -> None:
    """process_vm_readv of one byte at an address that is there in a fork of the same process: this one's own."""
    libc = ctypes.CDLL(None, use_errno=True)
    byte = ctypes.create_string_buffer(1)
    here = struct.pack("PN", ctypes.addressof(byte), 1)
    if libc.process_vm_readv(pid, here, 1, here, 1, 0) < 0 and ctypes.get_errno() != 14:  # EFAULT: allowed, and nothing there
        raise OSError(ctypes.get_errno(), "refused")
