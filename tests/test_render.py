"""What is shown and written of reports: exact totals, nothing of a hidden check but its hint, and students' text defused."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from rich.console import Console

from autograder.render.gradescope import results_json
from autograder.render.table import grades_csv
from autograder.render.terminal import show_class, summary
from autograder.render.text import clean, clean_line
from autograder.report import Report, build
from checks.records import Outcome, Result, number
from checks.written import Answer


@dataclass(frozen=True)
class Part:
    slug: str
    number: int
    title: str
    extra_credit: bool = False


FIRST = Part("scaled_dot_product", 1, "Scaled dot-product attention")
SECOND = Part("masking", 2, "Masks")
EXTRA = Part("streaming", 8, "Never the whole matrix", extra_credit=True)
SECRET = "tensor([4.25, -1.5])"


def result(part: Part = FIRST, points: float = 2, hidden: bool = False, outcome: Outcome = Outcome.PASSED, **more: Any) -> Result:
    fields: dict[str, Any] = {"check": "test_rows", "title": "Each row of weights sums to one", **more}
    return Result(part=part.slug, points=points, hidden=hidden, outcome=outcome, **fields)


def report(*results: Result, submission: str = "ada", **more: Any) -> Report:
    fields: dict[str, Any] = {"parts": (FIRST, SECOND, EXTRA), "digest": "d1", "isolation": "strict", "execution_time": 1.234}
    return build(submission=submission, results=results, **fields | more)


def entry(one: Result) -> dict[str, Any]:
    document = json.loads(results_json(report(one)))
    tests: list[dict[str, Any]] = document["tests"]
    return tests[0]


def test_points_are_summed_exactly_and_extra_credit_adds_to_the_score_only() -> None:
    made = report(*(result(points=0.1) for _ in range(10)), *(result(SECOND, 20 / 3) for _ in range(3)), result(EXTRA, 10))
    assert [(part.score, part.max_score) for part in made.parts] == [(1.0, 1.0), (20.0, 20.0), (10, 10)]
    assert (made.score, made.max_score, made.extra_credit) == (31.0, 21.0, 10.0)


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.PASSED])
def test_only_a_passed_check_earns_points(outcome: Outcome) -> None:
    made = report(result(outcome=outcome), result())
    assert (made.score, made.max_score) == (2.0, 4.0)
    assert made.provisional is (outcome is Outcome.GRADER_ERROR)


def test_a_result_of_an_unknown_part_is_refused() -> None:
    with pytest.raises(ValueError, match="masking"):
        build(submission="ada", parts=(FIRST,), results=(result(SECOND),))


def test_gradescope_gets_one_entry_per_check_numbered_within_its_part() -> None:
    made = report(result(), result(SECOND, hidden=True, outcome=Outcome.FAILED, mistake="no_scale", check="test_b"), result())
    document = json.loads(results_json(made))
    assert [test["number"] for test in document["tests"]] == ["1.1", "1.2", "2.1"]
    assert document["tests"][0]["name"] == "1.1 Each row of weights sums to one"
    assert [test["tags"] for test in document["tests"]][1:] == [["scaled_dot_product", "public"], ["masking", "hidden"]]
    assert [test["status"] for test in document["tests"]] == ["passed", "passed", "failed"]
    assert document["tests"][2]["extra_data"] == {"check": "test_b", "outcome": "failed", "mistake": "no_scale"}
    assert (document["score"], document["execution_time"], document["stdout_visibility"]) == (4.0, 1.2, "hidden")
    assert sum(test["score"] for test in document["tests"]) == document["score"]
    assert document["extra_data"] == {
        "parts": {
            "scaled_dot_product": {"score": 4.0, "max_score": 4.0},
            "masking": {"score": 0.0, "max_score": 2.0},
            "streaming": {"score": 0.0, "max_score": 0.0},
        },
        "mistakes": [{"check": "test_b", "mistake": "no_scale"}],
        "isolation": "strict",
        "digest": "d1",
        "device": "cpu",
        "provisional": False,
        "written": {},
    }


def test_written_answers_are_told_and_earn_nothing() -> None:
    plain, made = report(result()), report(result(), written=(Answer(1, 12), Answer(2, 0), Answer(3, 0), Answer(4, None)))
    assert (made.score, made.max_score) == (plain.score, plain.max_score)
    document = json.loads(results_json(made))
    told = "report.md: question 1 answered, 12 words; questions 2 and 3 untouched; question 4 missing."
    assert told in document["output"]
    assert document["extra_data"]["written"]["question 4"] == "missing"
    assert "report.md" not in json.loads(results_json(plain))["output"]


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_hidden_check_never_tells_its_inputs(outcome: Outcome) -> None:
    told = entry(
        result(
            hidden=True,
            outcome=outcome,
            message=f"{SECRET}: expected {SECRET}",
            printed=SECRET,
            category="padding",
            hint="Mask before the softmax.",
        )
    )
    assert SECRET not in json.dumps(told)
    assert "4.25" not in told["output"]
    hinted = outcome in (Outcome.FAILED, Outcome.RAISED)
    assert ("padding" in told["output"] and "Mask before the softmax." in told["output"]) is hinted


def test_a_hidden_check_that_raised_tells_the_class_and_the_line_only() -> None:
    where = "attention/masking.py:41, in masked_attention"
    told = entry(
        result(hidden=True, outcome=Outcome.RAISED, message=f"RuntimeError: {SECRET}", raised="RuntimeError", where=where)
    )
    assert "Exception: RuntimeError\n" in told["output"]
    assert where in told["output"]
    assert SECRET not in told["output"]


def test_a_public_check_tells_message_line_and_what_was_printed() -> None:
    shown: dict[str, Any] = {"message": "weights[0, 1] is 0.2", "where": "attention/a.py:3", "printed": "here", "hint": "line 3"}
    told = entry(result(outcome=Outcome.FAILED, **shown))
    for part in ("weights[0, 1] is 0.2", "attention/a.py:3", "Your code printed:\nhere", "Look at: line 3"):
        assert part in told["output"]


def test_a_hint_that_the_message_gives_already_is_not_given_twice() -> None:
    told = entry(result(outcome=Outcome.FAILED, message="0.2 is wrong.\nLook at: line 3", hint="line 3"))
    assert told["output"] == "0.2 is wrong.\nLook at: line 3"


@pytest.mark.parametrize("hidden", [False, True])
def test_what_anyone_may_know_is_told_of_every_check(hidden: bool) -> None:
    note = "It passes with a right masking.py in place of yours."
    told = entry(result(hidden=hidden, note=note))
    assert (told["output"], told["score"]) == (f"Passed.\n{note}", 2)
    assert note in entry(result(hidden=hidden, outcome=Outcome.FAILED, note=note))["output"]


def test_a_grader_error_is_provisional_and_says_that_it_is_no_fault_of_the_students() -> None:
    made = report(result(outcome=Outcome.GRADER_ERROR, message="Traceback: KeyError"), result())
    document = json.loads(results_json(made))
    assert document["extra_data"]["provisional"] is True
    assert document["output"].startswith("This grade is provisional: the grader itself failed on 1 of 2 checks.")
    assert "no fault of yours" in document["tests"][0]["output"]
    assert "KeyError" not in document["tests"][0]["output"]
    assert grades_csv([made], []).splitlines()[1].split(",")[4] == "provisional"


def test_an_ungraded_submission_says_why_everywhere() -> None:
    made = report(outcome="there is no folder attention/ in it", parts=())
    assert "Not graded: there is no folder attention/ in it" in json.loads(results_json(made))["output"]
    assert grades_csv([made], ["masking"]).splitlines()[1] == "ada,0,0,0,,there is no folder attention/ in it,strict,d1"


def test_hostile_text_is_defused_in_results_json() -> None:
    hostile = "\x1b[31mred\x1b[0m\x07\x00\u202eevil\ud800\r\nline\tend\x1b]0;title\x07!"
    told = entry(result(outcome=Outcome.FAILED, message=hostile, printed=hostile, where=hostile, check="test_x"))
    assert "redevil\ufffd\nline\tend!" in told["output"]
    assert not any(ord(character) < 32 and character not in "\n\t" for character in told["output"])


def test_long_text_is_cut_with_a_note_of_the_cut() -> None:
    told = entry(result(outcome=Outcome.FAILED, printed="é" * 10_000))
    assert len(told["output"].encode()) < 8 * 1024 + 200
    assert "(11808 more bytes are left out)" in told["output"]
    assert clean("a" * 8192) == "a" * 8192


def test_only_execution_time_differs_between_two_gradings() -> None:
    first, second = report(result(), execution_time=1.0), report(result(), execution_time=2.0)
    one, other = json.loads(results_json(first)), json.loads(results_json(second))
    assert one.pop("execution_time") != other.pop("execution_time")
    assert one == other
    slow = dataclasses.replace(first, results=tuple(dataclasses.replace(r, seconds=9.0) for r in second.results))
    assert results_json(slow) == results_json(first)
    assert grades_csv([first], ["masking"]) == grades_csv([second], ["masking"])


def test_the_class_table_is_sorted_quoted_and_plain() -> None:
    rows = [
        report(result(points=7.5), result(SECOND, 20), submission="zoe"),
        report(submission='bob, "b"'),
        report(submission="=HYPERLINK(1)\n", outcome="-1"),
    ]
    text = grades_csv(rows, ["scaled_dot_product", "masking", "streaming"])
    header, *lines = csv.reader(io.StringIO(text))
    columns = ["scaled_dot_product", "masking", "streaming"]
    assert header == ["submission", "score", "max_score", "extra_credit", *columns, "outcome", "isolation", "digest"]
    assert [line[0] for line in lines] == ["'=HYPERLINK(1)", 'bob, "b"', "zoe"]
    assert lines[0][7] == "'-1"
    assert lines[2] == ["zoe", "27.5", "27.5", "0", "7.5", "20", "0", "graded", "strict", "d1"]
    assert '"bob, ""b""",' in text
    assert "\r" not in text
    assert grades_csv(reversed(rows), ["scaled_dot_product", "masking", "streaming"]) == text


