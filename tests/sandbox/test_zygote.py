"""What a worker finds and leaves behind, and how the zygote begins and ends."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from autograder.sandbox.client import Sandbox, SandboxBroken, Sandboxed
from autograder.sandbox.confinement import Limits
from checks.calls import Call, Load
from checks.errors import StudentRaised, WorkerCrashed
from checks.executor import Layout

Start = Callable[..., AbstractContextManager[Sandboxed]]
StartIn = Callable[[Sandbox], Start]

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc, or relies on limits that macOS lacks")


# What a worker finds, and leaves behind.


def test_a_worker_finds_no_grader_no_secrets_and_no_descriptors(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "secret")
    text = """
        import fcntl, importlib, os, sys
        def found(name):
            try:
                importlib.import_module(name)
                return True
            except ImportError:
                return False
        def f():
            modules = tuple(found(n) for n in ("autograder", "sandbox.client", "checks.run", "solutions", "json"))
            descriptors = []
            for number in range(256):
                try: fcntl.fcntl(number, fcntl.F_GETFD)
                except OSError: continue
                descriptors.append(number)
            return modules, tuple(descriptors), tuple(sys.path), tuple(sys.argv[1:]), "SOME_TOKEN" in os.environ
    """
    with start(text) as transport:
        modules, descriptors, path, arguments, secret = transport.perform(Call("f")).value
    assert modules == (False, False, False, False, True)
    assert descriptors == (0, 1, 2, 3, 4)
    assert not any(Path(entry) == Path(__file__).parents[2] or "student_template" in entry for entry in path)
    assert arguments == ()
    assert not secret


@linux
def test_a_worker_cannot_write_a_file_or_lift_its_limits(start: Start, tmp_path: Path) -> None:
    target = tmp_path / "results.json"
    text = f"""
        import resource
        def f():
            with open({str(target)!r}, "w") as file:
                file.write("forged")
        def g():
            return tuple(resource.getrlimit(r) for r in (resource.RLIMIT_CPU, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE))
    """
    with start(text) as transport:
        with pytest.raises(StudentRaised, match="PermissionError"):
            transport.perform(Call("f"))
        assert transport.perform(Call("g")).value == ((2, 3), (64, 64), (0, 0))
    assert not target.exists()


def test_random_numbers_follow_the_seed(start: Start) -> None:
    text = "import random, numpy, torch\ndef f(): return random.random(), float(numpy.random.rand()), torch.rand(()).item()"
    drawn = []
    for seed in (1, 1, 2, 2**64 + 1):
        with start(text, seed=seed) as transport:
            drawn.append(transport.perform(Call("f")).value)
    assert drawn[0] == drawn[1]
    assert all(first != second for first, second in zip(drawn[0], drawn[2], strict=True))


def test_hashes_are_the_same_in_every_run(start_in: StartIn) -> None:
    seen = []
    for _ in range(2):
        with Sandbox() as sandbox, start_in(sandbox)("def f(): return hash('attention')") as transport:
            seen.append(transport.perform(Call("f")).value)
    assert seen[0] == seen[1]


def gone(pid: int, within: float = 5.0) -> bool:
    """Whether the process ends, zombies counted as not ended."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("detach", ["", "os.setsid()"], ids=["same group", "own session"])
def test_a_process_left_behind_is_ended(unconfined: Sandbox, start_in: StartIn, detach: str) -> None:
    """Where a tier lets one be made at all."""
    start = start_in(unconfined)
    text = f"""
        import os, time
        def f():
            pid = os.fork()
            if pid == 0:
                {detach or "pass"}
                time.sleep(1000)
            return pid, os.getpid()
        def g():
            if os.fork() == 0:
                {detach or "pass"}
                time.sleep(1000)
            os._exit(0)
    """
    with start(text) as transport:
        child, worker = transport.perform(Call("f")).value
    assert gone(worker)
    if detach and sys.platform != "linux":
        os.kill(child, signal.SIGKILL)
    assert gone(child)
    with start(text, wall=20) as transport:
        before = time.monotonic()
        with pytest.raises(WorkerCrashed, match="exit status 0"):
            transport.perform(Call("g"))
        assert time.monotonic() - before < 5


