"""What the grader uses: a `Sandbox` for a run, a `session` per check, and in it `perform`, as `checks.calls.Transport` says."""

from __future__ import annotations

import contextlib
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from checks.calls import Make, Reply, Request
from checks.errors import StudentRaised, WorkerCrashed, WorkerTimedOut
from checks.executor import Layout

from . import wire
from .channel import Channel, Gone, OutOfTime
from .confinement import NONE, SETUID, STRICT, Limits, reaches, tier_of
from .framing import MAX_FRAME, WireError, plain
from .preflight import ALWAYS_REFUSED, REFUSED
from .process import Ended, ZygoteDied, ZygoteProcess

_MOST_RESTARTS = 5  # of the zygote, with no session between them that came to its end
_READY_SECONDS = 60.0  # a worker's start, before any student code
_MOST_PRINTED = 64 << 10
_PREFLIGHT_SECONDS, _PREFLIGHT_MIB = 10, 256

T = TypeVar("T")


class SandboxBroken(Exception):
    """No worker can be started, or the zygote went away in the middle. The grader's fault, never a student's zero."""


@dataclass(frozen=True)
class Usage:
    """What a session took. `cpu_seconds` and `max_rss_mib` are the kernel's figures, `wall_seconds` the grader's clock."""

    cpu_seconds: float
    wall_seconds: float
    max_rss_mib: float


@dataclass(frozen=True)
class Preflight:
    """What a worker of this machine's claims to be confined by, and what it could do all the same."""

    isolation: str
    breaches: tuple[str, ...]

    @property
    def tier(self) -> str:
        """The tier that holds: the one that is claimed, or a weaker one where something got through that it refuses."""
        if any(each in ALWAYS_REFUSED for each in self.breaches):
            return NONE
        claimed = tier_of(self.isolation)
        return SETUID if claimed == STRICT and self.breaches else claimed


class Sandbox:
    """One zygote, started with the first session or `start`, restarted if it dies. Grading threads share one Sandbox."""

    def __init__(self, python: str = sys.executable, cap: int = MAX_FRAME, accept: str = STRICT, strongest: str = STRICT) -> None:
        """`accept` is the weakest tier under which a student's code is run, `strongest` the one that is tried for."""
        self._python = python
        self._cap = cap
        self._accept = accept
        self._strongest = strongest
        self._lock = threading.Lock()
        self._zygote: ZygoteProcess | None = None
        self._restarts = 0
        self._closed = False

    def __enter__(self) -> Sandbox:
        self._current()  # importing torch takes seconds, in which the caller can go on
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the zygote and every worker; what other threads still ask of them is refused."""
        with self._lock:
            self._closed = True
            zygote, self._zygote = self._zygote, None
        if zygote is not None:
            zygote.close()

    @contextlib.contextmanager
    def session(self, sources: Mapping[str, str], layout: Layout, limits: Limits, seed: int) -> Iterator[Sandboxed]:
        """A fresh worker holding these sources, for the duration. Raises SandboxBroken where none can be had."""
        channel = Channel(self._cap)
        try:
            zygote, pid, ready = self._spawn(channel, limits, seed)
            transport = Sandboxed(zygote, pid, channel, limits, wire.encode_setup(sources, layout))
            try:
                transport.isolation = _decoded(wire.decode_ready, ready)
                if not reaches(transport.isolation, self._accept):  # before anything of the student's is sent
                    raise SandboxBroken(f"a worker is isolated by {transport.isolation!r}, and must be by {self._accept!r}")
                yield transport
            finally:
                transport.end()
        finally:
            channel.close()
        with self._lock:
            self._restarts = 0

    def preflight(self, hidden: Path) -> Preflight:
        """What a worker can do here, tried by one that runs no student's code. `hidden` is a file that none may read."""
        channel = Channel(self._cap)
        try:
            zygote, pid, frame = self._spawn(channel, Limits(_PREFLIGHT_SECONDS, _PREFLIGHT_MIB), 0, str(hidden.resolve()))
            with contextlib.suppress(Gone, OutOfTime, WireError):  # its end, by itself
                channel.exchange(b"", _PREFLIGHT_SECONDS)
            ended = zygote.reap(pid)
            isolation, breaches = _decoded(wire.decode_preflight, frame)
            if ended.status != REFUSED:
                breaches.append("become another program")
        except ZygoteDied as error:
            raise SandboxBroken(str(error)) from error
        finally:
            channel.close()
        return Preflight(isolation, tuple(breaches))

    def _spawn(self, channel: Channel, limits: Limits, seed: int, hidden: str | None = None) -> tuple[ZygoteProcess, int, bytes]:
        """A worker that has confined itself and read nothing yet, and the frame in which it says so."""
        while True:
            zygote = self._current()
            try:
                pid = zygote.spawn(channel.far, limits, seed, hidden)
                break
            except ZygoteDied as error:
                if zygote.alive:
                    raise SandboxBroken(str(error)) from error
                problem = error
            with self._lock:
                if self._restarts >= _MOST_RESTARTS:
                    raise SandboxBroken(f"{problem} (after {self._restarts} new starts)") from problem
        channel.attach(pid)
        try:
            return zygote, pid, channel.exchange(b"", _READY_SECONDS)
        except (OutOfTime, Gone, WireError) as error:
            with contextlib.suppress(ZygoteDied):
                zygote.reap(pid)
            channel.drain_log()
            complaint = bytes(channel.log).decode("utf-8", "replace").strip() or type(error).__name__
            raise SandboxBroken(f"a worker could not be started ({complaint})") from error

    def _current(self) -> ZygoteProcess:
        with self._lock:
            if self._closed:
                raise SandboxBroken("the sandbox is closed")
            if self._zygote is not None and not self._zygote.alive:
                self._zygote.close()
                self._zygote = None
                self._restarts += 1
            if self._zygote is None:
                self._zygote = ZygoteProcess(self._python, self._strongest)
            return self._zygote


