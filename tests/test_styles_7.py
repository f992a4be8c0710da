"""Part 7 in five other styles: other optimisers, layers, positions, and ways to say the same. None of them loses anything."""

from __future__ import annotations

import pytest

from .support import grade_directly, lost, variants

STYLES = variants("forecasting")


@pytest.mark.parametrize("style", STYLES)
def test_a_right_solution_in_another_style_loses_nothing(style: str) -> None:
    results = grade_directly(STYLES[style], "forecasting", secret=style)
    assert not lost(results), {name: results[name].message for name in lost(results)}
    assert not [name for name, result in results.items() if result.note], "it did not need another part's help"


def test_there_are_five() -> None:
    assert len(STYLES) >= 5


@pytest.mark.parametrize("broken", ["", "def f(:", "def scaled_dot_product_attention(Q, K, V, causal=False): return V, K"])
def test_a_wrong_part_1_costs_part_7_nothing(broken: str) -> None:
    """Neither a model that calls it nor one that does not; of the first, the report says that it took a right part 1."""
    for style, calls_it in (("residual_adam", True), ("clipped_nesterov", False)):
        results = grade_directly(STYLES[style] | {"attention/scaled_dot_product.py": broken}, "forecasting", secret=style)
        assert not lost(results), {name: results[name].message for name in lost(results)}
        noted = {result.check for result in results.values() if result.note}
        assert ("test_no_later_value_reaches_a_forecast" in noted) is calls_it
        assert "test_attention_matrix_of_the_toy_series" in noted, "that one is about part 1 and part 7 together"
        assert calls_it or len(noted) == 1
