"""A failure says what was called, what came back, what was expected, where, and what to look at next."""

from __future__ import annotations

import math

import pytest
import torch

from checks import compare
from checks.calls import Call, Make, Opaque, Reply, Request
from checks.compare import FLOAT32
from checks.draw import Draw
from checks.errors import CheckFailed, StudentRaised, WorkerCrashed
from checks.student import Answer, Student


class Canned:
    """A transport that always gives the same reply, or raises the same error."""

    printed = ""

    def __init__(self, reply: Reply | Exception) -> None:
        self.reply = reply

    def perform(self, request: Request) -> Reply:
        if isinstance(self.reply, Exception):
            raise self.reply
        if isinstance(request, Make):
            return Reply(module=0, parameters={name + ".weight": tuple(w.shape) for name, w in request.weights.items()})
        assert isinstance(request, Call)
        return self.reply


Q, K, V = torch.zeros(2, 3, 4), torch.zeros(2, 5, 4), torch.zeros(2, 5, 6)
OUTPUT, WEIGHTS = torch.zeros(2, 3, 6), torch.full((2, 3, 5), 0.2)


def answer(*value: object, **options: object) -> Answer:
    reply = Reply(value=value if len(value) != 1 else value[0])
    found: Answer = Student(Canned(reply), Draw(0)).scaled_dot_product_attention(Q, K, V, **options)
    return found


def message(function: object, *args: object, **options: object) -> str:
    with pytest.raises(CheckFailed) as caught:
        function(*args, **options)  # type: ignore[operator]
    return str(caught.value)


def test_a_wrong_value_is_shown_whole() -> None:
    wrong = WEIGHTS.clone()
    wrong[1, 2, 3], wrong[0, 0, 0] = 0.9, 0.3
    told = message(
        compare.expect_close, answer(OUTPUT, wrong), "weights", WEIGHTS, FLOAT32, source="the library", look="the scale."
    )
    assert told.splitlines() == [
        "scaled_dot_product_attention(Q, K, V) with Q (2, 3, 4), K (2, 5, 4), V (2, 5, 6):",
        "weights[1, 2, 3] is 0.9 and must be 0.2 (the library).",
        "2 of 30 entries are wrong; the largest difference is 0.7.",
        "Look at: the scale.",
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_wrong_and_worst(value: float) -> None:
    wrong = WEIGHTS.clone()
    wrong[0, 1, 1], wrong[1, 1, 1] = value, 100.0
    told = message(compare.expect_close, answer(OUTPUT, wrong), "weights", WEIGHTS, FLOAT32)
    assert f"weights[0, 1, 1] is {value:g} and must be 0.2" in told
    assert "is nan" in told or not math.isnan(value)


def test_only_where_asked() -> None:
    wrong = WEIGHTS.clone()
    wrong[0] = 7
    compare.expect_close(answer(OUTPUT, wrong), "weights", WEIGHTS, FLOAT32, only=torch.tensor([False, True])[:, None, None])


def test_a_forbidden_weight_says_why() -> None:
    padded = torch.zeros(2, 1, 5, dtype=torch.bool)
    padded[1, 0, 4] = True
    told = message(
        compare.expect_zero, answer(OUTPUT, WEIGHTS), "weights", padded, lambda at: f"key {at[-1]} of item {at[0]} is padding"
    )
    assert "weights[1, 0, 4] is 0.2 and must be 0: key 4 of item 1 is padding. 3 of 3 entries that must be 0 are not." in told


@pytest.mark.parametrize(("weights", "told"), [(WEIGHTS * 2, "sums to 2"), (-WEIGHTS, "no weight may be negative")])
def test_rows(weights: torch.Tensor, told: str) -> None:
    assert told in message(compare.expect_rows_sum_to_one, answer(OUTPUT, weights))
    compare.expect_rows_sum_to_one(answer(OUTPUT, WEIGHTS))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ((OUTPUT,), "came back as a float32 tensor of shape (2, 3, 6), and must be a tuple of 2: (output, weights)"),
        ((OUTPUT, WEIGHTS, 3), "came back as a tuple of 3"),
        ((None,), "came back as None, and must be a tuple of 2"),
        ((Opaque("ndarray"), WEIGHTS), "output came back as an object of type ndarray, and must be a tensor"),
        ((OUTPUT[0], WEIGHTS), "output has shape (3, 6), and must have (2, 3, 6)"),
    ],
)
def test_what_is_no_pair_of_tensors(value: tuple[object, ...], told: str) -> None:
    assert told in message(compare.expect_close, answer(*value), "output", OUTPUT, FLOAT32)