@pytest.mark.parametrize("first", "=+-@")
def test_no_cell_starts_as_a_formula(first: str) -> None:
    made = report(submission=f" \t{first}1", outcome=f"{first}1", isolation=f"{first}1", digest=f"{first}1")
    cells = grades_csv([made], []).splitlines()[1].split(",")
    assert [cell for cell in cells if first in cell] == [f"'{first}1"] * 4


def test_a_file_name_that_is_not_utf8_can_be_written() -> None:
    text = grades_csv([report(submission="caf\udce9")], [])
    assert "caf\ufffd," in text
    assert text.encode("utf-8")


def printed(reports: list[Report], terminal: bool = False) -> str:
    stream = io.StringIO()
    colours: Literal["standard"] | None = "standard" if terminal else None
    console = Console(file=stream, width=80, force_terminal=terminal, color_system=colours, _environ={})
    show_class(reports, console)
    return stream.getvalue()


def test_the_terminals_table_shows_names_as_they_are_and_fits_in_80_columns() -> None:
    eight = [Part(f"part_{index}", index, f"Part {index}") for index in range(1, 9)]
    results = [result(part, 12.25) for part in eight]
    name = "a_very_long_submission_name_" * 3 + "[bold]x[/bold]"
    text = printed([report(*results, parts=eight, submission=name), report(*results, parts=eight, submission="ada")])
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "[/bold]" in "".join(line.split(" ")[0] for line in text.splitlines())
    assert "98" in text
    assert text.count("12.25") == 16
    assert "\x1b" not in text
    assert "─" not in text


