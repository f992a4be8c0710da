"""A real zygote and real workers: what a student's code can do to them, and what the grader then says."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch

from autograder.sandbox.client import Sandbox, Sandboxed
from checks.calls import Call, Load, Make
from checks.errors import StudentRaised, WorkerCrashed, WorkerTimedOut

Start = Callable[..., AbstractContextManager[Sandboxed]]
StartIn = Callable[[Sandbox], Start]

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc, or relies on limits that macOS lacks")

ATTENTION = """
    import torch
    from torch import nn

    def f(Q, K, V):
        weights = torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, dim=-1)
        return weights @ V, weights

    class Module(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.W_q = nn.Linear(width, width, bias=False)
            self.width = width
        def forward(self, x):
            return self.W_q(x)
"""


def test_a_call_is_answered_with_values_and_gradients(start: Start) -> None:
    Q, K, V = torch.rand(2, 3, 4), torch.rand(2, 5, 4), torch.rand(2, 5, 6)
    upstream = torch.rand(2, 3, 6)
    with start(ATTENTION) as transport:
        reply = transport.perform(Call("f", (Q, K, V), upstream=(upstream, None), count=True))
    leaf = V.clone().requires_grad_()
    weights = torch.softmax(Q @ K.mT / 2, dim=-1)
    (weights @ leaf * upstream).sum().backward()
    torch.testing.assert_close(reply.value, (weights @ V, weights))
    torch.testing.assert_close(reply.gradients["arg2"], leaf.grad)
    assert reply.operations
    assert transport.usage is not None
    assert transport.isolation.startswith("strict" if sys.platform == "linux" else "none")


def test_a_module_is_made_kept_and_called(start: Start) -> None:
    weight, x = torch.rand(4, 4), torch.rand(3, 4)
    with start(ATTENTION) as transport:
        made = transport.perform(Make("Module", (4,), weights={"W_q": weight}))
        reply = transport.perform(Call("forward", (x,), module=made.module))
    assert made.parameters == {"W_q.weight": (4, 4)}
    assert made.attributes["width"] == 4
    torch.testing.assert_close(reply.value, x @ weight.T)


def test_large_tensors_cross_both_ways(start: Start) -> None:
    large = torch.rand(2000, 2000)
    with start("def f(x): return x") as transport:
        assert torch.equal(transport.perform(Call("f", (large,))).value, large)


def test_relative_imports_and_helpers_work_and_a_broken_neighbour_costs_nothing(start: Start) -> None:
    more = {
        "attention/helper.py": "def two(): return 2",
        "attention/other.py": "def other(:",
        "attention/deep/more.py": "three = 3",
    }
    with start("from .helper import two\nfrom .deep.more import three\ndef f(): return two() + three", more) as transport:
        with pytest.raises(StudentRaised) as caught:
            transport.perform(Load("other"))
        assert transport.perform(Call("f")).value == 5
    assert caught.value.kinds[0] == "SyntaxError"
    assert caught.value.where == "attention/other.py:1"


def test_an_exception_arrives_with_its_line(start: Start) -> None:
    with start("class Mine(ValueError): pass\n\ndef f():\n    raise Mine('widths differ')\ndef g(): return 1") as transport:
        with pytest.raises(StudentRaised) as caught:
            transport.perform(Call("f"))
        assert transport.perform(Call("g")).value == 1
    assert caught.value.kinds[:2] == ("Mine", "ValueError")
    assert caught.value.message == "widths differ"
    assert caught.value.where == "attention/part.py:4, in f"


@pytest.mark.parametrize("kind", ["SystemExit(0)", "KeyboardInterrupt()", "GeneratorExit()"])
def test_an_exception_that_ends_programs_ends_nothing(start: Start, kind: str) -> None:
    with start(f"def f(): raise {kind}\ndef g(): return 1") as transport:
        with pytest.raises(StudentRaised, match=kind.split("(")[0]):
            transport.perform(Call("f"))
        assert transport.perform(Call("g")).value == 1


def test_endless_recursion_is_an_exception(start: Start) -> None:
    with start("def f(): return f()") as transport, pytest.raises(StudentRaised, match="RecursionError"):
        transport.perform(Call("f"))


# Time.


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "import signal; [signal.signal(s, signal.SIG_IGN) for s in (signal.SIGTERM, signal.SIGXCPU)]\n    while True: pass",
        "while True:\n        try:\n            while True: pass\n        except BaseException: pass",
        "import threading; threading.Thread(target=g).start(); g()",
    ],
    ids=["loop", "signals ignored", "everything caught", "two threads"],
)
def test_an_endless_loop_ends_at_its_processor_time(start: Start, body: str) -> None:
    with start(f"def f():\n    print('begun')\n    {body}\ndef g():\n    while True: pass", cpu=1, wall=60) as transport:
        with pytest.raises(WorkerTimedOut, match=r"^took more than 1 second of processor time$"):
            transport.perform(Call("f"))
        with pytest.raises(WorkerTimedOut, match="processor time"):
            transport.perform(Call("g"))  # which would loop as long again, and is not asked
    assert transport.printed == "begun\n"
    assert transport.usage is not None
    assert transport.usage.cpu_seconds > 0.3


def test_an_endless_loop_at_import_ends(start: Start) -> None:
    with start("while True: pass", cpu=1, wall=60) as transport, pytest.raises(WorkerTimedOut, match="1 second"):
        transport.perform(Load("part"))


def test_sleep_ends_at_the_clock(start: Start) -> None:
    with (
        start("import time\ndef f():\n    time.sleep(1000)", wall=0.5) as transport,
        pytest.raises(WorkerTimedOut, match=r"^gave no answer within 0\.5 seconds$"),
    ):
        transport.perform(Call("f"))


def test_a_request_that_is_never_read_ends_at_the_clock(start: Start) -> None:
    text = """
        import os, signal, threading
        def f(x):
            threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGSTOP)).start()
    """
    with start(text, wall=0.5) as transport:
        transport.perform(Call("f", (None,)))
        time.sleep(0.3)
        with pytest.raises(WorkerTimedOut, match="no answer within"):
            transport.perform(Call("f", (torch.zeros(1 << 20),)))


def test_the_clock_runs_through_all_requests_and_not_between_them(start: Start) -> None:
    with start("import time\ndef f():\n    time.sleep(0.6)", wall=1.7) as transport:
        transport.perform(Call("f"))
        time.sleep(0.6)
        transport.perform(Call("f"))
        with pytest.raises(WorkerTimedOut):
            transport.perform(Call("f"))


# Death.


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("import os; os._exit(0)", r"^the code ended the process itself \(exit status 0\)$"),
        ("import os; os._exit(7)", r"exit status 7"),
        ("import ctypes; ctypes.string_at(0)", r"^the process was ended by SIGSEGV$"),
        ("import os; os.abort()", r"^the process was ended by SIGABRT$"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", r"^the process was ended by SIGKILL$"),
        ("import os; os.close(4)", r"^answered|^the "),
        ("import os; os.closerange(0, 100)", r"^answered|^the "),
    ],
)
def test_a_death_is_named_and_stays(start: Start, body: str, message: str) -> None:
    with start(f"def f():\n    {body}\ndef g(): return 1") as transport:
        for name in ("f", "g"):
            with pytest.raises(WorkerCrashed, match=message):
                transport.perform(Call(name))


@linux
@pytest.mark.parametrize(
    "body",
    [
        "x = bytearray(10 << 30)",
        "import torch; torch.zeros(1 << 30).fill_(1)",
        "x = []\n    while True: x.append(bytearray(1 << 20))",
    ],
    ids=["bytes", "tensor", "little by little"],
)
def test_a_memory_hog_is_told_so(start: Start, body: str) -> None:
    needed = r"^needed more than 256 MiB of memory$"
    with start(f"def f():\n    {body}", memory=256) as transport, pytest.raises(WorkerCrashed, match=needed):
        transport.perform(Call("f"))


@linux
def test_the_memory_limit_is_beside_what_torch_takes(start: Start) -> None:
    with start("import torch\ndef f(): return torch.ones(25 << 18).sum().item()", memory=64) as transport:
        assert transport.perform(Call("f")).value == 25 << 18


def test_an_answer_too_large_to_send_is_told_so(start_in: StartIn) -> None:
    text = "import torch\ndef f(): return torch.zeros(1 << 20)"
    with (
        Sandbox(cap=1 << 20) as small,
        start_in(small)(text) as transport,
        pytest.raises(WorkerCrashed, match="too large"),
    ):
        transport.perform(Call("f"))


# Noise.


def test_a_flood_is_read_and_its_beginning_kept(start: Start) -> None:
    text = """
        import sys
        def f():
            for number in range(10):
                print(str(number) * (1 << 20))
                print("x", file=sys.stderr)
            return 1
    """
    with start(text, cpu=5) as transport:
        assert transport.perform(Call("f")).value == 1
    assert len(transport.printed) == 64 << 10
    assert set(transport.printed) == {"0"}


def test_what_is_printed_is_kept_without_control_characters(start: Start) -> None:
    text = "import os\ndef f():\n    print('a\\x1b[31mé\\x00b\\ud800')\n    os.write(2, b'c\\xff\\n')\n    os._exit(0)"
    with start(text) as transport, pytest.raises(WorkerCrashed):
        transport.perform(Call("f"))
    assert transport.printed == "a[31méb\\ud800\nc\ufffd\n"


NOISE = """
import os, struct, threading, time
def write(data):
    for descriptor in range(64):
        try: os.write(descriptor, data)
        except OSError: pass
