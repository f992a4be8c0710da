"""The grader's side of the wire under libFuzzer, which looks for bytes that reach new lines of the decoder.

Not a part of the tests, since atheris comes for few versions of Python (3.11 to 3.13, Linux). In an environment that has what
`make venv` installs, and from the repository's root:

    python -m pip install atheris
    OMP_NUM_THREADS=1 nice python tests/fuzz/fuzz_wire.py /tmp/corpus -max_total_time=600

The folder of the corpus is filled with valid messages if it is empty, and grows. Options are libFuzzer's. An input that makes
the decoder raise anything but WireError, return something out of bounds (see `tests/wire_bounds.py`), take seconds or much
memory ends the run, and is kept as `crash-…`, `timeout-…` or `oom-…`: run the script on that file alone to see it again, and
make a test of it in `tests/sandbox`.

The first byte of an input chooses what the rest is; each way skips what mutation alone would rarely get right.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

import atheris

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "student_template")]

with atheris.instrument_imports(include=["autograder.sandbox", "json"]):
    from autograder.sandbox import framing, tensors, values, wire
    from autograder.sandbox.channel import Channel, Gone, OutOfTime

import torch

from checks.calls import ModuleRef, Opaque, Reply
from tests.wire_bounds import decoded, expect_bounds

NONCE = "n"  # short, so that few mutations hit it
ORDERS = (None, [0], [1, 0], [0, 1])
EMPTY = framing.unpack(wire.encode_reply(Reply(), NONCE))[0]


def one_input(data: bytes) -> None:
    """What libFuzzer calls."""
    if len(data) > 4:
        WAYS[data[0] % len(WAYS)](data[1:])


def as_frame(data: bytes) -> None:
    """The bytes as they are."""
    decoded(data, NONCE)


def as_header_and_blob(data: bytes) -> None:
    """Two bytes say where header and blob meet; the frame's lengths are right."""
    header, blob = _parted(data)
    decoded(struct.pack(">II", len(header), len(blob)) + header + blob, NONCE)


def as_tensors(data: bytes) -> None:
    """Two bytes say where safetensors' table ends, and one which orders of dimensions go with it."""
    table, rest = _parted(data[1:])
    orders = [ORDERS[data[0] >> 2 * index & 3] for index in range(data[0] % 3 + 1)]
    blob = struct.pack("<Q", len(table)) + table + rest
    listed = [{"tensor": index} for index in range(len(orders))]
    decoded(framing.pack({**EMPTY, "tensors": orders, "value": listed}, blob), NONCE)


def as_value(data: bytes) -> None:
    """JSON of one value, with two tensors to refer to."""
    try:
        value = values.ValueReader([torch.ones(2), torch.ones(1, dtype=torch.bool)]).read(framing.parse(data))
    except framing.WireError:
        return
    expect_bounds(Reply(value=value))


def as_stream(data: bytes) -> None:
    """Through a pipe: the first byte says into which pieces, and whether the far end is closed behind them."""
    channel = Channel(cap=4096)
    try:
        answer, size = channel.far[1], data[0] % 63 + 1
        os.set_blocking(answer, False)
        for start in range(1, min(len(data), 8192), size):
            os.write(answer, data[start : start + size])
        if data[0] & 64:
            channel._close(answer)  # as `attach` does, without a process to attach to
        frame = channel.exchange(b"", 0.002)
        assert len(frame) <= 4096
        assert data[1:].startswith(frame)
        assert len(data) == 1 + len(frame)
        decoded(frame, NONCE, 4096)
    except (Gone, OutOfTime, framing.WireError):
        pass
    finally:
        channel.close()


WAYS = (as_frame, as_header_and_blob, as_tensors, as_value, as_stream)


def _parted(data: bytes) -> tuple[bytes, bytes]:
    middle = 2 + int.from_bytes(data[:2], "little") % (len(data) - 1)
    return data[2:middle], data[middle:]


