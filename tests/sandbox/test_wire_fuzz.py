"""The grader's side of the wire against bytes of any kind: an answer within its bounds, or WireError; soon, in little memory.

The examples are the same at every run. `tests/fuzz/fuzz_wire.py` looks further, by coverage and for as long as it is let.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import resource
import struct
import sys
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autograder.sandbox import wire
from autograder.sandbox.channel import Channel, Gone, OutOfTime
from autograder.sandbox.framing import MAX_FRAME, MAX_HEADER, WireError, pack, parse, unpack
from autograder.sandbox.tensors import DTYPES
from checks.calls import ModuleRef, Opaque, Reply
from tests.wire_bounds import decoded, expect_bounds

NONCE = "0123456789abcdef"


def examples(count: int) -> settings:
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(max_examples=count, derandomize=True, database=None, deadline=None, suppress_health_check=quiet)


def numbered(*shape: int) -> torch.Tensor:
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


FULL = wire.encode_reply(
    Reply(
        value=(numbered(2, 3).T, torch.tensor([True, False]), 1.5, "é", -7, None, torch.float16, torch.device("cuda:1")),
        after=(ModuleRef(3, ("Linear", "Module")), (Opaque("dict"), numbered(0, 4))),
        gradients={"arg0": numbered(2), "W": None},
        operations=("aten.bmm",),
        largest=12,
        foreign=("aten.add at attention/f.py:4",),
        module=2,
        parameters={"W.weight": (4, 4)},
        attributes={"num_heads": 2},
        state={"W.weight": numbered(4, 4).T},
    ),
    NONCE,
)
BARE = wire.encode_reply(Reply(), NONCE)
FAILED = wire.encode_failure(wire.Failure("raised", ("ValueError",), "text", "attention/f.py:1"), NONCE)
OLD = wire.encode_reply(Reply(value=numbered(3)), "f" * 16)
FRAMES = (FULL, BARE, FAILED, OLD)
HEADER, BLOB = unpack(FULL)


def test_the_frames_to_be_damaged_are_sound() -> None:
    assert [type(decoded(frame, NONCE)) for frame in FRAMES] == [Reply, Reply, wire.Failure, type(None)]


# Bytes.


@examples(300)
@given(st.binary(max_size=300), st.binary(max_size=60))
def test_no_bytes_at_all_are_an_answer(header: bytes, blob: bytes) -> None:
    assert decoded(header, NONCE) is None
    assert decoded(struct.pack(">II", len(header), len(blob)) + header + blob, NONCE) is None


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A sound frame after up to three accidents."""
    frame = bytearray(draw(st.sampled_from(FRAMES)))
    for _ in range(draw(st.integers(1, 3))):
        place, other = (draw(st.integers(0, len(frame))) for _ in range(2))
        match draw(st.sampled_from(["bit", "byte", "cut", "splice", "lengths", "swap", "repeat", "double", "put"])):
            case "bit" if place < len(frame):
                frame[place] ^= 1 << draw(st.integers(0, 7))
            case "byte" if place < len(frame):
                frame[place] = draw(st.integers(0, 255))
            case "cut":
                del frame[place:]
            case "splice":
                frame[place:] = draw(st.sampled_from(FRAMES))[other:]
            case "lengths":
                frame[:8] = struct.pack(">II", *(draw(st.integers(0, 2**32 - 1) | st.integers(0, len(frame))) for _ in range(2)))
            case "swap":
                frame[:8] = frame[4:8] + frame[:4]
            case "repeat":
                frame[place:place] = frame[min(place, other) : max(place, other)]
            case "double":
                frame += bytes(frame)
            case "put":
                frame[place:place] = draw(st.binary(max_size=9))
    return bytes(frame)


@examples(1200)
@given(damaged(), st.booleans())
def test_a_damaged_frame_is_an_answer_within_bounds_or_none(frame: bytes, mend: bool) -> None:
    if mend and len(frame) >= 8:  # the lengths fit again, so that what is behind them is looked at
        header = min(struct.unpack_from(">I", frame)[0], len(frame) - 8)
        frame = struct.pack(">II", header, len(frame) - 8 - header) + frame[8:]
    decoded(frame, NONCE)


