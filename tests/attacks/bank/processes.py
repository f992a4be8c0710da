"""New processes, signals, other processes' memory, more rights than a worker has, and calls that go around the usual ones."""

from __future__ import annotations

from ..attack import BROKEN, FAILED, Attack, hostile, probe

_SPAWN = "start processes of its own, past every limit"
_SIGNAL = "stop or kill the grader, so that there is no result"
_TRACE = "read or rewrite the grader's memory"
_RIGHTS = "escape into other rights or another view of the machine"
_SURFACE = "go around the rules by a call that nobody thinks of"
_LIMITS = "outlive or lift the limits"
_NEIGHBOUR = "read or change the result of another submission that is graded at the same time"

# A child that must not run the worker's loop: it ends at once, and its parent tells of it.
_IN_CHILD = "\nif pid == 0:\n    os._exit(0)\nos.waitpid(pid, 0)\nreturn True"
_FORKS = {
    "os.fork": "pid = os.fork()" + _IN_CHILD,
    "os.forkpty": "pid, _ = os.forkpty()" + _IN_CHILD,
    "libc fork": "import ctypes\npid = ctypes.CDLL(None).fork()\nif pid < 0: raise Refused('fork')" + _IN_CHILD,
    "raw fork": "pid = syscall('fork')" + _IN_CHILD,
    "raw clone": "pid = syscall('clone', 17, 0, 0, 0, 0)" + _IN_CHILD,
    "raw clone that shares its parent": "pid = syscall('clone', 0x8011, 0, 0, 0, 0)\nif pid == 0:\n    os._exit(0)\nreturn True",
    "raw clone that waits for the child": "pid = syscall('clone', 0x4011, 0, 0, 0, 0)" + _IN_CHILD,
    "raw clone3": """
        import ctypes
        pid = syscall('clone3', (ctypes.c_uint64 * 11)(0, 0, 0, 0, 17), 88)
        if pid == 0:
            os._exit(0)
        return True
    """,
    "many forks": """
        import time
        for _ in range($many):
            if os.fork() == 0:
                time.sleep(1000)
        return True
    """,
    "posix_spawn": "os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)\nreturn True",
    "subprocess": "import subprocess\nreturn subprocess.run(['/bin/true']).returncode == 0",
    "os.system": "if os.system('/bin/true') != 0: raise Refused('system')\nreturn True",
    "os.popen": "return 'x' in os.popen('echo x').read()",
    "multiprocessing": """
        import multiprocessing
        child = multiprocessing.get_context('fork').Process(target=int)
        child.start()
        child.join()
        return child.exitcode == 0
    """,
    "a process pool": """
        from concurrent.futures import ProcessPoolExecutor
        with ProcessPoolExecutor(1) as pool:
            return pool.submit(int).result(timeout=3) == 0
    """,
    "a data loader's workers": """
        try:
            return len(list(torch.utils.data.DataLoader(torch.zeros(2), num_workers=1))) == 2
        except RuntimeError as error:
            raise Refused(str(error))
    """,
}

# What becomes of the worker then can be told by the file alone.
_EXECS = {
    "os.execv": "os.execv('/bin/sh', ['sh', '-c', ': > $target'])",
    "raw execve": "import ctypes\nsyscall('execve', ctypes.c_char_p(b'/bin/sh'), words(ctypes), 0)",
    "raw execveat": "import ctypes\nsyscall('execveat', -100, ctypes.c_char_p(b'/bin/sh'), words(ctypes), 0, 0)",
}
_WORDS = "words = lambda ctypes: (ctypes.c_char_p * 4)(b'sh', b'-c', b': > $target', None)\n"

# $signal is SIGKILL where it is sure to be refused, and one that everybody ignores elsewhere.
_SIGNALS = {
    "the grader": "os.kill($grader, $signal)\nreturn True",
    "the zygote": "os.kill(os.getppid(), $signal)\nreturn True",
    "the grader, to see whether it is there": "os.kill($grader, 0)\nreturn True",
    "the grader, to stop it": "os.kill($grader, $stop)\nreturn True",
    "init": "os.kill(1, 0)\nreturn True",
    "everybody": "os.kill(-1, 0)\nreturn True",
    "the grader's group": "os.killpg(os.getpgid($grader), 0)\nreturn True",
    "the grader by tgkill": "return syscall('tgkill', $grader, $grader, $signal) == 0",
    "the grader by tkill": "return syscall('tkill', $grader, $signal) == 0",
    "the grader by sigqueue": """
        import ctypes
        info = ctypes.create_string_buffer(128)
        ctypes.c_int.from_buffer(info, 8).value = -1
        return syscall('rt_sigqueueinfo', $grader, $signal, info) == 0
    """,
    "the grader by pidfd": "return syscall('pidfd_send_signal', syscall('pidfd_open', $grader, 0), $signal, 0, 0) == 0",
}

