"""The bench on which the bank is run: one grader for all attacks, and around it what they are out for, each thing watched."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import shutil
import signal
import socket
import stat
import sys
import tempfile
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from string import Template

from rich.console import Console

from autograder.grading import Grader
from autograder.intake import Candidate
from autograder.render.gradescope import results_json
from autograder.render.table import grades_csv
from autograder.render.terminal import show_class
from autograder.report import Report
from autograder.sandbox.client import Sandbox
from checks.records import Outcome

from ..support import MANIFEST, ROOT, all_checks, reference
from .attack import PART, RIGHT, Attack

TOKEN = "T0KENTHATNOBODYREADS"
_SECONDS = 1  # of processor time: half of what the parts allow, since some attacks use it all
_PARTS = (PART, "complexity")  # of the attacks on a whole submission
_MANY = 10_000  # processes at once, where the first is sure to be refused
_FEW = 20


class Bench:
    """One Sandbox and one Grader, as in the run of a class; a secret, a victim and listening sockets for the attacks to find."""

    def __init__(self, sandbox: Sandbox) -> None:
        parts = tuple(replace(part, limits=replace(part.limits, seconds=_SECONDS)) for part in MANIFEST.parts)
        self._grader = Grader(replace(MANIFEST, parts=parts), all_checks(), sandbox, b"a secret of the attacks' own")
        self._tag = f"attention-attack-{os.getpid()}"
        # Open to everybody: that a worker is another user must not be all that keeps it out.
        self.arena = Path(tempfile.mkdtemp(prefix=f"{self._tag}-"))
        self.arena.chmod(0o777)
        self._secret, self._victim, self._target = (self.arena / name for name in ("secret", "victim", "target"))
        self._secret.write_text(TOKEN)
        self._secret.chmod(0o644)
        self._before = _shared_memory()
        self._listening = self._listen()
        self._score = functools.cache(self._score_of)
        self.isolation = ""
        self.isolation = self.honest().isolation

    def close(self) -> None:
        for each in self._listening:
            each.close()
        shutil.rmtree(self.arena)

    @property
    def strict(self) -> bool:
        return self.isolation.startswith("strict")

    def honest(self) -> Report:
        """A right submission, held to one check."""
        return self.grade(RIGHT, ("test_matches_library",))

    def grade(self, files: Mapping[str, str], checks: Collection[str] = (), name: str = "attack") -> Report:
        """The report on these files. With no checks named: on all of several parts."""
        folder = Path(tempfile.mkdtemp(dir=self.arena))
        for path, source in {"attention/__init__.py": "", **files}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(source, "utf-8", errors="surrogatepass")
        chosen = [
            each for each in all_checks() if (each.part in _PARTS if not checks else each.part == PART and each.name in checks)
        ]
        try:
            return replace(self._grader, checks=chosen).grade(Candidate(name, folder))
        finally:
            shutil.rmtree(folder)

    def run(self, attack: Attack) -> tuple[Report, list[str]]:
        """The attack's report, and in words what got through."""
        self._victim.write_text("unharmed")
        self._victim.chmod(0o666)
        before = self._victim.stat()
        files = {path: self._filled(text) for path, text in attack.files.items()}
        if attack.replaces_reference:
            files = reference() | files
        report = self.grade(files, attack.checks)
        return report, [*self._in_report(attack, report), *self._around(before)]

    def base_score(self, attack: Attack) -> float:
        """What the submission earns without the attack."""
        sources = reference() | dict(attack.base) if attack.replaces_reference else attack.base
        return self._score(tuple(sorted(sources.items())), attack.checks)

    def litter(self) -> list[str]:
        """What the attacks have left outside the arena."""
        places = (Path(each) for each in ("/tmp", "/var/tmp") if Path(each).is_dir())
        found = [path for place in places for path in place.glob(f"*{self._tag}*") if path != self.arena]
        return sorted(map(str, [*found, *(path for path in _shared_memory() if path not in self._before)]))

    def _score_of(self, files: tuple[tuple[str, str], ...], checks: tuple[str, ...]) -> float:
        return self.grade(dict(files), checks).score

    def _filled(self, text: str) -> str:
        # Signals that end or stop somebody are sent only where all are sure to be refused; the others ask the same question.
        names = {
            "token": TOKEN,
            "secret": self._secret,
            "victim": self._victim,
            "target": self._target,
            "folder": self.arena,
            "root": ROOT,
            "tag": self._tag,
            "port": self._port,
            "unix": self.arena / "socket",
            "grader": os.getpid(),
            "signal": int(signal.SIGKILL if self.strict else signal.SIGURG),
            "stop": int(signal.SIGSTOP if self.strict else signal.SIGCONT),
            "many": _MANY if self.strict else _FEW,
        }
        return Template(text).substitute(names)

    def _in_report(self, attack: Attack, report: Report) -> Iterator[str]:
        base = self.base_score(attack)
        of_part = [result for result in report.results if result.part == PART]
        ends = {result.outcome.value for result in of_part}
        if attack.replaces_reference:
            ends -= {Outcome.SKIPPED.value}
            lost = [result.check for result in report.results if result.part != PART and result.outcome is not Outcome.PASSED]
            if lost:
                yield f"other parts lost {', '.join(lost)}"
        if report.score > base:
            yield f"it earned {report.score:g} points, and {base:g} without the attack"
        if report.provisional:
            told = next(result.message for result in report.results if result.outcome is Outcome.GRADER_ERROR)
            yield f"the grader failed: {told.strip().splitlines()[-1]}"
        elif unexpected := ends - attack.outcomes:
            yield f"it ended as {', '.join(sorted(unexpected))}: {of_part[0].message[:200]} {of_part[0].printed[:200]}"
        yield from _in_what_is_read(attack, report)

    def _around(self, before: os.stat_result) -> Iterator[str]:
        """What became of the things that were there to be found; each is put right again."""
        if os.path.lexists(self._target):
            yield "it wrote a file"
            self._target.rmdir() if stat.S_ISDIR(self._target.lstat().st_mode) else self._target.unlink()
        try:
            after = self._victim.stat()
            if (after.st_mode, after.st_size, after.st_mtime_ns) != (before.st_mode, before.st_size, before.st_mtime_ns):
                yield "it changed a file"
        except FileNotFoundError:
            yield "it took a file away"
        for path in self.litter():
            yield f"it left {path}"
            Path(path).unlink()
        for each in self._listening:
            if _reached(each):
                yield f"it reached a socket of family {each.family.name}"

    def _listen(self) -> list[socket.socket]:
        tcp, udp = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._port = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", self._port))
        listening = [tcp, udp]
        for name in (str(self.arena / "socket"), f"\0{self._tag}") if sys.platform == "linux" else ():
            made = socket.socket(socket.AF_UNIX)
            made.bind(name)
            made.listen()
            listening.append(made)
        (self.arena / "socket").chmod(0o777)
        for each in listening:
            each.setblocking(False)
        return listening


