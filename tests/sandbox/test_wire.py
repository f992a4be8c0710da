"""What is written arrives, and bytes that nobody wrote are refused."""

from __future__ import annotations

import contextlib
import json
import math
import struct
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save
from torch import Tensor

from autograder.sandbox import wire
from autograder.sandbox.framing import WireError, length, pack, parse, plain, unpack
from autograder.sandbox.tensors import DTYPES
from checks.calls import Assign, Call, Describe, Load, Make, ModuleRef, Opaque, Reply, Request
from checks.executor import Layout

NONCE = "0123456789abcdef"
QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def over(request: Request) -> Any:
    nonce, arrived = wire.decode_request(wire.encode_request(request, NONCE))
    assert nonce == NONCE
    return arrived


def back(reply: Reply) -> Reply:
    answer = wire.decode_answer(wire.encode_reply(reply, NONCE), NONCE)
    assert isinstance(answer, Reply)
    return answer


def same(first: Any, second: Any) -> bool:
    """Equal in kind, and in every bit of a number (but for which NaN a lone one is)."""
    if isinstance(first, Tensor):
        if first.dtype != second.dtype or first.shape != second.shape:
            return False
        return torch.equal(first.contiguous().view(-1).view(torch.uint8), second.contiguous().view(-1).view(torch.uint8))
    if isinstance(first, tuple):
        return isinstance(second, tuple) and len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, float):
        return isinstance(second, float) and first.hex() == second.hex()
    return type(first) is type(second) and bool(first == second)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
    | st.sampled_from(
        [
            torch.float64,
            torch.bfloat16,
            torch.device("cpu"),
            torch.device("cuda:1"),
            Opaque("dict"),
            ModuleRef(7, ("Linear", "Module")),
        ]
    ),
    lambda inner: st.lists(inner, max_size=4).map(tuple),
    max_leaves=12,
)


@QUICK
@given(VALUES)
def test_plain_values_arrive_as_they_were(value: Any) -> None:
    assert same(over(Call("f", (value,), {"key": value})).kwargs["key"], value)
    assert same(back(Reply(value=value)).value, value)


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, -0.0, 5e-324, 0.1])
def test_every_bit_of_a_float_arrives(number: float) -> None:
    assert same(over(Call("f", (number,))).args[0], number)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3, 4), (2, 1, 3)], ids=str)
