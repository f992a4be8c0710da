"""The grader's ends of one worker's three pipes. No call here waits longer than it is told to, whatever the worker does."""

from __future__ import annotations

import contextlib
import os
import select
import time

from .framing import MAX_FRAME, PREFIX, WireError, length

_CHUNK = 1 << 20
_MOST_READS = 64  # in a row, before the clock is looked at again: whoever writes byte by byte must not keep a loop going
_MOST_LOG = 64 << 10  # bytes kept; the rest is read and dropped, so that printing never blocks a worker


class OutOfTime(Exception):
    """The deadline passed before the whole answer was there."""


class Gone(Exception):
    """The worker ended, or closed its end, before the whole answer was there."""


class Channel:
    """Makes three pipes. `far` are the worker's ends: requests to read, answers to write, log to write.

    `cap` is the length in bytes of the longest answer that is read.
    """

    def __init__(self, cap: int = MAX_FRAME) -> None:
        self.log = bytearray()
        self._cap = cap
        self._open: set[int] = set()
        try:
            (request, self._request), (self._answer, answer), (self._log, log) = self._pipe(), self._pipe(), self._pipe()
        except OSError:
            self.close()
            raise
        self.far = (request, answer, log)
        self._death = -1
        self._log_ended = False
        for descriptor in (self._request, self._answer, self._log):
            os.set_blocking(descriptor, False)

    def attach(self, pid: int) -> None:
        """The worker has its ends: close them here, and watch for its end too, since what it left behind may hold them open."""
        for descriptor in self.far:
            self._close(descriptor)
        with contextlib.suppress(OSError, AttributeError):  # Linux 5.3; without it the deadline is what is left
            self._death = os.pidfd_open(pid)
            self._open.add(self._death)

    def exchange(self, data: bytes, seconds: float) -> bytes:
        """Send `data` and return the one frame that answers it, reading the log meanwhile.

        Raises OutOfTime, Gone, or WireError where there is an answer before the question, more than one, or one too long.
        """
        deadline = time.monotonic() + seconds
        unsent, answer = memoryview(data), bytearray()
        if unsent:
            self._expect_silence()
        wanted = self._missing(answer)
        while unsent or wanted:
            left = deadline - time.monotonic()
            if left <= 0:
                raise OutOfTime
            ready = self._wait(left, writing=bool(unsent))
            if ready.get(self._log):
                self.drain_log()
            if unsent and ready.get(self._request):
                unsent = self._send(unsent)
            if self._answer in ready or self._death in ready:
                self._read(answer)
                wanted = self._missing(answer)
                if wanted and self._death in ready:
                    raise Gone
            if answer and not wanted and unsent:
                raise WireError("it was sent before the question was read")
        self.drain_log()
        return bytes(answer)

    def drain_log(self) -> None:
        """Read what is in the log now; about as much as a pipe holds and no more, since its writer may go on for ever."""
        most = _CHUNK
        for _ in range(_MOST_READS):
            if most <= 0 or self._log_ended:
                return
            try:
                chunk = os.read(self._log, most)
            except BlockingIOError:
                return
            self._log_ended = not chunk
            self.log += chunk[: _MOST_LOG - len(self.log)]
            most -= len(chunk)

    def close(self) -> None:
        """Close every descriptor that is still open here."""
        for descriptor in list(self._open):
            self._close(descriptor)

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        self._open.update(ends)
        return ends

    def _close(self, descriptor: int) -> None:
        self._open.discard(descriptor)
        os.close(descriptor)

    def _wait(self, seconds: float, writing: bool) -> dict[int, int]:
        poll = select.poll()
        poll.register(self._answer, select.POLLIN)
        if not self._log_ended:
            poll.register(self._log, select.POLLIN)
        if writing:
            poll.register(self._request, select.POLLOUT)
        if self._death >= 0:
            poll.register(self._death, select.POLLIN)
        return dict(poll.poll(max(1, int(seconds * 1000))))

    def _expect_silence(self) -> None:
        with contextlib.suppress(BlockingIOError):
            if os.read(self._answer, 1):
                raise WireError("it was sent before the question")
            raise Gone

    def _send(self, unsent: memoryview) -> memoryview:
        try:
            return unsent[os.write(self._request, unsent[:_CHUNK]) :]
        except BlockingIOError:
            return unsent
        except BrokenPipeError:
            raise Gone from None

    def _read(self, answer: bytearray) -> None:
        """Read what there is of an answer, but never more than one byte too many, and not for ever."""
        for _ in range(_MOST_READS):
            missing = self._missing(answer)
            try:
                chunk = os.read(self._answer, min(missing + 1, _CHUNK))
            except BlockingIOError:
                break
            if not chunk:
                if missing:
                    raise Gone
                break
            answer += chunk

    def _missing(self, answer: bytearray) -> int:
        """How many bytes of the frame are not there yet, as far as is known. WireError where there are too many already."""
        whole = length(answer, self._cap) if len(answer) >= PREFIX else PREFIX
        if len(answer) > whole:
            raise WireError("there is more than one")
        return whole - len(answer)