_MEMORY = """
    import ctypes
    buffer = ctypes.create_string_buffer(8)
    vector = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 8)
    there = (ctypes.c_uint64 * 2)({address}, 8)
    try:
        return syscall('{call}', {pid}, vector, 1, there, 1, 0) > 0
    except OSError as error:
        if error.errno == 14:  # the address is wrong, and the call was allowed
            return True
        raise
"""
_TRACES = {
    "PTRACE_SEIZE of the grader": "return syscall('ptrace', 0x4206, $grader, 0, 0) == 0",
    "PTRACE_SEIZE of the zygote": "return syscall('ptrace', 0x4206, os.getppid(), 0, 0) == 0",
    "PTRACE_TRACEME": "return syscall('ptrace', 0, 0, 0, 0) == 0",
    "process_vm_readv of the grader": _MEMORY.format(call="process_vm_readv", pid="$grader", address=4096),
    "process_vm_readv of the zygote": _MEMORY.format(
        call="process_vm_readv", pid="os.getppid()", address="ctypes.addressof(buffer)"
    ),
    "process_vm_writev of the grader": _MEMORY.format(call="process_vm_writev", pid="$grader", address=4096),
    "pidfd_open of the grader": "return syscall('pidfd_open', $grader, 0) > 0",
    "pidfd_getfd of the grader": "return syscall('pidfd_getfd', syscall('pidfd_open', $grader, 0), 1, 0) > 0",
    "pidfd_getfd of the zygote's control socket": """
        descriptor = syscall('pidfd_open', os.getppid(), 0)
        for number in range(3, 30):
            try:
                return syscall('pidfd_getfd', descriptor, number, 0) > 0
            except OSError as error:
                refused = error
        raise refused
    """,
    "kcmp with the grader": "return syscall('kcmp', $grader, os.getpid(), 0, 0, 0) >= 0",
}

_CHANGES = {
    "setuid(0)": "syscall('setuid', 0)\nreturn os.getuid() == 0",
    "setresuid": "syscall('setresuid', 0, 0, 0)\nreturn os.getuid() == 0",
    "setgid(0)": "syscall('setgid', 0)\nreturn os.getgid() == 0",
    "a user namespace": "return syscall('unshare', 0x10000000) == 0",
    "a mount namespace": "return syscall('unshare', 0x00020000) == 0",
    "a descriptor table of its own": "return syscall('unshare', 0x400) == 0",
    "the grader's namespaces": "return syscall('setns', syscall('pidfd_open', $grader, 0), 0x00020000) == 0",
    "mount": "import ctypes\nnone = ctypes.c_char_p(b'none')\nreturn reaches('mount', none, ctypes.c_char_p(b'$folder'), "
    "ctypes.c_char_p(b'nosuch'), 0, 0)",
    "chroot": "os.chroot('/')\nreturn True",
    "fsopen": "import ctypes\nreturn syscall('fsopen', ctypes.c_char_p(b'tmpfs'), 0) > 0",
    "open_tree": "import ctypes\nreturn syscall('open_tree', -100, ctypes.c_char_p(b'/'), 0) > 0",
    "personality": "return syscall('personality', 0xffffffff) >= 0",
    "a host name": "import ctypes\nreturn reaches('sethostname', ctypes.c_char_p(b'x'), -1)",
    "a kernel module": "import ctypes\nreturn reaches('init_module', ctypes.c_char_p(b''), 0, ctypes.c_char_p(b''))",
    "the kernel's log": "return syscall('syslog', 10, 0, 0) >= 0",
}

_CALLS = {
    "io_uring": "import ctypes\nreturn syscall('io_uring_setup', 4, (ctypes.c_uint32 * 30)()) > 0",
    "asynchronous I/O": "import ctypes\nreturn syscall('io_setup', 4, (ctypes.c_uint64 * 1)()) == 0",
    "userfaultfd": "return syscall('userfaultfd', 0) > 0",
    "userfaultfd of the user's own": "return syscall('userfaultfd', 1) > 0",
    "bpf": "import ctypes\nreturn syscall('bpf', 0, (ctypes.c_uint32 * 18)(2, 4, 4, 1), 72) > 0",
    "perf": "import ctypes\nreturn syscall('perf_event_open', (ctypes.c_uint32 * 32)(1, 128), 0, -1, -1, 0) > 0",
    "fanotify": "return syscall('fanotify_init', 0, 0) > 0",
    "keyctl": "return syscall('keyctl', 0, -3, 1) != 0",
    "a seccomp filter of its own": """
        import ctypes
        allow = (ctypes.c_uint64 * 1)(0x7FFF000000000006)  # one instruction: return ALLOW
        program = (ctypes.c_uint64 * 2)(1, ctypes.addressof(allow))
        return syscall('seccomp', 1, 0, program) == 0
    """,
    "a seccomp filter by prctl": """
        import ctypes
        allow = (ctypes.c_uint64 * 1)(0x7FFF000000000006)
        program = (ctypes.c_uint64 * 2)(1, ctypes.addressof(allow))
        return syscall('prctl', 22, 2, program, 0, 0) == 0
    """,
    "a Landlock ruleset": "return syscall('landlock', 0, 0, 1) > 0",
}

