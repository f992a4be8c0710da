"""Comparisons whose messages say what was called, what came back, what was expected, where, and what to look at next.

Every number is compared in float64 and every comparison is false on NaN, so nothing passes by being undefined.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from .errors import CheckFailed, StudentRaised, is_stub
from .student import Answer, describe, dtype_name


@dataclass(frozen=True)
class Tolerance:
    rtol: float
    atol: float


FLOAT32 = Tolerance(1e-4, 1e-5)  # values, scores up to about 10
FLOAT64 = Tolerance(1e-5, 1e-6)
LARGE_SCORES = Tolerance(1e-3, 2e-4)
GRADIENT = Tolerance(1e-4, 1e-5)  # in float64, against a random upstream gradient
BY_DTYPE: Mapping[torch.dtype, Tolerance] = {
    torch.float64: FLOAT64,
    torch.float32: FLOAT32,
    torch.bfloat16: Tolerance(5e-2, 5e-2),
    torch.float16: Tolerance(1e-2, 1e-2),
}
_NO_ANSWERS = ("ReadyMadeAttention", "MissingName", "SystemExit")
ROW_SUM = 1e-5
FORBIDDEN_WEIGHT = 1e-6  # a finite fill value leaves no exact zero, and need not


def fail(answer: Answer, what: str, look: str = "") -> NoReturn:
    """Fail with the call in front and what to look at behind."""
    raise CheckFailed(f"{answer.described}:\n{what}" + (f"\nLook at: {look}" if look else ""))


def expect_pair(answer: Answer) -> None:
    """Two floating-point tensors, in the right order; their shapes are for other checks to judge."""
    shapes = answer.shapes()
    found = {name: answer.tensor(name) for name in shapes}
    for name, tensor in found.items():
        if not tensor.is_floating_point():
            fail(answer, f"{name} is {dtype_name(tensor.dtype)}, and must be floating point.")
    if [tensor.shape for tensor in found.values()] == list(shapes.values())[::-1]:
        fail(answer, f"the two are swapped: {' and '.join(shapes)} must come back in this order.")


def expect_alive(answer: Answer) -> None:
    """The first result's rows are not all alike: what holds of no attention at all is no merit."""
    name = answer.results[0]
    rows = answer[name].double()
    if not ((rows - rows[..., :1, :]).abs() > 1e-6).any():
        fail(answer, f"every row of {name} is the same, whatever the query.", "how the queries come into the weights.")


def expect_dtype(answer: Answer, name: str, dtype: torch.dtype, look: str = "") -> None:
    """The result `name` has this dtype."""
    if answer[name].dtype != dtype:
        fail(answer, f"{name} is {dtype_name(answer[name].dtype)}, and must be {dtype_name(dtype)}, as the inputs are.", look)


def expect_close(
    answer: Answer,
    name: str,
    expected: Tensor,
    tolerance: Tolerance,
    *,
    source: str = "",
    only: Tensor | None = None,
    look: str = "",
) -> None:
    """The result `name` equals `expected` within the tolerance, shape included; where `only` is True, if that is given."""
    _compare(answer, name, answer[name], expected, tolerance, source, only, look)


def expect_number(answer: Answer, name: str, expected: float, tolerance: Tolerance, *, source: str = "", look: str = "") -> None:
    """The result `name`, a plain float, equals `expected` within the tolerance."""
    actual, wanted = (torch.tensor(each, dtype=torch.float64) for each in (answer.number(name), expected))
    _compare(answer, name, actual, wanted, tolerance, source, None, look)


def expect_count(answer: Answer, name: str, expected: int, *, source: str = "", look: str = "") -> None:
    """The result `name`, an int, is exactly `expected`."""
    actual = answer.number(name)
    if actual != expected:
        fail(answer, f"{name} is {actual} and must be {expected}" + (f" ({source})." if source else "."), look)


def expect_zero(
    answer: Answer,
    name: str,
    where: Tensor,
    because: str | Callable[[tuple[int, ...]], str],
    *,
    at_most: float = FORBIDDEN_WEIGHT,
    look: str = "",
) -> None:
    """The result `name` is at most `at_most` in size wherever `where` (which broadcasts to it) is True, and finite there."""
    actual = answer[name].double()
    wrong = where.expand(actual.shape) & ~(actual.abs() <= at_most)
    if wrong.any():
        worst = _index(torch.where(wrong, _size(actual), -1.0))
        reason = because if isinstance(because, str) else because(worst)
        count = f"{_count(wrong, where.expand(actual.shape))} that must be 0 are not." if int(wrong.sum()) > 1 else ""
        fail(answer, f"{_at(name, worst)} is {_number(actual[worst])} and must be 0: {reason}. {count}".rstrip(), look)


def expect_rows_sum_to_one(answer: Answer, name: str = "weights", *, only: Tensor | None = None, look: str = "") -> None:
    """No entry is negative and every row sums to one (the rows where `only`, one entry a row, is True)."""
    actual = answer[name].double()
    negative = ~(actual >= 0)
    if negative.any():
        worst = _index(torch.where(negative, _size(actual), -1.0))
        fail(answer, f"{_at(name, worst)} is {_number(actual[worst])}, and no weight may be negative.", look)
    sums = actual.sum(-1)
    wrong = ~((sums - 1).abs() <= ROW_SUM)
    if only is not None:
        wrong &= only.expand(sums.shape)
    if wrong.any():
        worst = _index(torch.where(wrong, _size(sums - 1), -1.0))
        row = f"{name}[{', '.join(map(str, worst))}, :]" if worst else f"{name}[:]"
        fail(answer, f"{row} sums to {_number(sums[worst])}, and every query's weights over the keys must sum to 1.", look)


