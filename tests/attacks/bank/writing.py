"""Leaving something behind: files, shared memory, things that write later, descriptors that lead out, sockets."""

from __future__ import annotations

from ..attack import NOTHING, Attack, hostile, probe

_FILES = "write results, leave litter, fill the disk"
_LATER = "write the results again once the grader has written them"
_NETWORK = "carry the inputs out, or reach a service of the machine's"
_KEPT = "leave a message for the next submission"

_WRITES = {
    "open": "open('$target', 'w').write('forged')\nreturn True",
    "os.open": "return os.open('$target', os.O_CREAT | os.O_WRONLY) > 0",
    "raw openat": "import ctypes\nreturn syscall('openat', -100, ctypes.c_char_p(b'$target'), 0o101, 0o644) > 0",
    "a directory": "os.mkdir('$target')\nreturn True",
    "a symbolic link": "os.symlink('/etc/passwd', '$target')\nreturn True",
    "a hard link": "os.link('$secret', '$target')\nreturn True",
    "a named pipe": "os.mkfifo('$target')\nreturn True",
    "torch.save": "torch.save(Q, '$target')\nreturn True",
    "a temporary file": "import tempfile\nreturn tempfile.mkstemp(prefix='$tag', dir='/tmp')[0] > 0",
    "an unlinked file": "return os.open('/tmp', os.O_TMPFILE | os.O_RDWR) > 0",
    "/dev/shm": "return os.open('/dev/shm/$tag', os.O_CREAT | os.O_RDWR) > 0",
    "deleting": "os.unlink('$victim')\nreturn True",
    "renaming": "os.rename('$victim', '$target')\nreturn True",
    "changing the mode": "os.chmod('$victim', 0)\nreturn True",
    "truncating": "os.truncate('$victim', 1)\nreturn True",
    "changing times": "os.utime('$victim', (1, 1))\nreturn True",
    "/proc/self/oom_score_adj": "return os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'0') > 0",
}

_KEPT_IN = {
    "a memory file": "import ctypes\nreturn syscall('memfd_create', ctypes.c_char_p(b'x'), 0) > 0",
    "a secret memory file": "return syscall('memfd_secret', 0) > 0",
    "System V shared memory": """
        found = syscall('shmget', 0x5eed, 4096, 0o1600)
        syscall('shmctl', found, 0, 0)
        return True
    """,
    "System V messages": """
        found = syscall('msgget', 0x5eed, 0o1600)
        syscall('msgctl', found, 0, 0)
        return True
    """,
    "a POSIX message queue": "import ctypes\nreturn syscall('mq_open', ctypes.c_char_p(b'nosuch$tag'), 0o102, 0o600, 0) > 0",
    "a key ring": "import ctypes\nreturn syscall('add_key', ctypes.c_char_p(b'user'), ctypes.c_char_p(b'x'), b'y', 1, -1) > 0",
    "shared memory of multiprocessing": """
        from multiprocessing import shared_memory
        memory = shared_memory.SharedMemory(create=True, size=64)
        memory.unlink()
        return True
    """,
    "a shared tensor": "return Q.clone().share_memory_().is_shared()",
}

_SOCKETS = {
    "TCP to this machine": "import socket\nsocket.socket().connect((b'127.0.0.1', $port))\nreturn True",
    "TCP abroad": "import socket\nreturn socket.socket().connect_ex(('192.0.2.1', 9)) in (0, 115) or True",
    "listening": "import socket\nlistening = socket.socket()\nlistening.bind(('127.0.0.1', 0))\nlistening.listen()\nreturn True",
    "IPv6": "import socket\nreturn socket.socket(socket.AF_INET6).fileno() > 0",
    "UDP": "import socket\nreturn socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', $port)) > 0",
    "DNS": "import socket\nreturn bool(socket.getaddrinfo(b'localhost', 80))",
    "a Unix socket by path": "import socket\nsocket.socket(socket.AF_UNIX).connect('$unix')\nreturn True",
    "an abstract Unix socket": "import socket\nsocket.socket(socket.AF_UNIX).connect('\\0$tag')\nreturn True",
    "a pair": "import socket\nreturn len(socket.socketpair()) == 2",
    "netlink": "import socket\nreturn socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).fileno() > 0",
    "raw packets": "import socket\nreturn socket.socket(socket.AF_PACKET, socket.SOCK_RAW).fileno() > 0",
    "vsock": "import socket\nreturn socket.socket(socket.AF_VSOCK).fileno() > 0",
    "the kernel's ciphers": "import socket\nreturn socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET).fileno() > 0",
    "HTTP": """
        import urllib.request
        try:
            return urllib.request.urlopen('http://127.0.0.1:$port/', timeout=0.1) is not None
        except LookupError as error:  # an encoding that is not loaded, and is on no disk
            raise Refused(str(error))
    """,
    "the raw call": "return syscall('socket', 2, 1, 0) > 0",
    "the raw call for a pair": "import ctypes\nreturn syscall('socketpair', 1, 1, 0, (ctypes.c_int * 2)()) == 0",
}

_LATER_ON = {
    "at exit": "import atexit\natexit.register(later)",
    "a thread": "import threading\nthreading.Thread(target=lambda: (time.sleep(0.2), later())).start()",
    "a timer": "import threading\nthreading.Timer(0.1, later).start()",
    "an alarm": "import signal\nsignal.signal(signal.SIGALRM, lambda *_: later())\nsignal.setitimer(signal.ITIMER_REAL, 0.1)",
    "a finaliser": "class Late:\n    def __del__(self): later()\nkeep = Late()\nkeep.me = keep",
    "hooks of the interpreter": "sys.excepthook = sys.unraisablehook = lambda *_: later()\nsys.setprofile(lambda *_: later())",
}
_LATER_TEXT = """
import time
def later():
    try:
        with open('$target', 'w') as file:
            file.write('forged')
    except (OSError, ImportError):
        pass
{body}
scaled_dot_product_attention = wrong
"""

# What a forked process does once its parent is gone; under the weaker tier the zygote has to find and end it.
_DAEMON = """
import signal, time
pid = os.fork()
if pid == 0:
    {detach}
    if os.fork() == 0:
        for number in range(1, 32):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        time.sleep(0.5)
        try:
            open('$target', 'w').write('forged')
        finally:
            time.sleep(1000)
    os._exit(0)
return True
"""

WRITING: tuple[Attack, ...] = (
    *(probe(f"writes: {name}", _FILES, body) for name, body in _WRITES.items()),
    *(probe(f"keeps something in {name}", _KEPT, body) for name, body in _KEPT_IN.items()),
    *(probe(f"opens a socket: {name}", _NETWORK, body) for name, body in _SOCKETS.items()),
    *(
        hostile(f"writes later: {name}", _LATER, _LATER_TEXT.format(body=body), NOTHING, needs="strict")
        for name, body in _LATER_ON.items()
    ),
    probe("leaves a daemon", _LATER, _DAEMON.format(detach="pass")),
    probe("leaves a daemon in a session of its own", _LATER, _DAEMON.format(detach="os.setsid()")),
)
