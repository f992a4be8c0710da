"""One submission → one report. Draws inputs and compares answers here; the student's code runs in the sandbox."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checks import run
from checks.calls import Transport
from checks.errors import StudentRaised
from checks.executor import Layout
from checks.records import Check, Outcome, Result
from checks.run import Opener

from . import report, secret
from .intake import Candidate, NoSubmission, Submission, read
from .manifest import Manifest
from .report import Report
from .sandbox.client import Sandbox
from .sandbox.confinement import Limits


@dataclass(frozen=True)
class Grader:
    """Everything that grading a submission takes and that does not depend on the submission. Threads may share one."""

    manifest: Manifest
    checks: Sequence[Check]
    sandbox: Sandbox
    secret: bytes

    def grade(self, candidate: Candidate) -> Report:
        """Grade it. A submission that holds nothing to grade gets a report that says so."""
        started = time.perf_counter()
        try:
            submission = read(candidate.path, self.manifest.package, candidate.name)
        except NoSubmission as error:
            return self._ungraded(candidate, str(error))
        tiers: set[str] = set()
        seeds = {check.id: secret.seed(self.secret, submission.digest, check.id) for check in self.checks}
        results = list(run.run(self.checks, self._opener(submission, tiers), lambda check: seeds[check.id]))
        return report.build(
            submission=candidate.name,
            parts=self.manifest.built,
            results=results,
            digest=submission.digest,
            isolation="; ".join(sorted(tiers)) or "none",
            notes=submission.notes,
            problems=tuple(submission.problems.values()),
            execution_time=time.perf_counter() - started,
        )

    def _opener(self, submission: Submission, tiers: set[str]) -> Opener:
        """Fresh workers on this submission; the isolation that each of them achieved is added to `tiers`."""

        @contextlib.contextmanager
        def open_transport(part: str, seed: int, memory_mib: int | None = None) -> Iterator[Transport]:
            of_part = self.manifest.part(part)
            if reason := submission.problems.get(of_part.file):
                raise StudentRaised(("UnreadableFile",), reason)
            limits = Limits(of_part.limits.seconds, memory_mib or of_part.limits.memory_mib)
            with self.sandbox.session(submission.sources, layout(self.manifest), limits, seed) as transport:
                tiers.add(transport.isolation)
                yield transport

        return open_transport

    def _ungraded(self, candidate: Candidate, reason: str) -> Report:
        nothing = run.Ending(Outcome.NOT_STARTED, "Nothing was handed in that could be graded.")
        results: list[Result] = [run.result(check, nothing) for check in self.checks]
        return report.build(submission=candidate.name, parts=self.manifest.built, results=results, outcome=reason)


def layout(manifest: Manifest) -> Layout:
    """Which public name lives in which module, and which parts may use ready-made attention."""
    exports = {name: part.slug for part in manifest.built for name in part.exports}
    return Layout(manifest.package, exports, frozenset(part.slug for part in manifest.built if part.ready_made_attention))