def test_tensors_of_every_dtype_and_shape_arrive(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = (torch.rand(shape) * 5).to(dtype)
    assert same(over(Call("f", (tensor,))).args[0], tensor)
    assert same(back(Reply(value=(tensor, 1))).value, (tensor, 1))


def test_special_numbers_in_a_tensor_arrive() -> None:
    tensor = torch.tensor([math.nan, math.inf, -math.inf, -0.0])
    assert same(back(Reply(value=tensor)).value, tensor)


def test_a_tensor_passed_twice_arrives_as_one_object() -> None:
    tensor, other = torch.rand(2, 3), torch.rand(2, 3)
    arrived = over(Call("f", (tensor, tensor, other), {"again": tensor}))
    assert arrived.args[0] is arrived.args[1] is arrived.kwargs["again"]
    assert arrived.args[2] is not arrived.args[0]


def test_two_tensors_of_one_memory_arrive_as_two() -> None:
    tensor = torch.rand(4, 3)
    arrived = over(Call("f", (tensor, tensor[:2], tensor.view(3, 4))))
    assert all(map(same, arrived.args, (tensor, tensor[:2], tensor.view(3, 4))))


@pytest.mark.parametrize("order", [(0, 2, 1), (2, 1, 0), (1, 2, 0), (2, 0, 1), (1, 0, 2), (0, 1, 2)])
def test_the_order_in_memory_arrives(order: tuple[int, ...]) -> None:
    tensor = torch.rand(2, 3, 4).permute(order)
    arrived = over(Call("f", (tensor,))).args[0]
    assert same(arrived, tensor)
    assert arrived.stride() == tensor.stride()


@pytest.mark.parametrize(
    "tensor",
    [torch.rand(3, 1).expand(3, 4), torch.rand(3, 8)[:, ::2], torch.rand(6, 4)[::3].T],
    ids=["expanded", "every second", "cut"],
)
def test_a_tensor_with_gaps_arrives_contiguous(tensor: Tensor) -> None:
    arrived = over(Call("f", (tensor,))).args[0]
    assert same(arrived, tensor)
    assert arrived.is_contiguous()


def test_what_arrives_can_be_written_to() -> None:
    arrived = over(Call("f", (torch.zeros(2, 3), torch.zeros(2, dtype=torch.bool)))).args
    for tensor in arrived:
        tensor.fill_(1)
        assert bool(tensor.all())


def test_requests_arrive_whole() -> None:
    upstream = torch.rand(2, 3)
    kwargs = {"b": "x", "a": None}
    call = Call("forward", ((1, 2.5),), kwargs, module=3, upstream=(None, upstream), after=True, count=True, device="meta")
    arrived = over(call)
    assert (arrived.function, arrived.args, arrived.module, arrived.after, arrived.count, arrived.device) == (
        "forward", ((1, 2.5),), 3, True, True, "meta",
    )  # fmt: skip
    assert list(arrived.kwargs.items()) == [("b", "x"), ("a", None)]
    assert arrived.upstream[0] is None
    assert same(arrived.upstream[1], upstream)
    make = over(Make("M", (8,), {"num_heads": 2}, {"W_q": upstream}, torch.float64, training=False))
    assert (make.cls, make.args, make.kwargs, make.dtype, make.training) == ("M", (8,), {"num_heads": 2}, torch.float64, False)
    assert same(make.weights["W_q"], upstream)
    assert over(Load("masking")) == Load("masking")
    assert over(Describe(4)) == Describe(4)
    assign = over(Assign(4, {"weight": upstream}))
    assert (assign.module, same(assign.state["weight"], upstream)) == (4, True)
    assert over(Make("M")).dtype is None
    assert over(Call("f")).upstream is None


def test_replies_arrive_whole() -> None:
    gradient = torch.rand(3)
    reply = Reply(
        value=(1, Opaque("dict"), ModuleRef(3, ("Linear",))),
        after=(None, 2.0),
        gradients={"arg0": gradient, "W_q.weight": None},
        operations=("aten.bmm", "aten.add"),
        largest=1 << 40,
        ready_made=("scaled_dot_product_attention",),
        foreign=("aten.add at attention/masking.py:4",),
        module=2,
        parameters={"W_q.weight": (4, 4)},
        attributes={"num_heads": 2},
        state={"weight": gradient},
    )
    arrived = back(reply)
    assert same(arrived.gradients["arg0"], gradient)
    assert arrived.gradients["W_q.weight"] is None
    assert same(arrived.state["weight"], gradient)
    for name in ("value", "after", "operations", "largest", "ready_made", "foreign", "module", "parameters", "attributes"):
        assert getattr(arrived, name) == getattr(reply, name), name


def test_failures_arrive_cut_and_clean() -> None:
    failure = wire.Failure("raised", ("ValueError",) * 40, "a\x1b[31m\u202eb\ud800\n" + "x" * 10_000, "attention/f.py:1")
    arrived = wire.decode_answer(wire.encode_failure(failure, NONCE), NONCE)
    assert isinstance(arrived, wire.Failure)
    assert len(arrived.kinds) == 16
    assert arrived.message.startswith("a[31mb\nxxx")
    assert len(arrived.message) <= 4096
    assert arrived.where == "attention/f.py:1"


def test_sources_and_layout_arrive() -> None:
    sources = {"attention/a.py": "x = 'é'\n", "attention/b.py": "", "attention/c/d.py": "\0y"}
    layout = Layout("attention", {"f": "a"}, frozenset({"library"}), frozenset({"masking"}))
    assert wire.decode_setup(wire.encode_setup(sources, layout)) == (sources, layout)


def test_a_worker_tells_what_it_cannot_send_and_a_grader_may_not_try() -> None:
    tensors = torch.rand(2).to_sparse(), torch.rand(2, dtype=torch.complex64), torch.empty(2, device="meta")
    for odd in ({"a": 1}, object(), *tensors):
        assert back(Reply(value=odd)).value == Opaque(type(odd).__name__)
        with pytest.raises(TypeError, match="cannot be sent"):
            wire.encode_request(Call("f", (odd,)), NONCE)


def test_what_is_too_large_is_not_sent() -> None:
    deep: Any = 1
    for _ in range(40):
        deep = (deep,)
    for value in (torch.zeros(1 << 20), deep, (0,) * 30_000):
        with pytest.raises(WireError):
            wire.encode_reply(Reply(value=value), NONCE, cap=1 << 20)
    cut = back(Reply(operations=("aten.bmm",) * 30_000, foreign=("x" * 900,) * 900))
    assert (len(cut.operations), len(cut.foreign), len(cut.foreign[0])) == (20_000, 200, 200)


# Bytes that nobody wrote.


def refused(frame: bytes, cap: int = 1 << 22) -> None:
    with pytest.raises(WireError):
        wire.decode_answer(frame, NONCE, cap)


GOOD = wire.encode_reply(
    Reply(
        value=(torch.rand(2, 3).T, torch.tensor([True]), 1.5, "x"),
        gradients={"arg0": torch.rand(2)},
        operations=("aten.bmm",),
    ),
    NONCE,
)


def decoded_or_refused(frame: bytes) -> None:
    try:
        answer = wire.decode_answer(frame, NONCE, cap=1 << 22)
    except WireError:
        return
    assert isinstance(answer, Reply | wire.Failure)


@QUICK
@given(st.binary(max_size=400))
def test_any_bytes_are_refused(data: bytes) -> None:
    refused(data)
    refused(struct.pack(">II", len(data), 0) + data)


@settings(max_examples=1500, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_damaged_answer_is_read_or_refused_and_nothing_else(changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(GOOD)
    for position, byte in changes:
        damaged[position] = byte
    decoded_or_refused(bytes(damaged))


@QUICK
@given(st.integers(0, len(GOOD)), st.integers(0, len(GOOD)), st.binary(max_size=30))
def test_a_cut_or_lengthened_answer_is_refused(start: int, end: int, put: bytes) -> None:
    frame = GOOD[:start] + put + GOOD[end:]
    decoded_or_refused(frame)
    if len(frame) != len(GOOD):
        refused(frame)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["F32", "BOOL", "0", "tensor"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["tensor", "float", "dtype", "device", "opaque", "0", "shape"]), inner, max_size=3)
    ),
    max_leaves=10,
)
FIELDS = st.sampled_from([
    "value", "after", "gradients", "operations", "largest", "ready_made", "foreign", "module", "parameters", "attributes",
    "tensors", "kinds", "failure",
])  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(st.dictionaries(FIELDS, JSON, max_size=3))
def test_odd_fields_are_read_or_refused_and_nothing_else(fields: dict[str, Any]) -> None:
    header, blob = unpack(GOOD)
    decoded_or_refused(pack({**header, **fields}, blob))
    request = wire.encode_request(Call("f", (torch.rand(2),)), NONCE)
    header, blob = unpack(request)
    with contextlib.suppress(WireError):
        wire.decode_request(pack({**header, **fields}, blob))


