"""Landlock, denying everything: a second lock behind the first, in kernels that have it (Linux 5.13 and later).

A ruleset without rules forbids each access that it handles: to files, to TCP ports, to abstract sockets and by signals.
"""

from __future__ import annotations

import ctypes
import os
import struct

_CREATE_RULESET, _RESTRICT_SELF = 444, 446  # the same number on every architecture
_ASK_VERSION = 1
_FILE_RIGHTS = ((1, 13), (2, 14), (3, 15), (5, 16))  # from this version on, so many lowest bits
_PORT_RIGHTS, _SCOPES = 3, 3  # bind and connect; abstract sockets and signals


def version() -> int:
    """The version of Landlock that this kernel has; 0 where there is none, or where it is switched off."""
    answer: int = _libc().syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)
    return max(answer, 0)


def deny_everything(of_version: int) -> None:
    """Give up every right that this version knows. Needs no_new_privs set before. Raises OSError where that is refused."""
    files = next(bits for since, bits in reversed(_FILE_RIGHTS) if of_version >= since)
    attributes = struct.pack("Q", (1 << files) - 1)
    if of_version >= 4:
        attributes += struct.pack("Q", _PORT_RIGHTS)
    if of_version >= 6:
        attributes += struct.pack("Q", _SCOPES)
    libc = _libc()
    ruleset: int = libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset was refused")
    try:
        if libc.syscall(_RESTRICT_SELF, ruleset, 0) != 0:
            raise OSError(ctypes.get_errno(), "landlock_restrict_self was refused")
    finally:
        os.close(ruleset)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