def f(): write(b"x" * 100)
def g(): write(struct.pack(">II", 2, 0) + b"{}"); os._exit(0)
def h():
    threading.Thread(target=lambda: [time.sleep(0.1), write(b"x" * 9)]).start()
    return 1
"""


@pytest.mark.parametrize("name", ["f", "g"])
def test_garbage_in_every_descriptor_is_no_answer(start: Start, name: str) -> None:
    with start(NOISE) as transport, pytest.raises(WorkerCrashed, match=r"^answered with something that is not an answer"):
        transport.perform(Call(name))


def test_garbage_between_two_requests_is_no_answer(start: Start) -> None:
    with start(NOISE) as transport:
        assert transport.perform(Call("h")).value == 1
        time.sleep(0.4)
        with pytest.raises(WorkerCrashed, match="before the question"):
            transport.perform(Call("h"))


def test_a_forged_answer_needs_the_nonce(start: Start) -> None:
    text = """
        import os
        from sandbox.wire import encode_reply
        from checks.calls import Reply
        def f():
            os.write(4, encode_reply(Reply(value=42), "0" * 32))
            os._exit(0)
    """
    with start(text) as transport, pytest.raises(WorkerCrashed, match="does not answer the question"):
        transport.perform(Call("f"))


ANSWERING = """
import time
import sandbox.worker as worker
send, sent = worker._write, []
def answered_twice(descriptor, data): send(descriptor, data + data)
def answered_before(descriptor, data):
    sent.append(data)
    send(descriptor, sent[0])