@settings(max_examples=500, deadline=None)
@given(st.dictionaries(st.sampled_from(["0", "1", "__metadata__"]), JSON | st.fixed_dictionaries({
    "dtype": st.sampled_from(["F32", "BOOL", "F8_E4M3", "C64", 3]),
    "shape": st.lists(st.integers(-1, 2**70), max_size=3),
    "data_offsets": st.lists(st.integers(-1, 20), max_size=3),
}), max_size=2), st.binary(max_size=20))  # fmt: skip
def test_odd_tables_of_tensors_are_read_or_refused_and_nothing_else(table: dict[str, Any], data: bytes) -> None:
    text = json.dumps(table).encode()
    header, _ = unpack(GOOD)
    blob = struct.pack("<Q", len(text)) + text + data
    decoded_or_refused(pack({**header, "tensors": [None] * len(table), "value": {"tensor": 0}, "gradients": {}}, blob))


LOOSE = {
    "repeated key": '{"a":1,"a":2}',
    "NaN": "NaN",
    "infinity": "-Infinity",
    "float": "1.0",
    "exponent": "1e5",
    "long integer": "9" * 5000,
    "deep": "[" * 100_000,
    "deep object": '{"a":' * 50_000,
    "not UTF-8": "\xff",
    "nothing": "",
    "cut": "[1",
}


