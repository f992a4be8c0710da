"""Another user for each worker, where the grader runs as root: what that user may do, no other process shares."""

from __future__ import annotations

import os
import resource

# Far above any real user's, so that limits that count by user count this worker alone. A user namespace may map no such
# numbers (a container's often ends at 65 535); then the second range, which no system's own users come from.
_RANGES = ((1 << 30, 1 << 22), (61_000, 4_000))
_MOST_THREADS = 128


def become_nobody(pid: int) -> None:
    """Give up root for a user and group that follow from the process's number. Raises OSError where that is refused."""
    os.setgroups([])
    problem: OSError | None = None
    for first, count in _RANGES:
        number = first + pid % count
        try:
            os.setresgid(number, number, number)
            os.setresuid(number, number, number)
        except OSError as error:
            problem = error
            continue
        resource.setrlimit(resource.RLIMIT_NPROC, (_MOST_THREADS, _MOST_THREADS))
        return
    raise problem or OSError("no user number could be had")