_LIFTS = {
    "processor time": "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (600, 600))\nreturn True",
    "memory": "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))\nreturn True",
    "sizes of files": "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\nreturn True",
    "prlimit": "import ctypes\nreturn syscall('prlimit64', 0, 0, (ctypes.c_uint64 * 2)(600, 600), 0) == 0",
    "prlimit of the grader": """
        import ctypes
        now = (ctypes.c_uint64 * 2)()
        syscall('prlimit64', $grader, 0, 0, now)
        return syscall('prlimit64', $grader, 0, now, 0) == 0
    """,
    "the end with the zygote's": "return syscall('prctl', 1, 0, 0, 0, 0) == 0",
    "no dumps of its memory": "return syscall('prctl', 4, 1, 0, 0, 0) == 0",
    "being the parent of orphans": "return syscall('prctl', 36, 1, 0, 0, 0) == 0",
    "the speculation of its processor": "return reaches('prctl', 53, 0, 4, 0, 0)",
    "its session": "return syscall('setsid') > 0",
    "its priority": "return syscall('setpriority', 0, 0, -5) == 0",
    "its processors": "import ctypes\nreturn syscall('sched_setaffinity', 0, 8, (ctypes.c_uint64 * 1)(1)) == 0",
    "real time": "import ctypes\nreturn syscall('sched_setscheduler', 0, 1, (ctypes.c_int * 1)(1)) == 0",
}

# Machine code that makes the call of another architecture's table: what an allow-list by number would take for a harmless one.
_MACHINE_CODE = """
    import ctypes, mmap
    if os.uname().machine != 'x86_64':
        raise Refused('this machine has other code')
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(bytes.fromhex('{code}'))
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))() > 0
"""
# push rbx; mov eax, 20 (getpid of 32 bits; writev of 64); int 0x80; pop rbx; ret
_INT_80 = "53b814000000cd805bc3"
# mov eax, 0x40000027 (getpid of x32); syscall; ret
_X32 = "b8270000400f05c3"

_NEIGHBOURS = """
    reached = False
    mine = os.getpid()
    for pid in range(mine - 60, mine + 60):
        if pid in (mine, os.getppid(), $grader):
            continue
        try:
            {act}
            reached = True
        except OSError:
            pass
    return reached
"""
_NEIGHBOUR_ACTS = {
    "looks for it": "os.stat(f'/proc/{pid}')",
    "signals it": "os.kill(pid, 0)",
    "traces it": "syscall('process_vm_readv', pid, 0, 0, 0, 0, 0)",
    "opens its pipes": "os.open(f'/proc/{pid}/fd/4', os.O_WRONLY | os.O_NONBLOCK)",
}


def _as_refusal(body: str) -> str:
    """`resource` says ValueError where the kernel says no."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"try:\n{lines}\nexcept ValueError as error:\n    raise Refused(str(error))"


PROCESSES: tuple[Attack, ...] = (
    *(probe(f"starts a process: {name}", _SPAWN, body) for name, body in _FORKS.items()),
    *(
        probe(f"becomes another program: {name}", _SPAWN, _WORDS + body, outcomes=FAILED | BROKEN)
        for name, body in _EXECS.items()
    ),
    hostile(
        "vfork by libc",
        _SPAWN,
        # A raw vfork from Python would run two copies of the interpreter on one stack.
        """
        def scaled_dot_product_attention(Q, K, V, causal=False):
            import ctypes
            pid = ctypes.CDLL(None, use_errno=True).vfork()
            if pid == 0:
                os._exit(0)
            return (right if pid > 0 else wrong)(Q, K, V, causal)
        """,
        FAILED | BROKEN,
        needs="strict",
    ),
    *(probe(f"signals {name}", _SIGNAL, body) for name, body in _SIGNALS.items()),
    *(probe(f"traces: {name}", _TRACE, body) for name, body in _TRACES.items()),
    *(probe(f"takes rights: {name}", _RIGHTS, body) for name, body in _CHANGES.items()),
    *(probe(f"calls {name}", _SURFACE, body) for name, body in _CALLS.items()),
    probe("calls by int 0x80", _SURFACE, _MACHINE_CODE.format(code=_INT_80), outcomes=FAILED | BROKEN),
    probe("calls by x32", _SURFACE, _MACHINE_CODE.format(code=_X32), outcomes=FAILED | BROKEN),
    *(probe(f"lifts {name}", _LIMITS, _as_refusal(body)) for name, body in _LIFTS.items()),
    *(
        probe(f"another submission: {name}", _NEIGHBOUR, _NEIGHBOURS.replace("{act}", act))
        for name, act in _NEIGHBOUR_ACTS.items()
    ),
)