class Sandboxed:
    """`calls.Transport` over the wire to one worker. After the worker's end every `perform` raises what the first one did."""

    def __init__(self, zygote: ZygoteProcess, pid: int, channel: Channel, limits: Limits, setup: bytes) -> None:
        self.isolation = ""  # what the worker says of itself before it reads anything
        self.usage: Usage | None = None  # once the session is over
        self._zygote = zygote
        self._pid = pid
        self._channel = channel
        self._limits = limits
        self._setup = setup  # goes with the first request, so that a session without one costs nothing
        self._seconds_left = limits.wall
        self._started = time.monotonic()
        self._ended: Ended | None = None
        self._verdict: tuple[type[Exception], str] | None = None

    @property
    def printed(self) -> str:
        """What the code printed so far, its first 64 KiB, without control characters."""
        return plain(bytes(self._channel.log).decode("utf-8", "replace"), _MOST_PRINTED)

    def perform(self, request: Request) -> Reply:
        """Ask the worker. Raises StudentRaised, WorkerTimedOut or WorkerCrashed; SandboxBroken where the grader is at fault."""
        if self._verdict is None:
            nonce = secrets.token_hex(16)
            data = self._setup + wire.encode_request(request, nonce)
            self._setup = b""
            before = time.monotonic()
            try:
                answer = wire.decode_answer(self._channel.exchange(data, self._seconds_left), nonce)
                if isinstance(request, Make) and isinstance(answer, Reply) and answer.module is None:
                    raise WireError("it names no module")
            except OutOfTime:
                self._give_up(WorkerTimedOut, f"gave no answer within {_number(self._limits.wall)} seconds")
            except Gone:
                self._give_up(*_cause(self._reaped(), self._limits))
            except WireError as error:
                self._give_up(WorkerCrashed, f"answered with something that is not an answer: {error}")
            else:
                return self._received(answer)
            finally:
                self._seconds_left -= time.monotonic() - before
        assert self._verdict is not None
        kind, message = self._verdict
        raise kind(message)

    def end(self) -> None:
        """End the worker, read the rest of its log and note what it used. The channel is closed by whoever made it."""
        with contextlib.suppress(ZygoteDied, SandboxBroken):
            ended = self._reaped()
            self.usage = Usage(ended.cpu_seconds, time.monotonic() - self._started, ended.max_rss_mib)
        self._channel.drain_log()

    def _received(self, answer: Reply | wire.Failure) -> Reply:
        if isinstance(answer, Reply):
            return answer
        if answer.reason == "raised" and not _is_out_of_memory(answer):
            raise StudentRaised(answer.kinds, answer.message, answer.where)
        if answer.reason in ("raised", "memory"):
            raise WorkerCrashed(_too_much_memory(self._limits))
        if answer.reason == "too large":
            raise WorkerCrashed("returned more than can be sent back: far more values than the inputs account for")
        raise WorkerCrashed(f"broke the process that ran it: {answer.message}")

    def _give_up(self, kind: type[Exception], message: str) -> None:
        self._reaped()
        self._verdict = (kind, message)

    def _reaped(self) -> Ended:
        if self._ended is None:
            try:
                self._ended = self._zygote.reap(self._pid)
            except ZygoteDied as error:
                raise SandboxBroken(str(error)) from error
        return self._ended


def _decoded(decode: Callable[[bytes], T], frame: bytes) -> T:
    """A worker's first frame, which comes from before any student's code: where it is wrong, the grader is at fault."""
    try:
        return decode(frame)
    except WireError as error:
        raise SandboxBroken(f"a worker could not be started ({error})") from error


def _cause(ended: Ended, limits: Limits) -> tuple[type[Exception], str]:
    """Why a worker that ended without an answer did so."""
    # The kernel counts by ticks for the limit and exactly for the figure, and on a busy machine the two differ by a lot.
    if ended.signal == signal.SIGXCPU or (ended.signal == signal.SIGKILL and ended.cpu_seconds > limits.cpu_seconds / 2):
        seconds = f"{limits.cpu_seconds} second{'s' if limits.cpu_seconds != 1 else ''}"
        return WorkerTimedOut, f"took more than {seconds} of processor time"
    if ended.signal:
        return WorkerCrashed, f"the process was ended by {_signal_name(ended.signal)}"
    if ended.status == wire.OUT_OF_MEMORY:
        return WorkerCrashed, _too_much_memory(limits)
    return WorkerCrashed, f"the code ended the process itself (exit status {ended.status})"


def _is_out_of_memory(failure: wire.Failure) -> bool:
    return "MemoryError" in failure.kinds or "can't allocate memory" in failure.message or failure.message == "std::bad_alloc"


def _too_much_memory(limits: Limits) -> str:
    return f"needed more than {limits.memory_mib} MiB of memory"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _number(value: float) -> str:
    return f"{value:g}"
