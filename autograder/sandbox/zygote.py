"""The zygote: a process that has imported torch and holds nothing secret, and forks one worker per check.

Run as a script by `process.py`, in isolation and with a fixed environment, never imported by the grader:

    python -s -P zygote.py CONTROL_FD KIT_DIRECTORY STRONGEST_TIER

One line of JSON per message over the control socket. `{"spawn": limits, "seed": n, "hidden": null}` comes with three descriptors
(requests to read, answers to write, log to write) and is answered with `{"pid": n}`; `{"reap": pid}` ends that worker and is
answered with how it ended. With the path of a file of the grader's in `hidden`, the worker tries what it must not be able to do
instead of serving. The zygote ends, and all workers with it, when the socket is closed or the grader is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

# Imported before the first fork: what comes later would cost each worker the time, and under a confinement without a file system
# cannot be imported at all. torch._dynamo takes a second of its own, which the first optimiser in a worker would take otherwise.
PRELOADED = (
    *("abc", "bisect", "collections", "contextlib", "copy", "dataclasses", "encodings.idna", "enum", "fractions", "functools"),
    *("heapq", "inspect", "itertools", "linecache", "logging", "math", "numbers", "operator", "pprint", "queue", "random", "re"),
    *("statistics", "string", "textwrap", "threading", "time", "traceback", "types", "typing", "typing_extensions", "unittest"),
    *("warnings", "numpy", "numpy.ctypeslib", "numpy.testing", "torch", "torch.nn.functional", "torch.nn.attention"),
    *("torch.nn.utils.parametrize", "torch.optim", "torch.func", "torch.overrides", "torch.utils._python_dispatch"),
    *("torch.utils.checkpoint", "torch._dynamo", "torch.nn.attention.flex_attention", "safetensors.torch"),
)
# What some versions of torch import only when it is used; others do not have it. The list is what a long run of torch's own
# functions, optimisers and schedulers imported under no confinement and missed under the strict one.
WHERE_THERE = ("torch.profiler._cupti_monitor", "torch._subclasses.schema_check_mode")
_WARM_UP = """
import torch
def warm(Q, K, V):
    print(end="")
    weights = torch.softmax(Q @ K.transpose(-2, -1) / K.shape[-1] ** 0.5, dim=-1)
    return weights @ V, weights