@pytest.mark.parametrize("text", LOOSE.values(), ids=LOOSE)
def test_loose_json_is_refused(text: str) -> None:
    with pytest.raises(WireError):
        parse(text.encode("latin-1"))


def with_blob(blob: bytes, tensors: Any) -> bytes:
    header, _ = unpack(wire.encode_reply(Reply(), NONCE))
    return pack({**header, "tensors": tensors, "value": {"tensor": 0}}, blob)


def test_a_huge_claim_is_refused_before_anything_is_allocated() -> None:
    table = b'{"0":{"dtype":"F32","shape":[1099511627776,1099511627776],"data_offsets":[0,4]}}'
    refused(with_blob(struct.pack("<Q", len(table)) + table + b"1234", [None]))
    refused(struct.pack(">II", 0xFFFFFFFF, 0xFFFFFFFF))
    with pytest.raises(WireError):
        length(struct.pack(">II", 10, 1 << 30))


@pytest.mark.parametrize(
    ("sent", "orders"),
    [
        ({"0": torch.zeros(2)}, []),
        ({"0": torch.zeros(2)}, [None, None]),
        ({"1": torch.zeros(2)}, [None]),
        ({"0": torch.zeros(2, dtype=torch.complex64)}, [None]),
        ({"0": torch.zeros(2, 3)}, [[0]]),
        ({"0": torch.zeros(2, 3)}, [[0, 0]]),
        ({"0": torch.zeros(2, 3)}, [[True, False]]),
        ({"0": torch.zeros(2, 3)}, ["10"]),
    ],
)
def test_tensors_that_do_not_fit_their_description_are_refused(sent: dict[str, Tensor], orders: Any) -> None:
    refused(with_blob(bytes(save(sent)), orders))


def test_metadata_gaps_and_overlaps_are_refused() -> None:
    refused(with_blob(bytes(save({"0": torch.zeros(2)}, {"a": "b"})), [None]))
    for spans in ([0, 4], [4, 8]), ([0, 4], [0, 4]), ([4, 8], [8, 12]):
        table = {str(n): {"dtype": "F32", "shape": [1], "data_offsets": span} for n, span in enumerate(spans)}
        text = json.dumps(table).encode()
        refused(with_blob(struct.pack("<Q", len(text)) + text + bytes(12), [None, None]))


def test_a_bool_is_true_or_false_whatever_its_byte() -> None:
    blob = bytearray(save({"0": torch.tensor([True, True, False])}))
    blob[-3:] = b"\x07\x01\x00"
    answer = wire.decode_answer(with_blob(bytes(blob), [None]), NONCE)
    assert isinstance(answer, Reply)
    assert answer.value.view(torch.uint8).tolist() == [1, 1, 0]


def test_another_nonce_is_refused() -> None:
    with pytest.raises(WireError, match="does not answer the question"):
        wire.decode_answer(GOOD, "another")


def test_text_for_people_is_plain() -> None:
    assert plain("a\x00b\x1b[1m\u200f\tc\nd\ud800é", 100) == "ab[1m\tc\ndé"
    assert plain("x" * 50, 10) == "x" * 10


# What is well-formed and too much.


@pytest.mark.parametrize(
    ("shape", "size"),
    [([1 << 40, 0], 0), ([0, 1 << 40], 0), ([0, 1 << 40, 1 << 40], 0), ([1 << 30, 1 << 30, 0], 0), ([1 << 40] * 64, 4)],
    ids=str,
)
def test_an_empty_tensor_of_huge_dimensions_is_refused(shape: list[int], size: int) -> None:
    table = json.dumps({"0": {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}}).encode()
    refused(with_blob(struct.pack("<Q", len(table)) + table + bytes(size), [None]))


