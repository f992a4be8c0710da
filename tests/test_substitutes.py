"""Each part is graded alone: what is wrong in a part costs nothing in another one that calls it, and earns nothing there."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from checks import run, substitutes
from checks.calls import Transport
from checks.draw import seed_for
from checks.executor import Direct, seed_everything
from checks.package import Package
from checks.records import Outcome
from checks.run import Ending

from .support import LAYOUT, MANIFEST, ROOT, all_checks, changed, grade_directly, lost, reference

FOLDER = Path(substitutes.__file__).parent
SLUGS = sorted({slug for part in MANIFEST.parts for slug in part.uses})
THREE = ("scaled_dot_product", "masking", "multi_head")
WRONG = (
    "def f(:",
    "raise SystemExit",
    "",
    "from .multi_head import nothing",
    'def masked_attention(*Q, **K): raise NotImplementedError("part 2: masked_attention")',
    "def masked_attention(Q, K, V, key_padding_mask=None, causal=False): return V, K",
)


def without(file: str, text: str) -> dict[str, str]:
    return reference() | {file: text}


def test_there_is_one_for_every_part_that_another_uses() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__") == SLUGS


@pytest.mark.parametrize("slug", SLUGS)
def test_a_substitute_is_right(slug: str) -> None:
    """By its own part's checks, although it calls what that part may not."""

    @contextlib.contextmanager
    def opener(part: str, seed: int, others: Collection[str] = (), memory_mib: int | None = None) -> Iterator[Transport]:
        seed_everything(seed)
        sources, layout = substitutes.exchanged({}, LAYOUT, {slug, *others})
        yield Direct(Package(sources), layout)

    checks = [check for check in all_checks() if check.part == slug]
    results = {result.check: result for result in run.run(checks, opener, lambda check: seed_for("any", check.id))}
    assert not {name: result.message for name, result in results.items() if result.outcome is not Outcome.PASSED}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_part_2_costs_part_3_nothing(text: str) -> None:
    results = grade_directly(without("attention/masking.py", text), THREE)
    assert not [name for name in lost(results) if not name.startswith("masking::")]
    noted = [result for result in results.values() if result.note]
    assert {result.part for result in noted} == {"multi_head"}
    assert all("passes with a right masking.py in place of yours" in result.note for result in noted)


def test_what_was_right_all_along_is_not_noted() -> None:
    own = without("attention/masking.py", "")
    own["attention/helpers.py"] = reference()["attention/masking.py"]
    own["attention/multi_head.py"] = own["attention/multi_head.py"].replace("from .masking", "from .helpers")
    results = grade_directly(own, THREE)
    assert not [name for name in lost(results) if not name.startswith("masking::")]
    assert not [result for result in results.values() if result.note]


def test_what_is_wrong_in_part_3_itself_is_found_all_the_same() -> None:
    sources = changed("attention/multi_head.py", (".transpose(1, 2).flatten(start_dim=2)", ".flatten(start_dim=2).view(x.shape)"))
    alone = grade_directly(sources, "multi_head")
    both = grade_directly(sources | {"attention/masking.py": WRONG[-1]}, THREE)
    of_part = {name: outcome for name, outcome in lost(both).items() if name.startswith("multi_head::")}
    assert of_part
    assert of_part == lost(alone)
    failed = next(result for result in both.values() if result.outcome is Outcome.FAILED and result.part == "multi_head")
    assert "With a right masking.py in place of yours it fails, too" in failed.note


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("attention/masking.py", "from .scaled_dot_product import scaled_dot_product_attention as masked_attention"),
        (
            "attention/scaled_dot_product.py",
            "from .masking import masked_attention\ndef scaled_dot_product_attention(Q, K, V, causal=False):\n"
            "    return masked_attention(Q, K, V, None, causal)",
        ),
        ("attention/masking.py", "from .multi_head import masked_attention"),
    ],
)
def test_nobody_earns_a_part_by_calling_another(file: str, text: str) -> None:
    """Nothing that is not done anywhere is paid for: parts 1 and 2 use no other."""
    slug = Path(file).stem
    stubs = {part.file: "" for part in MANIFEST.built}
    results = grade_directly(stubs | {file: text}, slug)
    assert sum(result.earned for result in results.values()) == 0


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("F.scaled_dot_product_attention(Q, K, V)", "is ready-made attention"),
        ("torch.nn.MultiheadAttention(12, 4, batch_first=True)(x, x, x)", "is ready-made attention"),
    ],
)
def test_ready_made_attention_stays_forbidden_beside_a_substitute(body: str, told: str) -> None:
    text = reference()["attention/multi_head.py"].replace("masked_attention(Q, K, V, key_padding_mask, causal)", body)
    text = text.replace("import torch\n", "import torch\nimport torch.nn.functional as F\n", 1)
    results = grade_directly({"attention/multi_head.py": text, "attention/masking.py": WRONG[-1]}, THREE)
    result = results["multi_head::test_no_ready_made_attention"]
    assert (result.outcome, told in result.message) == (Outcome.RAISED, True)


def test_it_is_the_same_in_the_sandbox(tmp_path: Path) -> None:
    submission = tmp_path / "class" / "one"
    for file, text in without("attention/masking.py", WRONG[-1]).items():
        path = submission / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    (tmp_path / "secret").write_text("a secret of this test")
    command = [sys.executable, "-m", "autograder", "grade", submission, "--out", tmp_path, "--secret-file", tmp_path / "secret"]
    ran = subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    report = json.loads((tmp_path / "one" / "results.json").read_text("utf-8"))
    parts = report["extra_data"]["parts"]
    assert parts["masking"]["score"] < 3
    assert all(each["score"] == each["max_score"] for slug, each in parts.items() if slug != "masking")
    outputs = [test["output"] for test in report["tests"] if "multi_head" in test["tags"]]
    assert any("passes with a right masking.py" in output for output in outputs)


def test_a_second_opinion_without_an_answer_changes_nothing() -> None:
    first = Ending(Outcome.FAILED, "wrong", seconds=1)
    for outcome in (Outcome.RAISED, Outcome.TIMED_OUT, Outcome.CRASHED, Outcome.SKIPPED, Outcome.NOT_STARTED):
        ended = run._second_opinion(first, Ending(outcome, "other", seconds=2), ("masking",))
        assert ended == Ending(Outcome.FAILED, "wrong", seconds=3)
    same = run._second_opinion(first, Ending(Outcome.FAILED, "wrong"), ("masking",))
    assert (same.message, same.note) == ("wrong", ""), "the other part has nothing to do with it"
    ended = run._second_opinion(first, Ending(Outcome.GRADER_ERROR, "oops"), ("masking",))
    assert ended.outcome is Outcome.GRADER_ERROR
