"""Reading what is none of a student's business: files, the grader's own memory and environment, hidden checks, descriptors."""

from __future__ import annotations

from ..attack import Attack, probe

_FILES = "read the tests and the answers from the disk"
_GRADER = "read the grader through /proc"
_SELF = "look for answers in its own process"

_READS = {
    "open": "return '$token' in open('$secret').read()",
    "os.open": "return b'$token' in os.read(os.open('$secret', os.O_RDONLY), 100)",
    "io.FileIO": "import io\nreturn b'$token' in io.FileIO('$secret').read()",
    "numpy.fromfile": "import numpy\nreturn numpy.fromfile('$secret', dtype='uint8').size > 0",
    "torch.from_file": "return torch.from_file('$secret', size=4, dtype=torch.uint8).numel() == 4",
    "linecache": "import linecache\nreturn any('$token' in line for line in linecache.getlines('$secret'))",
    "mmap": "import mmap\nreturn mmap.mmap(os.open('$secret', 0), 0, prot=mmap.PROT_READ).size() > 0",
    "raw open": "import ctypes\nreturn os.read(syscall('open', ctypes.c_char_p(b'$secret'), 0), 9) != b''",
    "raw openat": "import ctypes\nreturn os.read(syscall('openat', -100, ctypes.c_char_p(b'$secret'), 0), 9) != b''",
    "raw openat2": """
        import ctypes
        how = (ctypes.c_uint64 * 3)(0, 0, 0)
        return os.read(syscall('openat2', -100, ctypes.c_char_p(b'$secret'), how, 24), 9) != b''
    """,
    "raw open by file handle": """
        import ctypes
        handle, mount = (ctypes.c_uint32 * 40)(128), ctypes.c_int()
        return syscall('name_to_handle_at', -100, ctypes.c_char_p(b'$secret'), handle, ctypes.byref(mount), 0) == 0
    """,
    "libc fopen": """
        import ctypes
        libc = ctypes.CDLL(None)
        libc.fopen.restype = ctypes.c_void_p
        return bool(libc.fopen(b'$secret', b'r'))
    """,
    "a path relative to a descriptor": "return os.open('.$secret', os.O_RDONLY, dir_fd=os.open('/', os.O_RDONLY)) > 0",
    "/etc/passwd": "return 'root' in open('/etc/passwd').read()",
    "the repository's tests": "return 'scale' in open('$root/autograder/checks/scaled_dot_product.py').read()",
    "the reference": "return 'softmax' in open('$root/solutions/attention/scaled_dot_product.py').read()",
    "what is installed": "return len(os.listdir(sys.prefix)) > 0",
    "listing /": "return len(os.listdir('/')) > 0",
    "listing by scandir": "return any(os.scandir('/tmp'))",
    "listing by glob": "import glob\nreturn bool(glob.glob('/*'))",
    "stat as an oracle": "return os.stat('$secret').st_size > 0",
    "statx as an oracle": """
        import ctypes
        found = ctypes.create_string_buffer(256)
        return syscall('statx', -100, ctypes.c_char_p(b'$secret'), 0, 0xfff, found) == 0
    """,
    "fstatat as an oracle": """
        import ctypes
        found = ctypes.create_string_buffer(256)
        return syscall('newfstatat', -100, ctypes.c_char_p(b'$secret'), found, 0) == 0
    """,
    "access as an oracle": "return os.access('$secret', os.R_OK)",
    "chdir as an oracle": "os.chdir('$folder')\nreturn True",
    "readlink": "return os.readlink('/proc/self/exe') != ''",
    "being told of changes": "return syscall('inotify_init1', 0) >= 0",
}

# Python is made to look for everything anew, in the folders of the repository.
_ANEW = "forget()\nsys.path[:0] = ['$root', '$root/student_template', '$root/solutions']\nimport {}\nreturn True"
_IMPORTS = {
    "the hidden checks": _ANEW.format("autograder.checks.scaled_dot_product"),
    "the public checks": _ANEW.format("checks.test_masking"),
    "the reference": _ANEW.format("attention.streaming"),
    "the tests": _ANEW.format("tests.support"),
    "the hidden checks by their file": """
        import importlib.util
        spec = importlib.util.spec_from_file_location('h', '$root/autograder/checks/common.py')
        spec.loader.get_code('h')
        return True
    """,
    "what the disk has left": "import wave\nreturn True",
}