def expect_gradients(answer: Answer, expected: Mapping[str, Tensor]) -> None:
    """Every named gradient arrives, is finite, and is right."""
    source = "torch's library under the same upstream gradient"
    for name, wanted in expected.items():
        _compare(answer, f"the gradient of {name}", answer.gradient(name), wanted, GRADIENT, source, None, "")


def expect_unchanged(answer: Answer, look: str = "") -> None:
    """No argument was written to. The answer must have been asked for with `after=True`."""
    for name, before in answer.arguments.items():
        after = answer.after[name]
        if isinstance(before, Tensor) and not (isinstance(after, Tensor) and _identical(before, after)):
            fail(answer, f"{name} was changed by the call, and no argument may be: it belongs to the caller.", look)


def expect_error(
    call: Callable[[], Answer | object], called: str, kinds: Sequence[str] = ("ValueError",), *, why: str, look: str = ""
) -> str:
    """The call raises one of `kinds`; returns the error's text. A stub's "not started" passes through."""
    ending = f"\nLook at: {look}" if look else ""
    try:
        answer = call()
    except StudentRaised as error:
        if any(kind in error.kinds for kind in kinds):
            return error.message
        if is_stub(error) or error.kinds[0] in _NO_ANSWERS:
            raise
        raise CheckFailed(
            f"{called}:\n{why}, so it must raise {' or '.join(kinds)}; it raised {error.kinds[0]}"
            + (f" ({error.where})" if error.where else "")
            + f".{ending}"
        ) from None
    back = describe(answer.reply.value) if isinstance(answer, Answer) else "a module"
    raise CheckFailed(f"{called}:\n{why}, so it must raise {' or '.join(kinds)}; it came back with {back}.{ending}")


def expect_tells(message: str, called: str, names: Sequence[str], numbers: Sequence[int]) -> None:
    """The error's text names one of the arguments and shows the sizes that it got."""
    named = any(re.search(rf"(?<![A-Za-z]){re.escape(name)}(?![a-z])", message) for name in names)
    missing = [number for number in numbers if not re.search(rf"(?<!\d){number}(?!\d)", message)]
    if named and not missing:
        return
    lacks = f"name {' or '.join(names)}" if not named else f"show the size {missing[0]} that it got"
    raise CheckFailed(
        f"{called}:\nthe error's text is {message!r:.200}, and must {lacks}.\n"
        "Look at: an f-string with the argument's name and its shape, so that whoever reads it knows what to change."
    )


def _compare(
    answer: Answer, name: str, actual: Tensor, expected: Tensor, tolerance: Tolerance, source: str, only: Tensor | None, look: str
) -> None:
    if actual.shape != expected.shape:
        fail(answer, f"{name} has shape {tuple(actual.shape)}, and must have {tuple(expected.shape)}.", look)
    actual, expected = actual.double(), expected.detach().double()
    wrong = ~((actual - expected).abs() <= tolerance.atol + tolerance.rtol * expected.abs())
    wrong |= ~torch.isfinite(actual)
    considered = torch.ones_like(wrong) if only is None else only.expand(wrong.shape)
    wrong &= considered
    if not wrong.any():
        return
    worst = _index(torch.where(wrong, _size(actual - expected), -1.0))
    what = f"{_at(name, worst)} is {_number(actual[worst])} and must be {_number(expected[worst])}"
    what += f" ({source})." if source else "."
    if wrong.numel() > 1:
        what += f"\n{_count(wrong, considered)} are wrong" + (
            f"; the largest difference is {_number((actual - expected).abs()[wrong].max())}."
            if torch.isfinite(actual[worst])
            else "."
        )
    fail(answer, what, look)


def _identical(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(((one == other) | ((one != one) & (other != other))).all())


def _size(difference: Tensor) -> Tensor:
    """How bad an entry is: its size, and worse than anything where it is not finite."""
    return torch.nan_to_num(difference.abs(), nan=torch.inf, posinf=torch.inf)


def _index(badness: Tensor) -> tuple[int, ...]:
    if badness.dim() == 0:
        return ()
    return tuple(int(each) for each in torch.unravel_index(badness.argmax(), badness.shape))


def _at(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def _count(wrong: Tensor, considered: Tensor) -> str:
    return f"{int(wrong.sum())} of {int(considered.sum())} entries"


def _number(value: Tensor) -> str:
    return f"{float(value):.4g}"


def expect_on_its_device(answer: Answer, look: str = "") -> None:
    """A call on meta tensors mixed no devices. An answer that needs values, which meta tensors lack, says nothing either way."""
    if answer.reply.foreign:
        fail(
            answer,
            f"on another device this fails: a tensor of the CPU meets one of the inputs' device in {answer.reply.foreign[0]}.",
            look,
        )
    devices = answer.reply.value if isinstance(answer.reply.value, tuple) else (answer.reply.value,)
    for name, device in zip(answer.results, devices, strict=False):
        if isinstance(device, str) and device != "meta":
            fail(answer, f"on another device this fails: {name} is on the {device}, and must be on the inputs' device.", look)


def expect_same_operations(small: Answer, large: Answer, grown: str, look: str = "") -> None:
    """The number of tensor operations does not grow with the sizes."""
    before, after = Counter(small.reply.operations), Counter(large.reply.operations)
    if after.total() > before.total():
        name, extra = (after - before).most_common(1)[0]
        what = f"{name.removeprefix('aten.')} runs {before[name]} times, and {before[name] + extra} times when {grown}"
        fail(large, f"{after.total()} tensor operations instead of {before.total()}: {what}.", look)
