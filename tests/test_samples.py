"""The sample class is what its README says, as far as that can be told without grading it.

Only files that are right, or wrong without harm, are imported here; what hangs, dies or devours is left to the sandbox.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from autograder import manifest
from solutions.attention import complexity, saturation
from solutions.attention.masking import masked_attention
from solutions.attention.multi_head import MultiHeadAttention
from solutions.attention.scaled_dot_product import scaled_dot_product_attention
from tests.make_zip_sample import TARGET, zip_bytes

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "tests" / "submissions"
STUBS = ROOT / "student_template" / "attention"
MANIFEST = manifest.load(manifest.default_path())
MASK = torch.tensor([[0, 1, 0, 0, 1], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)

RIGHT = {  # the parts that are right and independent of what is broken beside them
    "endless_import": {1, 2, 5, 6},
    "endless_loop": {1, 3, 5, 6},
    "exits": {2, 3, 5, 6},
    "half_done": {1},
    "latin1": {1, 3, 5, 6},
    "memory_hog": {1, 3},
    "mixed": {1, 5, 6},
    "reference_equal": {1, 2, 3, 5, 6},
    "segfault": {1, 2},
    "syntax_error": {1, 3},
    "zipped.zip": {1, 2, 3, 5, 6},
}

Load = Callable[[str, int], ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Import one part's file of a sample, under a package name of its own, leaving nothing in its folder."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names: list[str] = []

    def load_part(sample: str, number: int) -> ModuleType:
        folder = SAMPLES / sample / "attention"
        if sample.endswith(".zip"):
            zipfile.ZipFile(SAMPLES / sample).extractall(tmp_path)
            folder = tmp_path / "alice_hw" / "attention"
        package = "sample_" + re.sub(r"\W", "_", sample)
        names.append(package)
        parent = ModuleType(package)
        parent.__path__ = [str(folder)]
        sys.modules[package] = parent
        slug = MANIFEST.part(number).slug
        spec = importlib.util.spec_from_file_location(f"{package}.{slug}", folder / f"{slug}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load_part
    for name in [name for name in sys.modules if name.split(".")[0] in names]:
        del sys.modules[name]


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def answers(module: ModuleType, number: int) -> tuple[Tensor, ...]:
    """Output and weights of a part on fixed inputs, and the gradients through it; of parts 5 and 6, their numbers."""
    if number == 5:
        Q, K = normal(5, 6, seed=1), normal(7, 6, seed=2)
        return tuple(torch.tensor(module.score_statistics(Q, K, scaled=scaled)) for scaled in (True, False))
    if number == 6:
        costs = (module.attention_cost(7, 5), module.recurrence_cost(7, 5), module.attention_cost(8192, 64))
        return tuple(map(torch.tensor, (*costs, module.crossover_length(5), module.score_bytes(7, 3, torch.bfloat16))))
    Q, K, V = (normal(3, 2, 5, width, seed=seed).requires_grad_() for seed, width in enumerate((6, 6, 4)))
    if number == 1:
        output, weights = module.scaled_dot_product_attention(Q, K, V, causal=True)
    elif number == 2:
        output, weights = module.masked_attention(Q, K, V, MASK, causal=True)
    else:
        layer = module.MultiHeadAttention(12, 4).double()
        weights_by_name = {f"{name}.weight": normal(12, 12, seed=seed) for seed, name in enumerate(("W_q", "W_k", "W_v", "W_o"))}
        layer.load_state_dict(weights_by_name)
        Q = K = V = normal(3, 5, 12, seed=9).requires_grad_()
        output, weights = layer(Q, causal=True, key_padding_mask=MASK, need_weights=True)
    return (output, weights, *torch.autograd.grad(output, [Q, K, V], normal(*output.shape, seed=8)))


def reference(number: int) -> tuple[Tensor, ...]:
    module = ModuleType("reference")
    vars(module).update(
        scaled_dot_product_attention=scaled_dot_product_attention,
        masked_attention=masked_attention,
        MultiHeadAttention=MultiHeadAttention,
        **{name: getattr(part, name) for part in (complexity, saturation) for name in vars(part)},
    )
    return answers(module, number)


def agree(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> list[bool]:
    return [torch.allclose(mine, theirs, atol=1e-9) for mine, theirs in zip(found, expected, strict=True)]


@pytest.mark.parametrize(("sample", "number"), [(sample, number) for sample, numbers in RIGHT.items() for number in numbers])
def test_right_parts_are_right(load: Load, sample: str, number: int) -> None:
    assert all(agree(answers(load(sample, number), number), reference(number)))


def test_the_wrong_parts_of_mixed_are_wrong_as_described(load: Load) -> None:
    output, weights, *_ = answers(load("mixed", 2), 2)
    expected = reference(2)
    assert not torch.allclose(output, expected[0])
    assert torch.equal(weights == 0, expected[1] == 0)
    sums = weights.sum(-1, keepdim=True)
    torch.testing.assert_close(weights / sums.where(sums > 0, 1.0), expected[1])
    assert agree(answers(load("mixed", 3), 3), reference(3)) == [False] * 5


def test_the_chapter_as_printed_is_right_without_a_batch_and_only_there(load: Load) -> None:
    layer = load("chapter_as_printed", 3).MultiHeadAttention(12, 4)
    mine = MultiHeadAttention(12, 4)
    mine.load_state_dict(layer.state_dict())
    x = normal(5, 12, seed=1).float()
    torch.testing.assert_close(layer(x, causal=True), mine(x, causal=True))
    with pytest.raises(ValueError, match="too many values to unpack"):
        layer(x[None])
    assert all(agree(answers(load("chapter_as_printed", 1), 1), reference(1)))


@pytest.mark.parametrize(
    ("sample", "file"),
    [("untouched_template", path.name) for path in sorted(STUBS.glob("*.py"))]
    + [("half_done", "multi_head.py"), ("chapter_as_printed", "masking.py")],
)
def test_parts_not_begun_are_the_stubs_as_handed_out(sample: str, file: str) -> None:
    assert (SAMPLES / sample / "attention" / file).read_bytes() == (STUBS / file).read_bytes(), f"copy it again into {sample}"


def test_half_done_has_begun_only_the_causal_mask(load: Load) -> None:
    module = load("half_done", 2)
    assert torch.equal(module.causal_mask(4), torch.ones(4, 4).triu(1).bool())
    with pytest.raises(NotImplementedError, match=r"^part 2: masked_attention$"):
        module.masked_attention(None, None, None)


def test_broken_files_are_broken_as_described() -> None:
    source = (SAMPLES / "syntax_error" / "attention" / "masking.py").read_text(encoding="utf-8")
    with pytest.raises(SyntaxError, match="expected ':'"):
        compile(source, "masking.py", "exec")
    latin1 = (SAMPLES / "latin1" / "attention" / "masking.py").read_bytes()
    with pytest.raises(UnicodeDecodeError):
        latin1.decode("utf-8")
    compile(latin1.decode("latin-1"), "masking.py", "exec")


def test_the_committed_zip_is_what_the_script_makes() -> None:
    assert TARGET.read_bytes() == zip_bytes(), "run `python tests/make_zip_sample.py`"
    names = zipfile.ZipFile(TARGET).namelist()
    assert "alice_hw/attention/helpers.py" in names
    assert any(name.startswith("__MACOSX/") for name in names)


def test_the_readme_lists_the_class() -> None:
    listed = re.findall(r"^\| `([^`]+)` \|", (SAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == sorted(path.name for path in SAMPLES.iterdir() if path.name != "README.md")
