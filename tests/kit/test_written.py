"""The written questions: what counts as an answer, and that the reference's report gives each of them one."""

from __future__ import annotations

import time

import pytest

from autograder import questions
from checks import parts
from checks.errors import BadUsage
from checks.written import Answer, Question, look, summary
from tests.support import ROOT

GIVEN = (ROOT / "student_template" / "report.md").read_text("utf-8")
MODEL = (ROOT / "solutions" / "report.md").read_text("utf-8")
QUESTIONS = parts.read().questions
PLACEHOLDER = questions.PLACEHOLDER


def words(report: str | None) -> list[int | None]:
    return [answer.words for answer in look(report, QUESTIONS)]


def test_untouched_missing_and_answered() -> None:
    assert words(GIVEN) == [0] * len(QUESTIONS)
    assert words(None) == words("") == [None] * len(QUESTIONS)
    assert all(count and count > 20 for count in words(MODEL)), "a model answer is missing"
    answered = GIVEN.replace(PLACEHOLDER, "A vector, since keys are shared.", 1)
    assert words(answered) == [6, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda text: text.replace("\n", "\r\n"), 0),
        (lambda text: " ".join(text.split("\n")).replace("## ", "\n\n## ").replace(PLACEHOLDER, "\n\n"), None),  # folded anew
        (lambda text: text.replace(PLACEHOLDER, ""), 0),
        (lambda text: text.replace(PLACEHOLDER, "<!-- later -->"), 0),
        (lambda text: text.replace(PLACEHOLDER, f"{PLACEHOLDER}\n\n- one\n- two"), 2),
        (lambda text: text.replace("## Question", "### question"), 0),
        (lambda text: text.replace("## Question", "Question"), "missing"),
    ],
)
def test_what_editors_do_to_a_file(edit: object, expected: object) -> None:
    assert callable(edit)
    found = words(edit(GIVEN))
    if expected == "missing":
        assert found == [None] * len(QUESTIONS)
    elif expected is not None:
        assert found == [expected] * len(QUESTIONS)
    else:
        assert None not in found


def test_a_prompt_that_was_deleted_costs_nothing_of_the_answer() -> None:
    assert look("# Question 1\nQ K^T over the root of d_k", [Question(1, "t", ("The root of d_k?",))]) == (Answer(1, 8),)


def test_the_sentence_about_them() -> None:
    told = summary((Answer(1, 120), Answer(2, 0), Answer(3, 1), Answer(4, None), Answer(5, None)))
    first = "report.md: question 1 answered, 120 words; question 2 untouched; "
    assert told == f"{first}question 3 answered, 1 word; questions 4 and 5 missing."


@pytest.mark.parametrize("hostile", ["<!--" * 60_000, "## Question 1\n" * 18_000, "\n" * 250_000, " \t" * 120_000, "#" * 250_000])
def test_no_text_takes_long(hostile: str) -> None:
    started = time.process_time()
    look("## Question 1\n" + hostile, QUESTIONS)
    assert time.process_time() - started < 5, "linear time takes some hundredths of a second"


ANSWER = "<!-- BEGIN SOLUTION -->\na\n<!-- END SOLUTION -->\n"


@pytest.mark.parametrize(
    "report",
    [
        "## Question 1: Why?\n",
        f"## Question 1: Why?\n{ANSWER}{ANSWER}",
        f"<!-- BEGIN SOLUTION -->\n## Question 1: Why?\n{ANSWER}",
        f"{ANSWER}## Question 1: Why?\n{ANSWER}<!-- END SOLUTION -->\n",
        f"## Question 2: Why?\n{ANSWER}",
    ],
)
def test_model_answers_that_cannot_be_taken_out_are_refused(report: str) -> None:
    with pytest.raises(BadUsage, match=r"solutions/report\.md"):
        questions.strip(report)
