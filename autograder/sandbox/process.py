"""The grader's side of the zygote: start it, ask it for a worker, ask it how a worker ended."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import checks

from .confinement import STRICT, Limits

_START_SECONDS = 180.0  # importing torch from a cold disk
_ANSWER_SECONDS = 60.0
_LONGEST_COMPLAINT = 2000  # characters
_LONGEST_MESSAGE = 1 << 16

# All that a worker finds in its environment. One thread, because a process with more cannot be forked safely; no CUDA device,
# because autograd starts threads for each. The machine's own variables stay behind, secrets among them.
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    # Memory that a worker gives up goes back to the system at once: the limit on its memory is one on its addresses, and
    # would count the gaps that glibc keeps between large blocks otherwise, by the luck of their order.
    "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=131072",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}


class ZygoteDied(Exception):
    """The zygote is gone or does not answer. Its workers are gone with it; none of that is a student's doing."""


@dataclass(frozen=True)
class Ended:
    """How a worker ended: by a signal (0: by none), or with an exit status; and what it had used."""

    signal: int
    status: int
    cpu_seconds: float
    max_rss_mib: float


class ZygoteProcess:
    """One zygote. Several threads may use it: one message and its answer at a time."""

    def __init__(self, python: str = sys.executable, strongest: str = STRICT) -> None:
        self._lock = threading.Lock()
        self._greeted = False
        self._broken = False
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the zygote is
        self._socket, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        kit = Path(next(iter(checks.__path__))).resolve().parent
        with far:
            # -s -P and a fixed environment are -I, except that -I would also leave PYTHONHASHSEED out.
            # A session of its own: Ctrl-C at the terminal is the grader's affair.
            self._process = subprocess.Popen(
                [python, "-s", "-P", str(Path(__file__).with_name("zygote.py")), str(far.fileno()), str(kit), strongest],
                env=_ENVIRONMENT,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
                pass_fds=(far.fileno(),),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return not self._broken and self._process.poll() is None

    def spawn(self, descriptors: Sequence[int], limits: Limits, seed: int, hidden: str | None = None) -> int:
        """Fork a worker with these three descriptors (requests, answers, log); its process id.

        hidden: a file of the grader's. Where there is one, the worker is for the preflight, and serves nothing.
        """
        return int(self._ask({"spawn": asdict(limits), "seed": seed, "hidden": hidden}, descriptors)["pid"])

    def reap(self, pid: int) -> Ended:
        """End the worker, if it has not ended yet, and say how it did."""
        answer = self._ask({"reap": pid})
        rss = answer["max_rss"] / (1 << 10 if sys.platform == "linux" else 1 << 20)
        return Ended(answer["signal"], answer["status"], answer["cpu_seconds"], rss)

    def close(self) -> None:
        """End the zygote and all its workers."""
        with self._lock:
            self._broken = True
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._socket.close()
            self._complaints.close()

    def _ask(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        with self._lock:
            if self._broken:
                raise ZygoteDied("the process that starts workers has ended")
            try:
                if not self._greeted:
                    self._receive(_START_SECONDS)
                    self._greeted = True
                socket.send_fds(self._socket, [json.dumps(message).encode() + b"\n"], descriptors)
                answer = self._receive(_ANSWER_SECONDS)
            except (OSError, ValueError, KeyError) as error:
                self._broken = True
                self._process.kill()
                raise ZygoteDied(f"the process that starts workers has ended ({error}){self._complaint()}") from error
            except BaseException:  # Ctrl-C between a message and its answer: the next message would get that answer
                self._broken = True
                self._process.kill()
                raise
        if "error" in answer:
            raise ZygoteDied(f"the process that starts workers could not do so: {answer['error']}")
        return answer

    def _receive(self, seconds: float) -> dict[str, Any]:
        self._socket.settimeout(seconds)
        data = b""
        while not data.endswith(b"\n"):
            chunk = self._socket.recv(_LONGEST_MESSAGE)
            if not chunk:
                raise OSError("it closed its end")
            data += chunk
        answer: dict[str, Any] = json.loads(data)
        return answer

    def _complaint(self) -> str:
        """The end of what it wrote to its standard error."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        size = os.fstat(self._complaints.fileno()).st_size
        text = os.pread(self._complaints.fileno(), _LONGEST_COMPLAINT, max(0, size - _LONGEST_COMPLAINT))
        return ": " + text.decode("utf-8", "replace").strip() if text.strip() else ""