def _shared_memory() -> set[Path]:
    """What there is of it by a name: some libraries put tensors and locks there."""
    return set(Path("/dev/shm").glob("*"))


def _reached(listening: socket.socket) -> bool:
    """Whether anybody has called, or sent anything; all of it is taken off the queue."""
    reached = False
    with contextlib.suppress(BlockingIOError):
        while True:
            listening.recv(100) if listening.type == socket.SOCK_DGRAM else listening.accept()[0].close()
            reached = True
    return reached


def _in_what_is_read(attack: Attack, report: Report) -> Iterator[str]:
    """What must not be in anything that a student or an instructor reads."""
    document = results_json(report)
    screen = io.StringIO()
    show_class([report], Console(file=screen, width=200))
    shown = [*_texts(json.loads(document)), grades_csv([report], [PART]), screen.getvalue()]
    if any(TOKEN in text for text in shown):
        yield "the secret can be read in the report"
    controls = {
        char for text in shown for char in text if unicodedata.category(char) in ("Cc", "Cf", "Cs") and char not in "\n\t"
    }
    if controls:
        yield f"control characters can be read in the report: {sorted(map(ascii, controls))}"
    if len(document) > 1 << 20:
        yield f"the report is {len(document)} bytes long"
    for test in json.loads(document)["tests"]:
        if test["output_format"] != "text":
            yield "the report is not plain text"
        if "hidden" in test["tags"]:
            for text in attack.never:
                if text in test["output"]:
                    yield f"a hidden check's entry holds {text!r}: {test['output']}"


def _texts(value: object) -> Iterator[str]:
    """Every text in a JSON document, keys too."""
    match value:
        case str():
            yield value
        case dict():
            for key, each in value.items():
                yield key
                yield from _texts(each)
        case list():
            for each in value:
                yield from _texts(each)