def _seeds() -> list[bytes]:
    full = Reply(
        value=(torch.rand(2, 3).T, torch.tensor([True]), 1.5, "é", -7, None, torch.float16, torch.device("cuda:1"), Opaque("x")),
        after=(ModuleRef(3, ("Linear", "Module")), ()),
        gradients={"arg0": torch.rand(2), "b": None},
        operations=("aten.bmm", "aten.add"),
        largest=12,
        ready_made=("scaled_dot_product_attention",),
        foreign=("aten.add at f.py:4",),
        module=2,
        parameters={"W.weight": (4, 0, 4)},
        attributes={"heads": 2},
        state={"W": torch.zeros(0, 3)},
    )
    failure = wire.Failure("raised", ("ValueError", "Exception"), "text", "f.py:1")
    frames = [wire.encode_reply(Reply(), NONCE), wire.encode_reply(full, NONCE), wire.encode_failure(failure, NONCE)]
    made = [bytes([0]) + frame for frame in frames]
    for frame in frames:
        header = framing.length(frame) - len(framing.unpack(frame)[1]) - framing.PREFIX
        made.append(bytes([1]) + header.to_bytes(2, "little") + frame[framing.PREFIX :])
        made += [bytes([4, size]) + frame for size in (0, 40, 64, 127)]
    writer = tensors.TensorWriter()
    for number, dtype in enumerate(tensors.DTYPES.values()):
        one = tensors.TensorWriter()
        for each in (one, *[writer] * (number < 3)):
            each.add(torch.ones(number % 3, 2).to(dtype))
        blob = one.finish()[1]
        made.append(bytes([2, 0]) + blob[0:2] + blob[8:])
    blob = writer.finish()[1]
    made.append(bytes([2, 2]) + blob[0:2] + blob[8:])
    texts = [
        '[{"tensor":0},{"tensor":1}]',
        '{"module":[1,"A"]}',
        '{"opaque":"\\ud800"}',
        '{"float":"-0x1.8p3"}',
        "[[[]],null,true,-1]",
    ]
    made += [bytes([3]) + text.encode() for text in (*texts, '{"device":"cpu"}', '{"dtype":"int64"}', '"\\u200b"')]
    return made + _near_caps()


def _near_caps() -> list[bytes]:
    """Sound messages that a mutation takes over a cap: too many bytes lie between those above and any cap."""
    fields: list[dict[str, Any]] = [
        {"value": 10**308, "attributes": {"a": 10**308, "b": 2}},
        {"parameters": {"a": [1448, 1448], "b": [1] * 64}},
        {"attributes": {"a" * 200: 1, "b": 2}, "operations": ["a" * 64]},
        {"after": [None] * 1000, "value": json.loads("[" * 32 + "]" * 32)},
        {"foreign": ["x"] * 200, "largest": (1 << 63) - 1, "module": 999},
    ]
    headers = [json.dumps({**EMPTY, **changes}, separators=(",", ":")).encode() for changes in fields]
    made = [bytes([1]) + len(header).to_bytes(2, "little") + header for header in headers]
    for shape in ([1 << 25, 0], [0, 1 << 20, 32]):
        table = json.dumps({"0": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}}).encode()
        made.append(bytes([2, 0]) + len(table).to_bytes(2, "little") + table)
    return [*made, bytes([3]) + b"1" * 400, bytes([3]) + b'{"opaque":"' + b"x" * 200 + b'"}']


def _dictionary() -> list[str]:
    words = [*EMPTY, *wire._FAILURES, *tensors.DTYPES, "failure", "kinds", "message", "where", "dtype", "shape", "data_offsets"]
    words += [
        "tensor",
        "float",
        "device",
        "opaque",
        "inf",
        "nan",
        "0x1p9999",
        "0",
        "1",
        "2",
        "__metadata__",
        "F8_E4M3",
        "F4",
        "C64",
    ]
    numbers = ["1099511627776", "9223372036854775808", "-1", "1.5", "1e9", "NaN", "Infinity", "1" * 401, "true", "null"]
    pieces = ["[0]", "[]", "{}", ",", ":", "[[[[", "\\ud800", "\\u0000", "[1,0]"]
    return [f'"{word}"' for word in words] + numbers + pieces


def main() -> None:
    """Fill an empty corpus, and hand over to libFuzzer, whose options go through."""
    for folder in (Path(given) for given in sys.argv[1:] if not given.startswith("-")):
        if folder.is_file():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            for number, seed in enumerate(_seeds()):
                (folder / f"seed-{number:02}").write_bytes(seed)
    # Beyond the run: libFuzzer ends the process itself.
    path = Path(tempfile.gettempdir(), f"fuzz_wire-{os.getpid()}.dict")
    quoted = (word.replace("\\", "\\\\").replace('"', '\\"') for word in _dictionary())
    path.write_text("".join(f'"{word}"\n' for word in quoted), encoding="ascii")
    given = [f"-dict={path}", "-max_len=8192", "-timeout=5", "-rss_limit_mb=1536", *sys.argv[1:]]
    atheris.Setup([sys.argv[0], *given], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
