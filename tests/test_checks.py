"""The checks accept the reference under any secret, and catch each of these mistakes on a check whose title describes it."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from checks.package import read_folder
from checks.records import Outcome

from .support import MANIFEST, ROOT, all_checks, changed, direct_checks, grade_directly, lost, reference

MISTAKES: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "tests" / "mistakes.toml").read_text("utf-8"))


@pytest.mark.parametrize("secret", ["a", "b", "c", "d"])
def test_the_reference_passes_every_check(secret: str) -> None:
    results = grade_directly(reference(), secret=secret)
    assert len(results) == len(direct_checks())
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
    assert len(lost(results)) == len(direct_checks())


ZEROS = "(torch.zeros(*Q.shape[:-1], V.shape[-1]), torch.zeros(*Q.shape[:-1], K.shape[-2]))"
UNIFORM = "(V.mean(-2, keepdim=True).expand(*Q.shape[:-1], V.shape[-1]), torch.ones(*Q.shape[:-1], K.shape[-2]) / K.shape[-2])"
NONSENSE = ["None", "()", "(Q,)", "(Q, K, V)", "torch.zeros(())", "(torch.zeros(0), torch.zeros(0))", "({}, Q)", "'a'"]
NONSENSE += ["(V[..., :0], Q.bool())", "(Q.long(), K.to(torch.complex64))", "(Q[None, None], K[None])", ZEROS, UNIFORM]
NONSENSE += [
    "(Q * float('nan'), K * float('inf'))",
    "exec('raise ValueError(f\"x context key_padding_mask {Q.shape} {K.shape}\")')",
]


@pytest.mark.parametrize("answer", NONSENSE)
def test_nonsense_is_worth_little_and_makes_no_check_stumble(answer: str) -> None:
    """Whatever comes back is a failure of the student's, never the grader's."""
    text = f"import torch\ndef scaled_dot_product_attention(Q, K, V, causal=False):\n    return {answer}\n"
    text += f"def masked_attention(Q, K, V, key_padding_mask=None, causal=False):\n    return {answer}\n"
    text += f"def causal_mask(length, device=None):\n    Q = K = V = torch.zeros(length, length)\n    return {answer}\n"
    text += "class MultiHeadAttention(torch.nn.Module):\n    def __init__(self, d, h):\n        super().__init__()\n"
    text += "        self.num_heads = h\n        for name in ('W_q', 'W_k', 'W_v', 'W_o'):\n"
    text += "            setattr(self, name, torch.nn.Linear(d, d, bias=False))\n"
    text += "    def forward(self, Q, context=None, *, need_weights=False, **options):\n"
    text += "        K = V = Q if context is None else context\n"
    text += f"        found = {answer}\n"
    text += "        return found if need_weights or not isinstance(found, tuple) or not found else found[0]\n"
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
    earned = {name: result.earned for name, result in results.items() if result.earned}
    assert sum(earned.values()) <= 5, earned


@pytest.mark.parametrize(
    "answer",
    [
        "None",
        "()",
        "0",
        "-1",
        "2.5",
        "True",
        "'3'",
        "10**30",
        "10**400",
        "10**5000",
        "float('nan')",
        "float('inf')",
        "torch.zeros(())",
        "torch.zeros(3)",
        "torch.tensor(2**62)",
        "{}",
        "torch.float32",
    ],
)
@pytest.mark.parametrize("several", [False, True], ids=["one", "several"])
def test_no_number_makes_a_check_stumble(answer: str, several: bool) -> None:
    cost, statistics = (f"({answer},) * {count}" if several else answer for count in (3, 4))
    text = f"import torch\ndef Cost(**fields): return {cost}\nattention_cost = recurrence_cost = lambda length, width: {cost}\n"
    text += f"def crossover_length(width): return {answer}\ndef score_bytes(length, num_heads, dtype): return {answer}\n"
    text += f"def ScoreStatistics(**fields): return {statistics}\ndef score_statistics(Q, K, scaled=True): return {statistics}\n"
    parts = ("saturation", "complexity")
    results = {name: r for part in parts for name, r in grade_directly({f"attention/{part}.py": text}, part).items()}
    assert set(lost(results).values()) <= {Outcome.FAILED, Outcome.SKIPPED}
    earned = sum(result.earned for result in results.values())
    assert earned <= 1.5, "nonsense is worth little"


def test_titles_are_sentences_and_unlike() -> None:
    for part in MANIFEST.built:
        titles = [check.title for check in all_checks() if check.part == part.slug]
        assert len(set(titles)) == len(titles)
        assert all(title.endswith(".") and len(title) < 130 for title in titles)
