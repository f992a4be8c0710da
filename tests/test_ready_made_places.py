"""Where the library's attention is named: each way of naming it, and none of what only looks like it."""

from __future__ import annotations

import time

import pytest

from autograder.ready_made import places

from .support import MANIFEST, reference, variants

LIBRARY = frozenset({"attention/library.py"})


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("import torch.nn.functional as F\ndef f(Q):\n    return F.scaled_dot_product_attention(Q, Q, Q)\n", 3),
        ("from torch.nn.functional import scaled_dot_product_attention as fused\n", 1),
        ("from torch.nn.functional import (\n    softmax,\n    scaled_dot_product_attention,\n)\n", 3),
        ("import torch\nlayer = torch.nn.MultiheadAttention(4, 2)\n", 2),
        ("from torch.nn import MultiheadAttention as M\n", 1),
        ("from torch import nn\nblock = nn.TransformerEncoderLayer(4, 2)\n", 2),
        ("from torch.nn.attention.flex_attention import flex_attention\n", 1),
        ("import torch\nf = torch.nn.functional.multi_head_attention_forward\n", 2),
        ("import torch\nf = torch.ops.aten.scaled_dot_product_attention\nx = (\n", 2),
    ],
)
def test_each_way_of_naming_it_is_found(source: str, line: int) -> None:
    found = places({"attention/masking.py": source}, LIBRARY)
    assert found
    assert found[0].startswith(f"attention/masking.py:{line} uses `")
    assert places({"attention/library.py": source}, LIBRARY) == []


@pytest.mark.parametrize(
    "source",
    [
        "from .scaled_dot_product import scaled_dot_product_attention\n",
        "from attention.scaled_dot_product import scaled_dot_product_attention\nscaled_dot_product_attention(Q, K, V)\n",
        "from . import scaled_dot_product\nscaled_dot_product.scaled_dot_product_attention(Q, K, V)\n",
        "def scaled_dot_product_attention(Q, K, V): ...\n",
        "class Layer:\n    def forward(self, x):\n        return self.scaled_dot_product_attention(x, x, x)\n",
        "from . import scaled_dot_product as part1\npart1.scaled_dot_product_attention(Q, K, V)\n",
        "from . import own\nown.Transformer(4)\n",
        "class MultiHeadAttention: ...\nclass Transformer: ...\n",
        "# F.scaled_dot_product_attention\ntext = 'F.scaled_dot_product_attention'\n",
        '"""nn.MultiheadAttention does the same."""\n',
        "",
        "\x00 not Python (((",
    ],
)
def test_what_looks_like_it_is_not(source: str) -> None:
    assert places({"attention/masking.py": source}, LIBRARY) == []


def test_right_solutions_have_none() -> None:
    assert places(reference(), LIBRARY) == []
    for part in MANIFEST.built:
        for name, sources in variants(part.slug).items():
            assert places(sources, LIBRARY) == [], name


HOSTILE = ["(" * 250_000, "-" * 250_000 + "1", "a." * 120_000, "\n" * 250_000, "'''" * 80_000, "\\\n" * 120_000]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_text_breaks_it_or_takes_long(hostile: str) -> None:
    started = time.process_time()
    places({"attention/masking.py": hostile}, LIBRARY)
    assert time.process_time() - started < 10, "it takes about a second at most"