"""
_GRADER_CHECK_MS = 2000
_LONGEST_MESSAGE = 1 << 16
_FIRST_FREE = 10  # descriptors below are given their numbers explicitly
_REQUEST, _RESPONSE = 3, 4  # a worker's descriptors, besides its log on 1 and 2
_HIGHEST_DESCRIPTOR = 1 << 16  # where the system names no smaller one


class Zygote:
    """The loop, and the workers that are alive."""

    def __init__(self, control: socket.socket, side: Any, confinement_module: Any, strongest: str) -> None:
        self._control = control
        self._worker = side
        self._confinement_module = confinement_module
        self._layers = confinement_module.available(strongest)
        self._grader = os.getppid()
        self._live: set[int] = set()

    def run(self) -> None:
        """Serve until the grader is gone, then leave nothing behind."""
        try:
            while (received := self._receive()) is not None:
                message, descriptors = received
                try:
                    answer = self._spawn(message, descriptors) if "spawn" in message else self._reap(message["reap"])
                except OSError as error:
                    answer = {"error": str(error)}
                finally:
                    for descriptor in descriptors:
                        os.close(descriptor)
                self._control.sendall(json.dumps(answer).encode() + b"\n")
        finally:
            for pid in list(self._live):
                self._reap(pid)

    def _receive(self) -> tuple[dict[str, Any], list[int]] | None:
        """One message and the descriptors that came with it; None where the grader is gone."""
        data, descriptors = b"", []
        while not data.endswith(b"\n"):
            # The socket closes with the grader, unless something that the grader forked still holds the other end.
            while not select.select([self._control], [], [], _GRADER_CHECK_MS / 1000)[0]:
                if os.getppid() != self._grader:
                    return None
            chunk, received, _, _ = socket.recv_fds(self._control, _LONGEST_MESSAGE, 3, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
            descriptors += received
            data += chunk
            if not chunk:
                return None
        return json.loads(data), descriptors

    def _spawn(self, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        limits = self._confinement_module.Limits(**message["spawn"])
        zygote = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self._become_worker(limits, message["seed"], descriptors, zygote, message["hidden"])
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)  # the log, if it came that far
            finally:
                os._exit(1)  # serve() ends the process itself: this is a worker that could not be set up
        self._live.add(pid)
        return {"pid": pid}

    def _become_worker(self, limits: Any, seed: int, descriptors: list[int], zygote: int, hidden: str | None) -> None:
        os.setsid()
        self._control.detach()
        request, response, log = descriptors
        os.dup2(log, 1)
        os.dup2(log, 2)
        # By way of higher numbers, since the ones that are wanted may be among those that came.
        request, response = (fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE) for each in (request, response))
        os.dup2(request, _REQUEST, inheritable=False)
        os.dup2(response, _RESPONSE, inheritable=False)
        os.closerange(_RESPONSE + 1, min(os.sysconf("SC_OPEN_MAX"), _HIGHEST_DESCRIPTOR))
        sys.modules["checks.executor"].seed_everything(seed)  # every worker would draw the same numbers otherwise
        isolation = self._layers.apply(limits, zygote)
        if hidden is None:
            self._worker.serve(_REQUEST, _RESPONSE, isolation)
        else:
            self._worker.try_everything(_RESPONSE, isolation, hidden, [self._grader, zygote])

    def _reap(self, pid: int) -> dict[str, Any]:
        """End a worker and everything it started. A worker that has ended already keeps the end it had."""
        if pid not in self._live:
            return {"error": f"there is no worker {pid}"}
        _kill(pid)
        _, status, usage = os.wait4(pid, 0)
        self._live.discard(pid)
        self._end_orphans()
        return {
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
            "status": os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "max_rss": usage.ru_maxrss,
        }

    def _end_orphans(self) -> None:
        """End the children that are no workers: what a worker left behind came to this process when its parent ended."""
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        with contextlib.suppress(OSError):  # no such file on macOS, or on a kernel built without it
            while orphans := {int(pid) for pid in children.read_text("ascii").split()} - self._live:
                for pid in orphans:
                    _kill(pid)
                    os.waitpid(pid, 0)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it may lead no group yet, or an orphan none at all
        os.killpg(pid, signal.SIGKILL)


def _import_from(directory: Path, names: tuple[str, ...]) -> list[Any]:
    """Import modules of a package in `directory`, and leave no way to import any other of it."""
    sys.path.insert(0, str(directory))
    try:
        modules = [importlib.import_module(name) for name in names]
    finally:
        sys.path.remove(str(directory))
    return modules


def _warm_up() -> None:
    """Run what workers run once, so that each finds it done."""
    import torch

    from checks.calls import Call
    from checks.executor import Direct, Layout
    from checks.package import Package

    layout = Layout("warm_up", {"warm": "warm"})
    direct = Direct(Package({"warm_up/warm.py": _WARM_UP}, "warm_up"), layout)
    for size in (2, 64):
        inputs = tuple(torch.ones(size, size, dtype=torch.float32) for _ in range(3))
        direct.perform(Call("warm", inputs, upstream=(inputs[0], None), after=True, count=True))
        direct.perform(Call("warm", inputs, device="meta"))


def _assert_one_thread() -> None:
    """A fork copies one thread alone; a pool of them would leave every worker waiting for ever."""
    tasks = Path("/proc/self/task")
    if tasks.is_dir() and len(threads := list(tasks.iterdir())) != 1:
        raise RuntimeError(f"the zygote has {len(threads)} threads, and a process with more than one cannot be forked safely")


def main() -> None:
    """Import, warm up, say hello, serve."""
    control = socket.socket(fileno=int(sys.argv[1]))
    kit, strongest, here = Path(sys.argv[2]), sys.argv[3], Path(__file__).resolve().parent
    sys.argv[1:] = []
    sys.orig_argv[:] = sys.argv  # which says where the repository is, too
    for name in PRELOADED:
        importlib.import_module(name)
    for name in WHERE_THERE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    _import_from(kit, ("checks.calls", "checks.errors", "checks.executor", "checks.package"))
    # As a package of its own and not as `autograder.sandbox`, so that a worker has no module that knows where the grader is.
    worker, confinement = _import_from(here.parent, (f"{here.name}.worker", f"{here.name}.confinement"))
    _warm_up()
    repository = {str(here.parent), str(here.parent.parent), str(kit)}
    sys.path[:] = [entry for entry in sys.path if entry not in repository]
    for package in ("checks", here.name):
        sys.modules[package].__path__ = []
    confinement.adopt_orphans()
    confinement.forbid_looking_inside()
    gc.collect()
    gc.freeze()  # a collection in a worker would write to, and so copy, every page of it
    _assert_one_thread()
    control.sendall(json.dumps({"hello": os.getpid()}).encode() + b"\n")
    Zygote(control, worker, confinement, strongest).run()


if __name__ == "__main__":
    main()
