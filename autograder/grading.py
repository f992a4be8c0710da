"""One submission → one report. Draws inputs and compares answers here; the student's code runs in the sandbox."""

from __future__ import annotations

import builtins
import contextlib
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from checks import run, written
from checks.calls import Transport
from checks.errors import StudentRaised, WorkerTimedOut
from checks.executor import Layout
from checks.records import Check, Outcome, Result
from checks.run import Opener
from checks.substitutes import exchanged
from checks.written import Question

from . import ready_made, report, secret
from .intake import Candidate, NoSubmission, Submission, read
from .manifest import Manifest, Part
from .report import Report
from .sandbox.client import Sandbox
from .sandbox.confinement import Limits

_PATIENCE = 3  # checks that may time out before sleeping is no longer waited for
_KNOWN_EXCEPTIONS = {
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
}
_KNOWN_EXCEPTIONS |= {"ReadyMadeAttention", "MissingName", "UnreadableFile", "OutOfMemoryError"}


@dataclass(frozen=True)
class Grader:
    """Everything that grading a submission takes and that does not depend on the submission. Threads may share one."""

    manifest: Manifest
    checks: Sequence[Check]
    sandbox: Sandbox
    secret: bytes
    questions: Sequence[Question] = ()  # the written ones, of which a report tells only whether they are answered

    def grade(self, candidate: Candidate) -> Report:
        """Grade it. A submission that holds nothing to grade gets a report that says so."""
        started = time.perf_counter()
        try:
            submission = read(candidate.path, self.manifest.package, candidate.name)
        except NoSubmission as error:
            return self._ungraded(candidate, str(error))
        tiers: set[str] = set()
        seeds = {check.id: secret.seed(self.secret, submission.digest, check.id) for check in self.checks}
        uses = {part.slug: part.uses for part in self.manifest.built}
        results = run.run(self.checks, self._opener(submission, tiers), lambda check: seeds[check.id], uses=uses)
        return report.build(
            submission=candidate.name,
            parts=self.manifest.built,
            results=[_told_honestly(result, submission) for result in results],
            digest=submission.digest,
            isolation="; ".join(sorted(tiers)) or "none",
            notes=(*submission.notes, *self._ready_made(submission)),
            problems=tuple(submission.problems.values()),
            execution_time=time.perf_counter() - started,
            written=written.look(submission.report, self.questions),
        )

    def _opener(self, submission: Submission, tiers: set[str]) -> Opener:
        """Fresh workers on this submission; the isolation that each of them achieved is added to `tiers`."""

        slow = [0]  # checks that timed out so far

        @contextlib.contextmanager
        def open_transport(
            part: str, seed: int, substitutes: Collection[str] = (), memory_mib: int | None = None
        ) -> Iterator[Transport]:
            of_part = self.manifest.part(part)
            if reason := submission.problems.get(of_part.file):
                raise StudentRaised(("UnreadableFile",), reason)
            limits = Limits(of_part.limits.seconds, of_part.limits.memory_mib if memory_mib is None else memory_mib)
            if slow[0] >= _PATIENCE:
                limits = replace(limits, wall_seconds=limits.cpu_seconds)
            sources, where = exchanged(submission.sources, layout(self.manifest, of_part), substitutes)
            with self.sandbox.session(sources, where, limits, seed) as transport:
                tiers.add(transport.isolation)
                try:
                    yield transport
                except WorkerTimedOut:
                    slow[0] += 1
                    raise

        return open_transport

    def _ready_made(self, submission: Submission) -> list[str]:
        """A note on where the library's own attention is used, where it is not to be."""
        allowed = frozenset(part.file for part in self.manifest.built if part.ready_made_attention)
        places = ready_made.places(submission.sources, allowed)
        told = "; ".join(places)
        return [f"Ready-made attention may be used in {', '.join(sorted(allowed))} only: {told}."] if places else []

    def _ungraded(self, candidate: Candidate, reason: str) -> Report:
        nothing = run.Ending(Outcome.NOT_STARTED, "Nothing was handed in that could be graded.")
        results: list[Result] = [run.result(check, nothing) for check in self.checks]
        return report.build(submission=candidate.name, parts=self.manifest.built, results=results, outcome=reason)


def layout(manifest: Manifest, of_part: Part) -> Layout:
    """Which public name lives in which module, and whether the part that is being checked may use ready-made attention."""
    exports = {name: part.slug for part in manifest.built for name in part.exports}
    return Layout(manifest.package, exports, frozenset([of_part.slug] if of_part.ready_made_attention else []))


def _told_honestly(result: Result, submission: Submission) -> Result:
    """A hidden check's result, without what a student's code could put into a class's name or a place to carry inputs out."""
    if not result.hidden or not result.raised:
        return result
    raised = result.raised if result.raised in _KNOWN_EXCEPTIONS else "an exception of your own"
    file, _, line = result.where.split(",")[0].partition(":")
    lines = submission.sources.get(file, "").count("\n") + 1
    known = file in submission.sources and line.isdigit() and 0 < int(line) <= lines
    return replace(result, raised=raised, where=f"{file}:{int(line)}" if known else "")
