"""Using up time, memory, processes and patience, and ending in ways that a grader might not survive."""

from __future__ import annotations

from ..attack import BROKEN, CRASHED, FAILED, NOTHING, PUBLIC, RAISED, RIGHT, TIMED_OUT, Attack, hostile

_CPU = "loop for ever, whatever it is told"
_HOLD = "hold the interpreter inside one call of C, so that no thread or signal handler of Python's runs"
_SLEEP = "answer never, and use nothing meanwhile"
_MEMORY = "use up the machine's memory"
_THREADS = "start threads without end"
_FLOOD = "fill a pipe or a disk with what it prints"
_CRASH = "take the process down with it"
_EXIT = "end the process, and with it the grader, with a status that says all is well"

# Bodies of the function. Each is asked one check alone, since each of those costs its whole limit.
_BURN = {
    "a loop": (_CPU, "while True: pass", TIMED_OUT),
    "a loop that ignores and blocks signals": (
        _CPU,
        """
        import signal
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        while True: pass
        """,
        TIMED_OUT,
    ),
    "a loop that catches all": (
        _CPU,
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        TIMED_OUT,
    ),
    "a loop in another thread": (
        _CPU,
        "import threading\ndef loop():\n    while True: pass\nthreading.Thread(target=loop).start()\nloop()",
        TIMED_OUT,
    ),
    "a very large power": (_HOLD, "return 3 ** (10 ** 9)", TIMED_OUT | CRASHED),
    "a regular expression": (_HOLD, "import re\nre.match('(a+)+b', 'a' * 64)", TIMED_OUT),
    "a sort that compares for ever": (_HOLD, "sum(range(10 ** 12))", TIMED_OUT),
    "a product of large matrices": (_HOLD, "big = torch.ones(4000, 4000)\nwhile True: big = big @ big", TIMED_OUT),
    "sleep": (_SLEEP, "import time\ntime.sleep(1000)", TIMED_OUT),
    "a stop": (_SLEEP, "import signal\nos.kill(os.getpid(), signal.SIGSTOP)", TIMED_OUT | CRASHED),
    "a million threads": (
        _THREADS,
        """
        import threading, time
        for _ in range(1_000_000):
            threading.Thread(target=time.sleep, args=(1000,)).start()
        """,
        BROKEN,
    ),
    "a flood": (_FLOOD, "for _ in range(500): print('x' * 100_000)\nreturn wrong(Q, K, V)", TIMED_OUT | FAILED),
    "a flood past Python": (
        _FLOOD,
        "for _ in range(500): os.write(2, b'x' * 100_000)\nreturn wrong(Q, K, V)",
        TIMED_OUT | FAILED,
    ),
}

# Under a limit on addresses these are refused, mostly with an exception.
_HOGS = {
    "a string": "return 'x' * (1 << 40)",
    "bytes little by little": "kept = []\nwhile True: kept.append(bytearray(1 << 22))",
    "a tensor": "return torch.ones(1 << 36)",
    "tensors little by little": "kept = []\nwhile True: kept.append(torch.ones(1 << 20))",
    "memory that is never touched": "import mmap\nkept = []\nwhile True: kept.append(mmap.mmap(-1, 1 << 28))",
    "a lazy tensor made real": "return torch.zeros(1).expand(1 << 36).contiguous()",
    "a list of itself": "kept = [0]\nwhile True: kept *= 2",
    "shared memory": "import mmap\nkept = []\nwhile True: kept.append(mmap.mmap(-1, 1 << 26, flags=mmap.MAP_SHARED))",
    "an answer that is too long": "return torch.zeros(1 << 24), torch.zeros(1)",
    "an answer of very many tensors": "return tuple(torch.zeros(1) for _ in range(100_000))",
    "an answer that holds itself": "kept = []\nkept.append(kept)\nreturn kept, kept",
    "an answer that goes deep": "kept = ()\nfor _ in range(100_000): kept = (kept,)\nreturn kept",
}