_PROC = ("environ", "cmdline", "maps", "mem", "fd", "root", "cwd", "status", "auxv", "stack", "task")
_OWN = ("environ", "cmdline", "maps", "mem", "fd", "fdinfo", "root", "status", "mounts", "net/tcp")
_LOOK = """
    path = '/proc/{who}/{what}'
    if '{what}' in ('fd', 'fdinfo', 'root', 'cwd', 'task'):
        return len(os.listdir(path)) > 0
    with open(path, 'rb', buffering=0) as file:
        return '{what}' == 'mem' or len(file.read(16)) > 0
"""

_OWN_PROCESS = {
    "the garbage collector's objects": """
        import gc
        wanted = right(Q, K, V)[0]
        for each in gc.get_objects():
            for found in (each, *gc.get_referents(each)):
                if type(found) is torch.Tensor and found is not wanted and found.shape == wanted.shape:
                    if found.dtype == wanted.dtype and torch.allclose(found, wanted):
                        return True
        raise Refused('no tensor that is the answer')
    """,
    "the frames below": """
        frame = sys._getframe()
        while frame is not None:
            names = set(frame.f_locals) | set(frame.f_globals)
            if {'expected', 'reference', 'check', 'points', 'Student', 'Draw', 'catalog'} & names:
                return True
            frame = frame.f_back
        raise Refused('frames hold inputs and nothing else')
    """,
    "names of hidden checks in memory": """
        import gc
        known = {'autograder', 'test_scale_follows' + '_the_width', 'checks.records', 'checks.compare', 'checks.draw'}
        if known & set(sys.modules):
            return True
        for each in gc.get_objects():
            if type(each) is dict and known & {key for key in each if type(key) is str}:
                return True
        raise Refused('it knows of no hidden check')
    """,
    "the environment": "return '$token' in ''.join(os.environ.values()) or any('TOKEN' in name for name in os.environ)",
    "the environment of libc": """
        import ctypes
        libc = ctypes.CDLL(None)
        libc.getenv.restype = ctypes.c_char_p
        return libc.getenv(b'ATTACK_TOKEN') is not None
    """,
    "the arguments": "return '$token' in str(sys.orig_argv) or '$secret' in str(sys.orig_argv)",
    "descriptors by fstat": """
        found = set()
        for number in range(4096):
            try:
                os.fstat(number)
                found.add(number)
            except OSError:
                pass
        return bool(found - {0, 1, 2, 3, 4})
    """,
    "descriptors by reading": """
        for number in [0, *range(5, 256)]:
            try:
                if os.read(number, 100):
                    return True
            except OSError:
                pass
        return False
    """,
    "descriptors by writing": """
        for number in [3, *range(5, 256)]:  # 0 is /dev/null
            try:
                os.write(number, b'forged')
                return True
            except OSError:
                pass
        return False
    """,
    "directories through descriptors": """
        for number in range(256):
            try:
                os.listdir(number)
                return True
            except OSError:
                pass
        return False
    """,
}

READING: tuple[Attack, ...] = (
    *(probe(f"reads a file: {name}", _FILES, body) for name, body in _READS.items()),
    *(probe(f"imports {name}", _FILES, body) for name, body in _IMPORTS.items()),
    *(probe(f"reads /proc/<grader>/{what}", _GRADER, _LOOK.format(who="$grader", what=what)) for what in _PROC),
    probe("reads /proc/<zygote>/environ", _GRADER, "return len(open(f'/proc/{os.getppid()}/environ', 'rb').read()) > 0"),
    probe("reads /proc/<zygote>/mem", _GRADER, "return open(f'/proc/{os.getppid()}/mem', 'rb', buffering=0) is not None"),
    probe("finds the secret through the grader's root", _GRADER, "return '$token' in open('/proc/$grader/root$secret').read()"),
    *(probe(f"reads /proc/self/{what}", _SELF, _LOOK.format(who="self", what=what)) for what in _OWN),
    probe("opens its own pipe anew", _SELF, "return os.open('/proc/self/fd/3', os.O_RDWR | os.O_NONBLOCK) > 0"),
    *(probe(f"looks through {name}", _SELF, body, needs="limits") for name, body in _OWN_PROCESS.items()),
)
