"""The ways in which a check can end early, one exception each; `run.py` turns them into outcomes."""

from __future__ import annotations

import re


class CheckFailed(AssertionError):
    """The student's code answered, and the answer is wrong. The text is what the student reads."""


class StudentRaised(Exception):
    """The student's code raised. Carries plain text only: the exception itself may be the student's own class.

    `kinds` are the names of the exception's classes, most derived first (`ValueError`, `Exception`, …);
    `where` is the innermost line of the student's own files, `"attention/masking.py:41, in masked_attention"`; `called` is the
    call that a check had made, with the shapes of its arguments.
    """

    def __init__(self, kinds: tuple[str, ...], message: str, where: str = "", called: str = "") -> None:
        raised = f"{kinds[0]}: {message}" if message else kinds[0]
        super().__init__(f"{called}:\nraised {raised}" if called else raised)
        self.not_started = kinds[0] == "NotImplementedError" and re.match(r"part \d+: ", message) is not None  # it is a stub
        self.called = called
        self.kinds = kinds
        self.message = message
        self.where = where


class WorkerTimedOut(Exception):
    """The student's code did not answer within the part's limit."""


class WorkerCrashed(Exception):
    """The process that ran the student's code died (exit, signal, memory) or answered with nonsense."""


class BadUsage(Exception):
    """What was asked cannot be done; the text is one sentence that says what to do. Exit status 2."""