_DEATHS = {
    "os._exit(0)": (_EXIT, "os._exit(0)", CRASHED),
    "exit_group": (_EXIT, "import ctypes\nctypes.CDLL(None)._exit(0)", CRASHED),
    "sys.exit(0)": (_EXIT, "sys.exit(0)", RAISED),
    "SystemExit": (_EXIT, "raise SystemExit", RAISED),
    "KeyboardInterrupt": (_EXIT, "raise KeyboardInterrupt", RAISED),
    "an exception that is no Exception": (_EXIT, "class Mine(BaseException): pass\nraise Mine", RAISED),
    "SIGINT": (_EXIT, "import signal\nos.kill(os.getpid(), signal.SIGINT)\nwhile True: pass", BROKEN),
    "an exception that cannot be shown": (
        _EXIT,
        "class Mine(Exception):\n    def __str__(self): raise SystemExit\n    __repr__ = __str__\nraise Mine",
        RAISED,
    ),
    "an exception that shows itself for ever": (
        _EXIT,
        "class Mine(Exception):\n    def __str__(self): return 'x' * (1 << 28)\nraise Mine",
        BROKEN,
    ),
    "SIGKILL": (_CRASH, "import signal\nos.kill(os.getpid(), signal.SIGKILL)", CRASHED),
    "abort": (_CRASH, "os.abort()", CRASHED),
    "address 0": (_CRASH, "import ctypes\nctypes.string_at(0)", CRASHED),
    "a free of nonsense": (_CRASH, "import ctypes\nctypes.CDLL(None).free(ctypes.c_void_p(64))", CRASHED),
    "the stack of C": (_CRASH, "sys.setrecursionlimit(1 << 30)\ndef f(*a): return max([1], key=f)\nreturn f()", BROKEN),
    "broken code objects": (
        _CRASH,
        "import types\nf = lambda: 0\nf.__code__ = f.__code__.replace(co_code=b'\\xff' * 64)\nf()",
        BROKEN,
    ),
    "endless recursion": (_CRASH, "return scaled_dot_product_attention(Q, K, V)", RAISED),
    "closing all descriptors": (_CRASH, "os.closerange(0, 256)\nreturn wrong(Q, K, V)", CRASHED),
    "closing standard output": (_CRASH, "sys.stdout.close()\nsys.stdout = sys.stderr = None\nreturn wrong(Q, K, V)", NOTHING),
    "ending torch": (_CRASH, "torch.set_grad_enabled = torch.Tensor.detach = None\nreturn wrong(Q, K, V)", NOTHING),
}
_IN_CALL = "def scaled_dot_product_attention(Q, K, V, causal=False):\n"


def _function(body: str) -> str:
    lines = [line for line in body.strip("\n").splitlines() if line.strip()]
    margin = len(lines[0]) - len(lines[0].lstrip())
    return _IN_CALL + "\n".join(f"    {line[margin:]}" for line in lines)


def _whole(name: str, body: str, outcomes: frozenset[str]) -> Attack:
    """The reference with a file that ends the process when it is imported: the other parts keep their points."""
    attack = hostile(name, _EXIT, body, outcomes, base=RIGHT, checks=())
    return Attack(attack.name, attack.row, attack.files, attack.base, outcomes, (), replaces_reference=True)


BURNING: tuple[Attack, ...] = (
    *(hostile(f"burns: {name}", row, _function(body), ends, checks=PUBLIC) for name, (row, body, ends) in _BURN.items()),
    hostile("burns: a loop at import", _CPU, "while True: pass", TIMED_OUT, checks=PUBLIC),
    *(hostile(f"hogs: {name}", _MEMORY, _function(body), NOTHING, checks=PUBLIC) for name, body in _HOGS.items()),
    *(hostile(f"ends by {name}", row, _function(body), ends, checks=PUBLIC) for name, (row, body, ends) in _DEATHS.items()),
    _whole("ends by os._exit(0) at import", "os._exit(0)", CRASHED),
    hostile("ends by SystemExit at import", _EXIT, "raise SystemExit(0)", RAISED),
)
