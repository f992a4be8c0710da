"""What an attack is: a hostile submission, what it tries, and what its report must say. Its text is data, and never run here."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

PART = "scaled_dot_product"
FILE = "attention/scaled_dot_product.py"

# One check whose every detail a student reads, and one of which he reads nothing; both need right values to pass.
FEW = ("test_matches_library", "test_scale_follows_the_width")
PUBLIC = ("test_matches_library",)

FAILED = frozenset({"failed"})
CRASHED = frozenset({"crashed"})
TIMED_OUT = frozenset({"timed out"})
RAISED = frozenset({"raised"})
BROKEN = CRASHED | RAISED | TIMED_OUT  # the answer never came
NOTHING = BROKEN | FAILED | {"not started", "skipped"}  # whatever it is, it is no pass

# Every hostile file begins with this: the right answer, a wrong one, and what an attack that goes below Python needs.
HEADER = '''
import os, sys
import torch


class Refused(Exception):
    """What was tried was not to be had."""


def right(Q, K, V, causal=False):
    scores = Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


def wrong(Q, K, V, causal=False):
    leading = torch.broadcast_shapes(Q.shape[:-2], K.shape[:-2], V.shape[:-2])
    return Q.new_zeros(*leading, Q.shape[-2], V.shape[-1]), Q.new_zeros(*leading, Q.shape[-2], K.shape[-2])


# By name: the number on x86-64 and on aarch64, None where it has no such call.
NUMBERS = {
    "open": (2, None), "stat": (4, None), "openat": (257, 56), "newfstatat": (262, 79), "statx": (332, 291),
    "openat2": (437, 437), "access": (21, None), "readlink": (89, None), "getdents64": (217, 61), "memfd_create": (319, 279),
    "memfd_secret": (447, 447), "name_to_handle_at": (303, 264), "inotify_init1": (294, 26), "fanotify_init": (300, 262),
    "socket": (41, 198), "socketpair": (53, 199), "fork": (57, None), "vfork": (58, None), "clone": (56, 220),
    "clone3": (435, 435), "execve": (59, 221), "execveat": (322, 281), "kill": (62, 129), "tkill": (200, 130),
    "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438), "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "kcmp": (312, 272), "prctl": (157, 167), "prlimit64": (302, 261), "setrlimit": (160, 164),
    "setsid": (112, 157), "setpgid": (109, 154), "setpriority": (141, 140), "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119), "seccomp": (317, 277), "setuid": (105, 146), "setgid": (106, 144),
    "setresuid": (117, 147), "capset": (126, 91), "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40),
    "umount2": (166, 39), "chroot": (161, 51), "pivot_root": (155, 41), "fsopen": (430, 430), "open_tree": (428, 428),
    "personality": (135, 92), "add_key": (248, 217), "keyctl": (250, 219), "bpf": (321, 280), "userfaultfd": (323, 282),
    "perf_event_open": (298, 241), "io_uring_setup": (425, 425), "io_setup": (206, 0), "shmget": (29, 194),
    "shmctl": (31, 195), "msgget": (68, 186), "msgctl": (71, 187), "semget": (64, 190), "mq_open": (240, 180),
    "init_module": (175, 105), "sethostname": (170, 161), "syslog": (103, 116), "acct": (163, 89), "landlock": (444, 444),
}


def syscall(name, *arguments):
    """The system call itself, past all of Python. Raises OSError where the kernel refuses."""
    import ctypes

    number = NUMBERS[name][0 if os.uname().machine == "x86_64" else 1]
    if number is None:
        raise Refused(name)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    passed = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = libc.syscall(ctypes.c_long(number), *passed)
    if result == -1:
        raise OSError(ctypes.get_errno(), name)
    return result


def reaches(name, *arguments):
    """Whether the kernel looks at this call at all, whatever it then says of the arguments."""
    try:
        syscall(name, *arguments)
    except OSError as error:
        if error.errno in (1, 13, 38):  # EPERM, EACCES, ENOSYS
            raise
    return True


def forget():
    """Make Python look for everything of these names anew."""
    for name in list(sys.modules):
        if name.partition(".")[0] in ("checks", "attention", "sandbox", "autograder"):
            del sys.modules[name]


def bottom():
    """The outermost frame of the worker's that holds the number which an answer has to bring back."""
    frame = sys._getframe()
    while frame is not None and "nonce" not in frame.f_locals:
        frame = frame.f_back
    return frame


def send(header, blob=b"", sizes=None):
    """A frame of one's own making on the pipe for answers."""
    import struct

    data = struct.pack(">II", *(sizes or (len(header), len(blob)))) + header + blob
    while data:
        data = data[os.write(4, data):]
'''

# What tries something and tells by its answer how that went: a right one is got by nobody who was held off.
_PROBE = """

def attempt(Q, K, V):
$body


def scaled_dot_product_attention(Q, K, V, causal=False):
    try:
        through = attempt(Q, K, V)
    except (OSError, ImportError, EOFError, RuntimeError, Refused) as error:
        print("refused:", type(error).__name__, error)
        through = False
    return (right if through else wrong)(Q, K, V, causal)
"""


@dataclass(frozen=True)
class Attack:
    """One hostile submission: `files` beside `attention/__init__.py`, by path, in which $names are still to be filled in.

    It must earn no more than `base`, the same submission without the attack; its part's checks must end in one of `outcomes`;
    and whatever it is, nothing of the runner's may be read, written, connected to or left behind.
    """

    name: str
    row: str  # what it does to a grader that is not ready for it
    files: Mapping[str, str]
    base: Mapping[str, str]
    outcomes: frozenset[str]
    checks: tuple[str, ...] = FEW
    needs: str = "limits"  # "strict": only a confinement of that name is meant to hold it off
    policy: str = ""  # why it is known to get through: a rule and no boundary
    never: tuple[str, ...] = ()  # what must not be read in any hidden check's entry
    replaces_reference: bool = False  # graded with the reference's other parts, all of which must have full marks


def text(body: str) -> str:
    """A hostile file with `HEADER` above it."""
    return HEADER + textwrap.dedent(body)


WRONG = {FILE: text("scaled_dot_product_attention = wrong\n")}
RIGHT = {FILE: text("scaled_dot_product_attention = right\n")}


def probe(name: str, row: str, body: str, needs: str = "strict", outcomes: frozenset[str] = FAILED, policy: str = "") -> Attack:
    """An attack that tries something. `body` is a function's, of Q, K and V, true where it succeeded; an OSError is a refusal.

    A NameError or the like ends the check as `raised`, so that a probe that is itself wrong is found out.
    """
    indented = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    source = HEADER + _PROBE.replace("$body", indented)
    return Attack(name, row, {FILE: source}, WRONG, outcomes, PUBLIC, needs, policy)


def hostile(
    name: str,
    row: str,
    body: str,
    outcomes: frozenset[str],
    base: Mapping[str, str] = WRONG,
    checks: tuple[str, ...] = FEW,
    needs: str = "limits",
    never: tuple[str, ...] = (),
    more: Mapping[str, str] | None = None,
    policy: str = "",
) -> Attack:
    """An attack that is a whole file, which defines `scaled_dot_product_attention` itself; `more` are further files."""
    return Attack(name, row, {FILE: text(body), **(more or {})}, base, outcomes, checks, needs, policy, never)


def raw(name: str, row: str, source: str, outcomes: frozenset[str] = BROKEN, checks: tuple[str, ...] = PUBLIC) -> Attack:
    """An attack that is the exact text of the file."""
    return Attack(name, row, {FILE: source.replace("$", "$$")}, WRONG, outcomes, checks)