def statistics(*value: object) -> Answer:
    found: Answer = Student(Canned(Reply(value=value)), Draw(0)).score_statistics(Q[0], K[0], scaled=False)
    return found


@pytest.mark.parametrize(
    ("entropy", "number"),
    [
        (0.5, 0.5),
        (2, 2.0),
        (torch.tensor(0.25), 0.25),
        (torch.tensor(3), 3.0),
        (10**400, math.inf),
        (-(10**400), -math.inf),
    ],
)
def test_what_is_as_good_as_a_float(entropy: object, number: float) -> None:
    assert statistics(1.0, 1.0, entropy, 1.0).number("entropy") == number
    assert type(statistics(1.0, 1.0, entropy, 1.0).number("entropy")) is float


@pytest.mark.parametrize(
    ("entropy", "told"),
    [
        (None, "entropy came back as None, and must be a float"),
        (True, "entropy came back as True, and must be a float"),
        ("1.0", "entropy came back as '1.0', and must be a float"),
        (torch.tensor(True), "entropy came back as a bool tensor of shape (), and must be a float"),
        (torch.ones(1), "entropy came back as a float32 tensor of shape (1,), and must be a float"),
        ((1.0,), "entropy came back as a tuple of 1 (1.0), and must be a float"),
        (Opaque("Fraction"), "entropy came back as an object of type Fraction, and must be a float"),
    ],
)
def test_what_is_no_float(entropy: object, told: str) -> None:
    assert told in message(statistics(1.0, 1.0, entropy, 1.0).number, "entropy")


@pytest.mark.parametrize("length", [3.0, True, None, "3", (3,), torch.tensor(3), Opaque("int64")])
def test_where_an_int_is_due_nothing_else_will_do(length: object) -> None:
    found = Student(Canned(Reply(value=length)), Draw(0)).crossover_length(2)
    assert "crossover_length(width=2):\nlength came back as " in message(compare.expect_count, found, "length", 3)
    assert "and must be an int." in message(found.number, "length")


def test_counts_are_exact() -> None:
    found = Student(Canned(Reply(value=10**30 + 1)), Draw(0)).crossover_length(2)
    compare.expect_count(found, "length", 10**30 + 1)
    assert f"length is {10**30 + 1} and must be {10**30} (by hand)." in message(
        compare.expect_count, found, "length", 10**30, source="by hand"
    )


def test_numbers_are_compared_within_a_tolerance_and_never_by_being_undefined() -> None:
    found = statistics(1.00001, math.nan, math.inf, 10**400)
    compare.expect_number(found, "variance", 1.0, FLOAT32)
    assert "variance is 1 and must be 2 (the definition).\nLook at: it." in message(
        compare.expect_number, found, "variance", 2.0, FLOAT32, source="the definition", look="it."
    )
    for name, told in (("max_weight", "nan"), ("entropy", "inf"), ("sensitivity", "inf")):
        assert f"{name} is {told} and must be 1." in message(compare.expect_number, found, name, 1.0, FLOAT32)
    assert "must be a tuple of 4: (variance, max_weight, entropy, sensitivity)" in message(statistics(1.0).number, "entropy")


def test_a_call_that_raises_says_what_was_called() -> None:
    student = Student(Canned(StudentRaised(("IndexError", "Exception"), "out of range", "attention/masking.py:3")), Draw(0))
    with pytest.raises(StudentRaised) as caught:
        student.masked_attention(Q, K, V, key_padding_mask=torch.zeros(2, 5, dtype=torch.bool), causal=True)
    assert str(caught.value).splitlines() == [
        "masked_attention(Q, K, V, key_padding_mask, causal=True) with Q (2, 3, 4), K (2, 5, 4), V (2, 5, 6), "
        "key_padding_mask (2, 5):",
        "raised IndexError: out of range",
    ]


