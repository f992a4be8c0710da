"""The checks accept the reference under any secret, and catch each of these mistakes on a check whose title describes it."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from checks.package import read_folder
from checks.records import Outcome

from .support import MANIFEST, ROOT, all_checks, changed, grade_directly, lost, reference

MISTAKES: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "tests" / "mistakes.toml").read_text("utf-8"))


@pytest.mark.parametrize("secret", ["a", "b", "c", "d"])
def test_the_reference_passes_every_check(secret: str) -> None:
    results = grade_directly(reference(), secret=secret)
    assert len(results) == len(all_checks())
    assert not lost(results), {name: results[name].message for name in lost(results)}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_caught_by_the_check_that_describes_it(name: str) -> None:
    mistake = MISTAKES[name]
    described = next(part for part in MANIFEST.built if part.file == mistake["file"])
    part, slow = described.slug, described.limits.seconds > 5  # of a part that trains, all the checks would take minutes
    only = mistake["caught_by"] if slow and not mistake.get("alone") else None
    results = grade_directly(changed(mistake["file"], (mistake["old"], mistake["new"])), part, only=only)
    ended = results[f"{part}::{mistake['caught_by']}"].outcome
    assert ended in (Outcome.FAILED, Outcome.RAISED), f"{ended}; lost were {lost(results)}"
    assert Outcome.GRADER_ERROR not in lost(results).values()
    if mistake.get("alone"):
        assert list(lost(results)) == [f"{part}::{mistake['caught_by']}"]


def test_the_untouched_template_is_not_started_in_every_check() -> None:
    results = grade_directly(read_folder(ROOT / "student_template")[0])
    assert set(lost(results).values()) == {Outcome.NOT_STARTED}
    assert len(lost(results)) == len(all_checks())


@pytest.mark.parametrize(
    "answer",
    [
        "None",
        "()",
        "(Q,)",
        "(Q, K, V)",
        "torch.zeros(())",
        "(torch.zeros(0), torch.zeros(0))",
        "({}, Q)",
        "(V[..., :0], Q.bool())",
        "(Q.long(), K.to(torch.complex64))",
        "'a'",
        "(Q[None, None], K[None])",
        "(Q * float('nan'), K * float('inf'))",
    ],
)
def test_no_answer_makes_a_check_stumble(answer: str) -> None:
    """Whatever comes back is a failure of the student's, never the grader's."""
    text = f"import torch\ndef scaled_dot_product_attention(Q, K, V, causal=False):\n    return {answer}\n"
    text += f"def masked_attention(Q, K, V, key_padding_mask=None, causal=False):\n    return {answer}\n"
    text += f"def causal_mask(length, device=None):\n    Q = K = V = torch.zeros(length, length)\n    return {answer}\n"
    text += "class MultiHeadAttention(torch.nn.Module):\n    def __init__(self, d, h):\n        super().__init__()\n"
    text += (
        "        for name in ('W_q', 'W_k', 'W_v', 'W_o'):\n            setattr(self, name, torch.nn.Linear(d, d, bias=False))\n"
    )
    text += f"    def forward(self, Q, context=None, **options):\n        K = V = Q\n        return {answer}\n"
    header, body = f"        Q = K = V = torch.zeros(3, 3)\n        return {answer}\n", ""
    for name in (
        "circle_embedding",
        "lag_profile",
        "dominant_lag",
        "sinusoidal_positions",
        "next_step_pairs",
        "train_forecaster",
    ):
        body += f"def {name}(*args, **options):\n{header}"
    text += body + "class AttentionForecaster(torch.nn.Linear):\n    def forward(self, Q):\n        K = V = Q\n"
    text += f"        return {answer}\n"
    results = grade_directly({part.file: text for part in MANIFEST.built})
    assert not {name: result.message for name, result in results.items() if result.outcome is Outcome.GRADER_ERROR}
    earned = sum(result.earned for result in results.values())
    assert earned <= 8, "nonsense is worth little"


def test_titles_are_sentences_and_unlike() -> None:
    for part in MANIFEST.built:
        titles = [check.title for check in all_checks() if check.part == part.slug]
        assert len(set(titles)) == len(titles)
        assert all(title.endswith(".") and len(title) < 130 for title in titles)