@pytest.mark.parametrize("frame", FRAMES[:3], ids=["full", "bare", "failed"])
def test_every_bit_matters_or_does_no_harm(frame: bytes) -> None:
    for position in range(8 * min(len(frame), 400)):
        turned = bytearray(frame)
        turned[position // 8] ^= 1 << position % 8
        decoded(bytes(turned), NONCE)


@pytest.mark.parametrize("frame", FRAMES[:3], ids=["full", "bare", "failed"])
def test_no_part_of_a_frame_is_an_answer(frame: bytes) -> None:
    assert all(decoded(frame[:end], NONCE) is None for end in range(len(frame)))
    assert decoded(frame + frame, NONCE) is None
    assert decoded(frame[4:8] + frame[:4] + frame[8:], NONCE) is None or frame[:4] == frame[4:8]


# Headers that look right.

ODD_TEXT = st.text(max_size=6) | st.sampled_from(
    ["", "a\u200b", "\u202e", "x" * 201, "0", "inf", "-nan", "0x1p9999", "cpu", "int64"]
)
ODD_INTEGER = st.integers(-2, 3) | st.sampled_from([1 << 31, 1 << 40, 1 << 63, 1 << 64, 1 << 1024, -(1 << 1024), 10**399])
KINDS = st.sampled_from(["tensor", "float", "dtype", "device", "opaque", "module", "other"])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | ODD_INTEGER | ODD_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KINDS | ODD_TEXT, inner, max_size=2),
    max_leaves=8,
)
VALUE: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | ODD_INTEGER
    | ODD_TEXT
    | st.builds(lambda index: {"tensor": index}, st.integers(-1, 5))
    | st.builds(lambda kind, text: {kind: text}, KINDS, ODD_TEXT)
    | st.builds(lambda index, kinds: {"module": [index, *kinds]}, ODD_INTEGER, st.lists(ODD_TEXT, max_size=2)),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)
NAMED = st.dictionaries(ODD_TEXT, VALUE, max_size=3)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "value": VALUE,
    "after": st.lists(VALUE, max_size=3),
    "gradients": NAMED,
    "operations": st.lists(ODD_TEXT, max_size=3),
    "largest": ODD_INTEGER,
    "ready_made": st.lists(ODD_TEXT, max_size=3),
    "foreign": st.lists(ODD_TEXT, max_size=3),
    "module": st.none() | ODD_INTEGER,
    "parameters": st.dictionaries(ODD_TEXT, st.lists(ODD_INTEGER, max_size=3), max_size=3),
    "attributes": st.dictionaries(ODD_TEXT, ODD_INTEGER, max_size=3),
    "state": NAMED,
    "tensors": st.lists(st.none() | st.permutations([0, 1]) | st.lists(ODD_INTEGER, max_size=3), max_size=5),
}
FAILURE: dict[str, st.SearchStrategy[Any]] = {
    "failure": st.sampled_from([*wire._FAILURES, "other"]) | JSON,
    "kinds": st.lists(ODD_TEXT, max_size=20),
    "message": ODD_TEXT,
    "where": ODD_TEXT,
}


@examples(400)
@given(st.data(), st.sets(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=3), st.booleans())
def test_a_header_that_looks_right_is_read_within_bounds_or_refused(data: st.DataObject, names: set[str], whole: bool) -> None:
    header, blob = (HEADER, BLOB) if whole else unpack(BARE)
    changes = {name: data.draw(FIELDS[name] | JSON if index else FIELDS[name]) for index, name in enumerate(sorted(names))}
    decoded(pack({**header, **changes}, blob), NONCE)


@examples(200)
@given(st.fixed_dictionaries(FAILURE))
def test_a_failure_that_looks_right_is_read_within_bounds_or_refused(fields: dict[str, Any]) -> None:
    decoded(pack({"nonce": NONCE, **fields}), NONCE)


