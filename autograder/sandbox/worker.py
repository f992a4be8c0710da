"""The far end of the wire, inside a forked and confined process: requests in, answers out, a student's code in between.

Nothing that this process says is believed by the grader; that it answers well-formed frames is a matter of clear messages.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence

from checks.calls import Request
from checks.errors import StudentRaised
from checks.executor import Direct
from checks.package import Package

from . import kernels, preflight, wire
from .framing import PREFIX, WireError, length


def serve(request_fd: int, response_fd: int, isolation: str) -> None:
    """Say what confines this process, read the sources, answer requests until there are none. Ends the process."""
    status = 0
    try:
        _print_lines_at_once()
        _write(response_fd, wire.encode_ready(isolation))
        setup = _read_frame(request_fd)
        if setup is not None:
            sources, layout = wire.decode_setup(setup)
            direct = Direct(Package(sources, layout.package), layout, capture=False)  # the log pipe does
            forbidden = None if layout.ready_made else kernels.forbid(direct.of_substitute)  # noqa: F841 - holds while it lives
            while (frame := _read_frame(request_fd)) is not None:
                nonce, request = wire.decode_request(frame)
                del frame
                answer = _answer(direct, request, nonce)
                with contextlib.suppress(BaseException):  # it may be the student's own object by now
                    sys.stdout.flush()
                _write(response_fd, answer)
    except MemoryError:
        status = wire.OUT_OF_MEMORY
    except BaseException as error:
        status = wire.BROKEN
        with contextlib.suppress(BaseException):
            print(f"worker: {type(error).__name__}: {error}", file=sys.__stderr__, flush=True)
    finally:
        os._exit(status)


def try_everything(response_fd: int, isolation: str, hidden: str, pids: Sequence[int]) -> None:
    """Say what confines this process and what it can do all the same. Ends the process, or becomes another program."""
    try:
        _write(response_fd, wire.encode_preflight(isolation, preflight.attempts(hidden, pids)))
    finally:
        preflight.become_another_program()


def _answer(direct: Direct, request: Request, nonce: str) -> bytes:
    try:
        return wire.encode_reply(direct.perform(request), nonce)
    except StudentRaised as error:
        failure = wire.Failure("raised", error.kinds, error.message, error.where)
    except MemoryError:
        failure = wire.Failure("memory")
    except WireError:
        failure = wire.Failure("too large")
    except KeyboardInterrupt:  # the executor lets it pass, for the one on a student's desk
        failure = wire.Failure("raised", ("KeyboardInterrupt", "BaseException"))
    except BaseException as error:
        failure = wire.Failure("broken", message=f"{type(error).__name__}: {error}")
    return wire.encode_failure(failure, nonce)


def _print_lines_at_once() -> None:
    """New streams over the log: the old ones belong to the zygote's /dev/null. By lines, so that a crash loses little."""
    sys.stdout = sys.__stdout__ = _lines(1)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _lines(2)  # type: ignore[misc]


def _lines(descriptor: int) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True)


def _read_frame(descriptor: int) -> bytes | None:
    """One whole frame; None where there are no more."""
    prefix = _read(descriptor, PREFIX)
    if prefix is None:
        return None
    rest = _read(descriptor, length(prefix) - PREFIX)
    return None if rest is None else prefix + rest


def _read(descriptor: int, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        chunk = os.read(descriptor, min(count - len(data), 1 << 20))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
