"""Public checks of part 4, `attention/library.py`."""

from __future__ import annotations

from . import expected
from .compare import FLOAT32, expect_close, fail
from .errors import CheckFailed
from .library_pairs import bring, expect_difference, expect_same_function, library_of
from .registry import check
from .student import Student, describe

PART = "library"
MADE = "the arguments of nn.MultiheadAttention: d_model, the number of heads, bias=False, batch_first=True."
PACKED = (
    "in_proj_weight: W_q on top, then W_k, then W_v, none of them transposed. W_o goes to out_proj.weight, under torch.no_grad()."
)
VALUES = "which two outputs are compared, and that it is the largest absolute difference: abs() before max(), then a plain float."
POLARITY = "what True means: padding in this mask, and the opposite, “take part”, in attn_mask of the fused call."


@check(part=PART, points=0.5, hint=MADE)
def test_to_library_makes_the_librarys_layer(student: Student) -> None:
    """to_library returns an nn.MultiheadAttention of the same sizes, with batch_first=True and without bias."""
    layer = student.draw.layer()
    copy = library_of(student, bring(student, layer).target)
    settings, parameters = copy.describe().attributes, copy.describe().parameters
    wanted = {"batch_first": 1, "embed_dim": layer.d_model, "num_heads": layer.num_heads}
    for name, value in wanted.items():
        if settings.get(name) != value:
            shown = bool(value) if name == "batch_first" else value
            raise CheckFailed(f"{copy.shown}: its {name} is not {shown}.\nLook at: {MADE}")
    if others := set(parameters) - {"in_proj_weight", "out_proj.weight"}:
        raise CheckFailed(f"{copy.shown}: it has the parameter {min(others)}, and must have no bias.\nLook at: {MADE}")


@check(part=PART, points=1, hint=PACKED)
def test_to_library_is_the_same_function(student: Student) -> None:
    """What to_library returns computes the same as the layer it was given."""
    pair = bring(student)
    x = student.draw.normal(7, pair.layer.d_model)
    expect_same_function(library_of(student, pair.target), pair, x)


@check(part=PART, points=0.5, hint=VALUES)
def test_no_difference_between_equal_layers(student: Student) -> None:
    """library_difference is next to nothing for a layer that is right."""
    pair = bring(student)
    x = student.draw.normal(2, 7, pair.layer.d_model)
    for causal in (False, True):
        expect_difference(student, pair, x, causal, look=VALUES)


@check(part=PART, points=0.75, hint=VALUES)
def test_a_wrong_layer_is_found(student: Student) -> None:
    """library_difference is a float, as large as a layer is wrong: a weight transposed, one entry off, a mask ignored."""
    layer = student.draw.layer()
    x, mask = student.draw.normal(2, 7, layer.d_model), student.draw.padding(2, 7)
    pair = bring(student, layer, "that uses W_k transposed", transposed=("W_k",))
    expect_difference(student, pair, x, look=VALUES)
    pair = bring(student, layer, "that is off by -0.05 in one entry", adds=-0.05, at=(1, 3, 2))
    expect_difference(student, pair, x, look=VALUES)
    pair = bring(student, layer, "that ignores its padding mask", ignores=("key_padding_mask",))
    expect_difference(student, pair, x, mask=mask, look=f"both masks go to both layers. {VALUES}")
    answer = student.library_difference(pair.target, x)
    if not isinstance(answer.reply.value, float):
        fail(answer, f"it came back as {describe(answer.reply.value)}, and must be a plain float.", VALUES)


@check(part=PART, points=1.25, hint=POLARITY)
def test_fused_attention_under_padding(student: Student) -> None:
    """fused_attention gives part 2's output, without masks and under padding."""
    sizes = student.draw.sizes()
    Q, K, V = student.draw.qkv(sizes)
    for mask in (None, student.draw.padding(sizes.B, sizes.L_k)):
        output, _ = expected.attention(Q, K, V, mask)
        answer = student.fused_attention(Q, K, V, key_padding_mask=mask)
        expect_close(answer, "output", output, FLOAT32, source="torch's library with the same keys hidden", look=POLARITY)