@st.composite
def table(draw: st.DrawFn) -> tuple[dict[str, Any], bytes]:
    """A table of tensors whose bytes fit their shapes, mostly; and those bytes."""
    entries: dict[str, Any] = {}
    end = 0
    for number in range(draw(st.integers(1, 3))):
        dtype = draw(st.sampled_from([*DTYPES, "F4", "F8_E4M3", "C64"]))
        shape = draw(st.lists(st.integers(0, 3) | st.sampled_from([0, 1 << 20, 1 << 40, -1]), max_size=4))
        elements = 1
        for size in shape:
            elements *= size
        size = elements * (DTYPES[dtype].itemsize if dtype in DTYPES else 1)
        start = end + draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
        end = start + (size if 0 <= size <= 4096 else 4)
        entries[str(number)] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    return entries, draw(st.binary(min_size=max(0, end), max_size=max(0, end)))


@examples(400)
@given(table(), st.lists(st.none() | st.permutations([0, 1]), min_size=3, max_size=3))
def test_tensors_of_any_claim_are_read_within_bounds_or_refused(made: tuple[dict[str, Any], bytes], orders: list[Any]) -> None:
    entries, data = made
    text = json.dumps(entries).encode()
    fields = {"tensors": orders[: len(entries)], "value": [{"tensor": number} for number in range(len(entries))]}
    decoded(pack({**unpack(BARE)[0], **fields}, struct.pack("<Q", len(text)) + text + data), NONCE)


@examples(300)
@given(JSON)
def test_json_is_what_it_was_or_refused(value: Any) -> None:
    text = json.dumps(value).encode()
    try:
        assert parse(text) == value
    except WireError:
        assert "1000000000" in text.decode() or len(text) > 400  # a number too long


# What an honest worker sends.