def test_an_empty_tensor_of_huge_dimensions_is_not_sent() -> None:
    with pytest.raises(WireError, match="too large"):
        wire.encode_reply(Reply(value=torch.empty(1 << 40, 0)), NONCE)
    assert back(Reply(value=torch.empty(1 << 20, 0))).value.shape == (1 << 20, 0)


@pytest.mark.parametrize(
    "dtype", ["F8_E4M3", "F8_E5M2", "F8_E8M0", "F4", "F6_E2M3", "F6_E3M2", "C64", "U16", "U32", "U64", "f32", ""]
)
def test_a_dtype_that_was_not_agreed_on_is_refused(dtype: str) -> None:
    table = json.dumps({"0": {"dtype": dtype, "shape": [2], "data_offsets": [0, 8]}}).encode()
    refused(with_blob(struct.pack("<Q", len(table)) + table + bytes(8), [None]))


@pytest.mark.parametrize(
    "table", [b'{"0":1,"0":1}', b"\xff{}", b"\xef\xbb\xbf{}", b"[]", b"[" * 5000, b"9" * 5000, b"NaN"], ids=str
)
def test_a_loose_table_of_tensors_is_refused(table: bytes) -> None:
    refused(with_blob(struct.pack("<Q", len(table)) + table, [None]))


TOO_MUCH: dict[str, dict[str, Any]] = {
    "a parameter that would fill the memory": {"parameters": {"a": [1 << 40]}},
    "parameters that would, together": {"parameters": {str(number): [1 << 12] for number in range(600)}},
    "an empty parameter of huge dimensions": {"parameters": {"a": [1 << 40, 0]}},
    "a negative size": {"parameters": {"a": [-1]}},
    "too many dimensions": {"parameters": {"a": [1] * 65}},
    "an integer beyond all values": {"value": 1 << 1024},
    "an attribute beyond all values": {"attributes": {"a": -(1 << 1024)}},
    "a negative count": {"largest": -1},
    "a count beyond all tensors": {"largest": 1 << 63},
    "a negative module": {"module": -1},
    "a module beyond all modules": {"module": 1000},
    "a flag for a module": {"module": True},
    "a long text": {"value": "x" * ((1 << 16) + 1)},
    "a long name": {"attributes": {"x" * 201: 1}},
    "names that are one": {"attributes": {"a": 1, "a\u200b": 2}},
    "names that are one, by surrogates": {"attributes": {"a": 1, "a\ud800": 2}},
    "a device that torch warns of": {"value": {"device": "mkldnn"}},
    "a device whose number overflows": {"value": {"device": "cuda:200"}},
    "a device with a number that is none": {"value": {"device": "cpu:00"}},
    "too deep": {"value": json.loads("[" * 34 + "]" * 34)},
    "too many parts": {"value": [0] * 20_001},
    "too many parts in all": {"value": [0] * 15_000, "after": [[0] * 15_000]},
    "too many entries": {"after": [None] * 1001},
    "a field more": {"more": 1},
}


@pytest.mark.parametrize("fields", TOO_MUCH.values(), ids=TOO_MUCH)
def test_too_much_of_anything_is_refused(fields: dict[str, Any]) -> None:
    header, blob = unpack(wire.encode_reply(Reply(), NONCE))
    assert isinstance(wire.decode_answer(pack(header, blob), NONCE), Reply)
    refused(pack({**header, **fields}, blob))


def test_parameters_that_could_not_be_drawn_are_not_told() -> None:
    with pytest.raises(WireError, match="too large"):
        wire.encode_reply(Reply(parameters={"a": (1 << 40,)}), NONCE)
    assert back(Reply(parameters={"a": (1024, 1024), "b": ()})).parameters == {"a": (1024, 1024), "b": ()}


def test_a_device_that_cannot_be_told_is_opaque() -> None:
    assert back(Reply(value=torch.device("vulkan"))).value == Opaque("device")
