"""Right answers to parts 4 and 8 in other styles than the reference's lose nothing."""

from __future__ import annotations

import re

import pytest

from . import styles_library, styles_streaming
from .support import grade_directly, lost, reference

STYLES = [("library", name, source) for name, source in styles_library.STYLES.items()]
STYLES += [("streaming", name, source) for name, source in styles_streaming.STYLES.items()]


@pytest.mark.parametrize(("part", "source"), [pytest.param(part, source, id=f"{part}-{name}") for part, name, source in STYLES])
@pytest.mark.parametrize("secret", ["a", "b"])
def test_another_style_loses_nothing(part: str, source: str, secret: str) -> None:
    sources = reference() | {f"attention/{part}.py": source}
    if source == styles_library.PARAMETERS:
        sources["attention/multi_head.py"] = _with_parameters(sources["attention/multi_head.py"])
    results = grade_directly(sources, part, secret)
    assert not lost(results), {name: results[name].message for name in lost(results)}


def _with_parameters(multi_head: str) -> str:
    """The reference's part 3 with its projections as parameters."""
    text = multi_head.replace("nn.Linear(d_model, d_model, bias=False)", "nn.Parameter(torch.zeros(d_model, d_model))")
    return re.sub(r"self\.(W_.)\(", r"nn.functional.linear(weight=self.\1, input=", text).replace(".in_features", ".shape[1]")