def test_a_terminal_gets_rules_and_no_command_of_a_students() -> None:
    text = printed([report(result(), submission="\x1b[2Jada", outcome="no attention/ in it")], terminal=True)
    assert "─" in text
    assert "\x1b[31m" in text
    assert "\x1b[2J" not in text


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO()
    show_class([report(result(), outcome="no attention/ in it")], Console(file=stream, width=80, force_terminal=True))
    assert "\x1b[31m" not in stream.getvalue()


def test_the_paragraph_counts_what_needs_a_second_look() -> None:
    reports = [
        report(result(points=10)),
        report(result(points=5), submission="bob", problems=("attention/masking.py is not text",), notes=("Found in bob/",)),
        report(result(outcome=Outcome.GRADER_ERROR), submission="cy", isolation="none"),
        report(submission="di", outcome="no attention/ in it", isolation=""),
    ]
    text = summary(reports)
    assert "3 of 4 submissions graded, median score 5." in text
    assert "1 provisional" in text
    assert "Not all could be read of bob, di: the reports say why." in text
    assert "Isolation of student code: none, strict." in text
    assert "1 Scaled dot-product attention; 2 Masks; 8 (extra credit) Never the whole matrix" in text
    assert printed([]) == "No submissions were graded.\n"


def test_numbers_and_lines_read_as_a_person_writes_them() -> None:
    assert [number(value) for value in (20.0, 7.5, 0.0, 33.333333333, 100)] == ["20", "7.5", "0", "33.333333", "100"]
    assert clean_line(" a\n\tb\x00 ") == "a b"