SENT = st.recursive(
    st.none()
    | ODD_INTEGER
    | st.floats()
    | ODD_TEXT
    | st.sampled_from([numbered(2, 3), numbered(3, 2).T, torch.ones(2, dtype=torch.bool)])
    | st.sampled_from([numbered(1).expand(1 << 30), torch.empty(1 << 40, 0)])
    | st.sampled_from([torch.complex64, torch.device("vulkan"), torch.device("cpu"), {}])
    | st.sampled_from([ModuleRef(2, ("a\n" * 150,) * 20), Opaque("\ud800")]),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@examples(200)
@given(
    SENT, st.dictionaries(st.text(max_size=9), SENT, max_size=2), st.lists(ODD_INTEGER.filter(lambda size: size >= 0), max_size=2)
)
def test_what_a_worker_can_send_is_read(value: Any, attributes: Any, shape: list[int]) -> None:
    sent = Reply(value=value, after=tuple(attributes.values()), parameters={"W": tuple(shape)}, module=1)
    try:
        frame = wire.encode_reply(sent, NONCE)
    except WireError:
        return
    assert isinstance(decoded(frame, NONCE), Reply)


# Through a pipe.

ACCIDENTS = ["whole", "cut", "twice", "junk", "lengths"]


@pytest.fixture
def channels() -> Iterator[list[Channel]]:
    made: list[Channel] = []
    yield made
    for channel in made:
        channel.close()


@examples(150)
@given(st.sampled_from(FRAMES[:3]), st.binary(max_size=12), st.sampled_from(ACCIDENTS), st.integers(1, 99))
def test_a_pipe_gives_one_frame_or_none(frame: bytes, junk: bytes, kind: str, size: int) -> None:
    sent = {
        "whole": frame,
        "cut": frame[: -len(junk) or None],
        "twice": frame + frame,
        "junk": frame + junk,
        "lengths": junk + frame[len(junk) :],
    }[kind]
    channel = Channel(cap=1 << 14)
    try:
        far = channel.far[1]
        for start in range(0, len(sent), size):
            os.write(far, sent[start : start + size])
        try:
            found = channel.exchange(b"", 0.02)
        except (WireError, OutOfTime, Gone):
            assert sent != frame
        else:
            assert found == sent
    finally:
        channel.close()


def test_single_bytes_without_end_do_not_outlast_the_deadline(channels: list[Channel], monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that is always one byte ahead of the reader, which a real one is only by luck."""
    channel = Channel()
    channels.append(channel)
    os.write(channel.far[1], b"x")  # never read: there is always something
    answer = itertools.chain(struct.pack(">II", 1 << 20, 30 << 20), itertools.repeat(0))
    monkeypatch.setattr(os, "read", lambda descriptor, most: bytes([next(answer)]))
    begun = time.monotonic()
    with pytest.raises(OutOfTime):
        channel.exchange(b"", 0.3)
    assert time.monotonic() - begun < 2


# The costliest frames that fit.


def costly() -> dict[str, bytes]:
    fill = MAX_HEADER - 600
    base = json.dumps(unpack(BARE)[0])[1:-1].replace('"value": null, ', "")

    def header(value: str, blob: bytes = b"") -> bytes:
        text = f'{{{base},"value":{value}}}'.encode()
        assert len(text) <= MAX_HEADER
        return struct.pack(">II", len(text), len(blob)) + text + blob

    longest = "9" * 400
    text = json.dumps({"0": {"dtype": "BOOL", "shape": [31 << 20], "data_offsets": [0, 31 << 20]}}).encode()
    large = struct.pack("<Q", len(text)) + text + bytes(31 << 20)
    with_tensor = {**unpack(BARE)[0], "tensors": [None], "value": [{"tensor": 0}]}
    return {
        "empty objects": header("[" + "{}," * (fill // 3 - 1) + "{}]"),
        "small objects": header("[" + '{"a":0},' * (fill // 8 - 1) + "{}]"),
        "long integers": header("[" + ",".join([longest] * (fill // 401)) + "]"),
        "one text": header('"' + "\\u0000" * (fill // 6) + '"'),
        "wide text": header('"' + "\\ud83d\\ude00" + "x" * (fill - 12) + '"'),
        "nested": header("[" * (fill // 2) + "]" * (fill // 2)),
        "nested a little": header("[" + "[[[[[[[[]]]]]]]]," * (fill // 17 - 1) + "0]"),
        "a huge tensor": pack(with_tensor, large),
        "a table of rubbish": pack(with_tensor, struct.pack("<Q", 1 << 20) + b"[" + b"[]," * ((1 << 20) // 3 - 1) + b"[]]"),
    }


COSTLY = costly()


@pytest.mark.parametrize("frame", COSTLY.values(), ids=COSTLY)
def test_the_costliest_frames_cost_little(frame: bytes) -> None:
    assert len(frame) <= MAX_FRAME
    tracemalloc.start()
    begun = time.process_time()
    try:
        decoded(frame, NONCE)
        assert tracemalloc.get_traced_memory()[1] < 160 << 20
    finally:
        tracemalloc.stop()
    assert time.process_time() - begun < 10  # less than one, where memory is not traced


@pytest.mark.skipif(sys.platform != "linux", reason="counts in KiB, as Linux does")
def test_refusals_leave_nothing_behind() -> None:
    generator = random.Random(1)
    for round_ in range(3000):
        frame = bytearray(FULL)
        for _ in range(3):
            frame[generator.randrange(8, len(frame))] = generator.randrange(256)
        decoded(bytes(frame), NONCE)
        if round_ == 1000:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10


def test_the_bounds_are_seen() -> None:
    """The judge that all these tests rely on refuses what it has to."""
    for wrong in (
        Reply(value=1 << 1024),
        Reply(value=[1]),
        Reply(largest=-1),
        Reply(parameters={"a": (1 << 30,)}),
        Reply(module=5000),
    ):
        with pytest.raises(AssertionError):
            expect_bounds(wrong)
