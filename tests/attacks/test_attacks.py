"""The bank of attacks, each run on the same grader and followed by an honest submission, and what all of them leave behind."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.sandbox.client import Sandbox
from checks.records import Outcome

from .attack import PUBLIC, RIGHT, Attack
from .bank import BANK
from .runner import TOKEN, Bench

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the attacks are on Linux, and so is what holds them off")


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _abandoned() -> list[str]:
    """Processes that began as a zygote's and have come to init, so that nobody will end them."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            command, parent = (each / "cmdline").read_bytes(), int((each / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if b"zygote.py" in command and parent == 1:
            found.append(each.name)
    return found


def _soon_empty(look: object, seconds: float = 10.0) -> object:
    """What `look` finds once it finds nothing, or when the time is over."""
    assert callable(look)
    deadline = time.monotonic() + seconds
    while (found := look()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """One for the whole bank. When all of it was run, nothing may be left of it: that is asserted here, at the end."""
    memory = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTACK_TOKEN", TOKEN)
        with Sandbox() as sandbox:
            made = Bench(sandbox)
            zygote, descriptors = sandbox._current().pid, _descriptors()
            yield made
            assert sandbox._current().pid == zygote, "the zygote had to be replaced"
            assert _soon_empty(lambda: _children(zygote)) == [], "processes are left"
            assert _descriptors() == descriptors
            assert made.litter() == []
            assert [each.name for each in made.arena.iterdir() if each.name not in ("secret", "victim", "socket")] == []
            made.close()
    assert zygote not in _children(os.getpid())
    assert not _soon_empty(_abandoned)
    assert (set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()) <= memory


@pytest.mark.parametrize("attack", BANK, ids=lambda attack: attack.name)
def test_an_attack_gains_nothing_and_costs_nobody_else_anything(bench: Bench, attack: Attack) -> None:
    _, through = bench.run(attack)
    honest = bench.honest()
    assert [result.outcome for result in honest.results] == [Outcome.PASSED], honest.results[0].message
    if through and attack.needs == "strict" and not bench.strict:
        pytest.xfail(f"isolation is {bench.isolation}: {'; '.join(through)}")
    if through and attack.policy:
        pytest.xfail(f"{attack.policy}: {'; '.join(through)}")
    assert not through, attack.row


def test_a_submission_is_graded_the_same_beside_one_that_attacks_its_neighbours(bench: Bench) -> None:
    neighbours = [attack for attack in BANK if attack.name.startswith("another submission")]
    stop, reports = threading.Event(), []

    def honest() -> None:
        while not stop.is_set():
            reports.append(bench.grade(RIGHT, PUBLIC, name="honest"))

    thread = threading.Thread(target=honest)
    thread.start()
    try:
        through = [told for attack in neighbours for told in bench.run(attack)[1]]
    finally:
        stop.set()
        thread.join()
    assert reports
    assert all(result.outcome is Outcome.PASSED for report in reports for result in report.results)
    if through and not bench.strict:
        pytest.xfail(f"isolation is {bench.isolation}: {'; '.join(through)}")
    assert not through


def test_every_attack_has_a_name_of_its_own() -> None:
    names = [attack.name for attack in BANK]
    assert sorted(set(names)) == sorted(names)