def test_errors_have_to_be_of_the_right_kind() -> None:
    def raising(kind: str, text: str = "Q is 4 wide") -> Student:
        return Student(Canned(StudentRaised((kind, "Exception"), text, "attention/a.py:9")), Draw(0))

    def attend(student: Student) -> str:
        return compare.expect_error(lambda: student.scaled_dot_product_attention(Q, K, V), "f(Q, K, V)", why="widths differ")

    assert attend(raising("ValueError")) == "Q is 4 wide"
    told = message(attend, raising("RuntimeError"))
    assert "widths differ, so it must raise ValueError; it raised RuntimeError (attention/a.py:9)." in told
    told = message(attend, Student(Canned(Reply(value=(OUTPUT, WEIGHTS))), Draw(0)))
    assert "it came back with a tuple of 2 (a float32 tensor of shape (2, 3, 6), a float32 tensor of shape (2, 3, 5))" in told
    with pytest.raises(StudentRaised):
        attend(raising("NotImplementedError", "part 1: f"))


def test_error_texts() -> None:
    compare.expect_tells("Q is (2, 5, 6) and K is (2, 7, 8)", "f", ("Q", "K"), (6, 8))
    compare.expect_tells("key_padding_mask has shape [2, 9]", "f", ("mask", "key_padding_mask"), (9,))
    assert "must name Q" in message(compare.expect_tells, "sizes 6 and 8 differ", "f", ("Q",), (6,))
    assert "must show the size 8" in message(compare.expect_tells, "Q: 6 is not 18", "f", ("Q",), (6, 8))


def trained(*errors: object) -> Answer:
    student = Student(Canned(Reply(value=errors)), Draw(0))
    model = student.AttentionForecaster(8, 16)
    told: Answer = student.train_forecaster(model, torch.zeros(2, 5), steps=2, learning_rate=0.5)
    return told


@pytest.mark.parametrize(
    ("errors", "told"),
    [
        ((0.5, 1), "errors came back as a tuple of 2 (0.5, 1), and must be a list of floats."),
        ((0.5, OUTPUT), "must be a list of floats"),
        ((0.5,), "errors has 1 entries, and must have 2."),
    ],
)
def test_a_list_of_numbers(errors: tuple[object, ...], told: str) -> None:
    assert trained(0.5, math.inf).numbers("errors", 2) == [0.5, math.inf]
    assert told in message(trained(*errors).numbers, "errors", 2)


def test_a_module_is_an_argument_like_any_other() -> None:
    told = message(trained().numbers, "errors", 2)
    assert told.startswith(
        "train_forecaster(model, series, steps=2, learning_rate=0.5) with model AttentionForecaster(8, 16), series (2, 5):"
    )


def test_an_argument_that_was_written_to() -> None:
    student = Student(Canned(Reply(value=(OUTPUT, WEIGHTS), after=(Q, K + 1, V))), Draw(0))
    told = message(compare.expect_unchanged, student.scaled_dot_product_attention.observe(Q, K, V, after=True))
    assert "K was changed by the call" in told
    student = Student(Canned(Reply(value=(OUTPUT, WEIGHTS), after=(Q,))), Draw(0))
    with pytest.raises(WorkerCrashed):
        compare.expect_unchanged(student.scaled_dot_product_attention.observe(Q, K, V, after=True))


def test_a_gradient_that_does_not_arrive() -> None:
    gradients = {"arg0": torch.ones_like(Q), "arg1": None, "arg2": torch.ones(1)}
    student = Student(Canned(Reply(value=(OUTPUT, WEIGHTS), gradients=gradients)), Draw(0))
    found = student.gradients(student.scaled_dot_product_attention, Q, K, V, upstream=(OUTPUT, None))
    compare.expect_gradients(found, {"Q": torch.ones_like(Q)})
    assert "no gradient reaches K" in message(compare.expect_gradients, found, {"K": K})
    with pytest.raises(WorkerCrashed):
        compare.expect_gradients(found, {"V": V})


def test_operations_that_grow() -> None:
    def counted(*names: str) -> Answer:
        student = Student(Canned(Reply(value=(OUTPUT, WEIGHTS), operations=names)), Draw(0))
        found: Answer = student.scaled_dot_product_attention.observe(Q, K, V, count=True)
        return found

    small = counted("aten.bmm", "aten.add")
    compare.expect_same_operations(small, counted("aten.bmm", "aten.add"), "L grows")
    told = message(compare.expect_same_operations, small, counted("aten.bmm", "aten.bmm", "aten.bmm", "aten.add"), "L grows")
    assert "4 tensor operations instead of 2: bmm runs 1 times, and 3 times when L grows." in told
