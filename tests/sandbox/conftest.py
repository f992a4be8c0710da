"""One sandbox for all tests that do not break it, and a student's package of one file made from text."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from autograder.sandbox.client import Sandbox, Sandboxed
from autograder.sandbox.confinement import NONE, Limits
from checks.executor import Layout

Start = Callable[..., AbstractContextManager[Sandboxed]]
StartIn = Callable[[Sandbox], Start]

FUNCTIONS = ("f", "g", "h")
LAYOUT = Layout("attention", {**dict.fromkeys(FUNCTIONS, "part"), "other": "other", "Module": "part"}, frozenset())


def start_in(sandbox: Sandbox) -> Start:
    """A function that begins a session with a file of this text, and further files by path."""

    def start(
        text: str, more: dict[str, str] | None = None, cpu: int = 2, memory: int = 512, wall: float | None = None, seed: int = 1
    ) -> AbstractContextManager[Sandboxed]:
        sources = {"attention/part.py": textwrap.dedent(text), **(more or {})}
        return sandbox.session(sources, LAYOUT, Limits(cpu, memory, wall), seed)

    return start


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


@pytest.fixture(scope="session")
def unconfined() -> Iterator[Sandbox]:
    """One whose workers have limits and nothing else."""
    with Sandbox(accept=NONE, strongest=NONE) as made:
        yield made


@pytest.fixture
def start(sandbox: Sandbox) -> Start:
    return start_in(sandbox)


@pytest.fixture(name="start_in")
def starting() -> StartIn:
    return start_in