def test_a_thread_left_running_does_not_outlive_the_session(start: Start) -> None:
    text = """
        import os, threading
        def g():
            while True: pass
        def f():
            threading.Thread(target=g).start()
            return os.getpid()
    """
    with start(text) as transport:
        worker = transport.perform(Call("f")).value
    assert gone(worker)


@linux
def test_many_sessions_leave_no_descriptor_and_no_process(sandbox: Sandbox, start: Start) -> None:
    def held() -> tuple[int, int]:
        zygote = sandbox._current().pid
        children = Path(f"/proc/{zygote}/task/{zygote}/children").read_text("ascii").split()
        return len(list(Path("/proc/self/fd").iterdir())) + len(list(Path(f"/proc/{zygote}/fd").iterdir())), len(children)

    with start("def f(): pass") as transport:
        transport.perform(Call("f"))
    before = held()
    for number in range(50):
        with contextlib.suppress(WorkerCrashed), start("import os\ndef f(): pass\ndef g(): os._exit(0)") as transport:
            transport.perform(Call("fg"[number % 2]))
    assert held() == before
    assert before[1] == 0


def test_threads_share_a_sandbox(start: Start) -> None:
    answers: dict[int, list[object]] = {number: [] for number in range(4)}

    def grade(number: int) -> None:
        for turn in range(5):
            with start(f"import time\ndef f():\n    time.sleep(0.02)\n    return {number * 100 + turn}") as transport:
                answers[number].append(transport.perform(Call("f")).value)

    threads = [threading.Thread(target=grade, args=(number,)) for number in answers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: [number * 100 + turn for turn in range(5)] for number in answers}


# The zygote's own end.


def test_a_zygote_that_died_is_replaced_and_its_session_is_the_graders_error(start_in: StartIn) -> None:
    with Sandbox() as sandbox:
        start = start_in(sandbox)
        with start("import os\ndef f(): return os.getppid()\ndef g(): return os.getpid()") as transport:
            zygote, worker = transport.perform(Call("f")).value, transport.perform(Call("g")).value
            os.kill(zygote, signal.SIGKILL)
            if sys.platform == "linux":
                assert gone(worker)
            with pytest.raises(SandboxBroken):
                transport.perform(Call("f"))
        with start("import os\ndef f(): return os.getppid()") as transport:
            assert transport.perform(Call("f")).value != zygote


def test_a_zygote_that_never_starts_is_given_up(start_in: StartIn) -> None:
    with (
        Sandbox(python="/bin/false") as sandbox,
        pytest.raises(SandboxBroken, match="after 5 new starts"),
        start_in(sandbox)("") as transport,
    ):
        transport.perform(Load("part"))


def test_closing_ends_the_zygote_and_its_workers(start_in: StartIn) -> None:
    sandbox = Sandbox()
    with start_in(sandbox)("import os\ndef f(): return os.getpid(), os.getppid()") as transport:
        worker, zygote = transport.perform(Call("f")).value
        sandbox.close()
        assert gone(worker)
        assert gone(zygote)
        with pytest.raises(SandboxBroken):
            transport.perform(Call("f"))


def test_the_zygote_ends_when_the_grader_is_killed(start_in: StartIn) -> None:
    reading, writing = os.pipe()
    grader = os.fork()
    if grader == 0:  # a grader of its own, which gets no chance to clean up
        with contextlib.suppress(BaseException):
            sandbox = Sandbox()
            with start_in(sandbox)("import os\ndef f(): return os.getpid(), os.getppid()") as transport:
                worker, zygote = transport.perform(Call("f")).value
                os.write(writing, f"{worker} {zygote}".encode())
                time.sleep(1000)
        os._exit(1)
    os.close(writing)
    worker, zygote = map(int, os.read(reading, 100).split())
    os.close(reading)
    os.kill(grader, signal.SIGKILL)
    os.waitpid(grader, 0)
    assert gone(worker)
    assert gone(zygote)


def test_a_failed_start_of_a_worker_is_the_graders_error(sandbox: Sandbox) -> None:
    layout = Layout("attention", {}, frozenset())
    with pytest.raises(SandboxBroken, match="could not be started"), sandbox.session({}, layout, Limits(2, 1 << 60), 1):
        pass