def in_pieces(descriptor, data):
    for position in range(len(data)):
        send(descriptor, data[position : position + 1])
def without_end(descriptor, data):
    while True: send(descriptor, b"\\0")
def cut(descriptor, data):
    send(descriptor, data[:-1])
    time.sleep(1000)
def f(name):
    worker._write = globals()[name]
    return 1
"""


def test_one_answer_sent_twice_is_none(start: Start) -> None:
    with start(ANSWERING) as transport, pytest.raises(WorkerCrashed, match="there is more than one"):
        transport.perform(Call("f", ("answered_twice",)))


def test_an_old_answer_is_none(start: Start) -> None:
    with start(ANSWERING) as transport:
        assert transport.perform(Call("f", ("answered_before",))).value == 1
        with pytest.raises(WorkerCrashed, match="does not answer the question"):
            transport.perform(Call("f", ("answered_before",)))


def test_an_answer_in_single_bytes_is_one(start: Start) -> None:
    with start(ANSWERING) as transport:
        assert transport.perform(Call("f", ("in_pieces",))).value == 1


@pytest.mark.parametrize("name", ["without_end", "cut"])
def test_an_answer_that_does_not_end_is_none(start: Start, name: str) -> None:
    begun = time.monotonic()
    with start(ANSWERING, wall=1.0) as transport, pytest.raises((WorkerCrashed, WorkerTimedOut), match=r"^answered|^gave no"):
        transport.perform(Call("f", (name,)))
    assert time.monotonic() - begun < 30


def test_a_module_that_is_none_has_a_number_all_the_same(start: Start) -> None:
    text = """
        import sandbox.worker as worker
        from checks.calls import Reply
        from sandbox.wire import encode_reply
        worker._answer = lambda direct, request, nonce: encode_reply(Reply(), nonce)
    """
    with start(text) as transport:
        transport.perform(Load("part"))
        with pytest.raises(WorkerCrashed, match="names no module"):
            transport.perform(Make("Module", (4,)))


def test_a_parameter_that_takes_no_memory_there_takes_none_here(start: Start) -> None:
    text = """
        import torch
        class Module(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.large = torch.nn.Parameter(torch.zeros(1).expand(1 << 40))
                self.number = 10 ** 5000
    """
    with start(text) as transport, pytest.raises(WorkerCrashed, match="more than can be sent back"):
        transport.perform(Make("Module"))


def test_an_attribute_beyond_all_numbers_is_passed_over(start: Start) -> None:
    text = """
        import torch
        class Module(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.number, self.small = 10 ** 5000, 3
    """
    with start(text) as transport:
        attributes = transport.perform(Make("Module")).attributes
    assert (attributes["small"], "number" in attributes) == (3, False)
