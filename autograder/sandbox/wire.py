"""The messages between grader and worker, as bytes: a Request there, a Reply or a Failure back. No pickle anywhere.

What a worker sent may be anything at all: decoding it returns a message or raises WireError, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from checks.calls import LARGEST_INTEGER, Assign, Call, Describe, Load, Make, Reply, Request
from checks.executor import Layout

from .framing import MAX_FRAME, WireError, pack, plain, unpack
from .tensors import read_tensors
from .values import ValueReader, ValueWriter

OUT_OF_MEMORY = 91  # exit statuses of a worker that cannot even send an answer
BROKEN = 92
_LONGEST_MESSAGE = 4096  # characters
_LONGEST_NAME = 200
_MOST_KINDS = 16
_MOST_OPERATIONS = 20_000
_LONGEST_OPERATION = 64
_MOST_FOREIGN = 200
_MOST_ENTRIES = 1000  # of gradients, parameters, attributes
_MOST_MODULES = 1000
_MOST_DIMENSIONS = 64
_LARGEST_COUNT = 1 << 63  # no tensor has as many elements
# Of all parameters together. They are told by their shapes alone, a check draws values for them and sends those back, so
# that a shape is a demand on the grader's memory: this many fit into a request as float64, with room to spare.
_MOST_PARAMETERS = MAX_FRAME // 16
_FAILURES = ("raised", "memory", "too large", "broken")

Kind = TypeVar("Kind")
Read = TypeVar("Read")


@dataclass(frozen=True)
class Failure:
    """An answer that is no Reply. `reason`: the student's code "raised", it ran out of "memory", what it returned is
    "too large" to send, or the worker itself is "broken". `kinds`, `message` and `where` are StudentRaised's.
    """

    reason: str
    kinds: tuple[str, ...] = ()
    message: str = ""
    where: str = ""


# From the grader to the worker.


def encode_setup(sources: Mapping[str, str], layout: Layout) -> bytes:
    """The first frame: the student's files, as text, and where the public names live."""
    texts = {path: text.encode("utf-8") for path, text in sources.items()}
    header = {
        "files": [[path, len(text)] for path, text in texts.items()],
        "package": layout.package,
        "exports": dict(layout.exports),
        "ready_made": sorted(layout.ready_made),
        "substitutes": sorted(layout.substitutes),
    }
    return pack(header, b"".join(texts.values()))


def decode_setup(frame: bytes) -> tuple[dict[str, str], Layout]:
    """The worker's side of `encode_setup`. It comes from the grader, so it is taken at its word."""
    header, blob = unpack(frame)
    sources, start = {}, 0
    for path, size in header["files"]:
        sources[path] = blob[start : start + size].decode("utf-8")
        start += size
    layout = Layout(header["package"], header["exports"], frozenset(header["ready_made"]), frozenset(header["substitutes"]))
    return sources, layout


def encode_request(request: Request, nonce: str, cap: int = MAX_FRAME) -> bytes:
    """One frame. Raises TypeError for a value that cannot cross, WireError where it is too large."""
    values = ValueWriter(lenient=False)
    match request:
        case Load(part):
            body: dict[str, Any] = {"load": part}
        case Make():
            body = {
                "make": request.cls,
                "args": [values.write(each) for each in request.args],
                "kwargs": {name: values.write(each) for name, each in request.kwargs.items()},
                "weights": {name: values.write(each) for name, each in request.weights.items()},
                "dtype": values.write(request.dtype),
                "training": request.training,
            }
        case Describe(module):
            body = {"describe": module}
        case Assign(module, state):
            body = {"assign": module, "state": {name: values.write(each) for name, each in state.items()}}
        case Call():
            body = {
                "call": request.function,
                "args": [values.write(each) for each in request.args],
                "kwargs": {name: values.write(each) for name, each in request.kwargs.items()},
                "module": request.module,
                "upstream": None if request.upstream is None else [values.write(each) for each in request.upstream],
                "after": request.after,
                "count": request.count,
                "device": request.device,
            }
    return _with_tensors({"nonce": nonce, **body}, values, cap)


def decode_request(frame: bytes, cap: int = MAX_FRAME) -> tuple[str, Request]:
    """Nonce and request."""
    header, blob = unpack(frame, cap)
    body = _members(header, dict)
    values = ValueReader(read_tensors(body.get("tensors"), blob))
    nonce = _is(body.get("nonce"), str)
    if "load" in body:
        return nonce, Load(_is(body["load"], str))
    if "describe" in body:
        return nonce, Describe(_is(body["describe"], int))
    if "assign" in body:
        state = {name: values.tensor(each) for name, each in _members(body.get("state"), dict).items()}
        return nonce, Assign(_is(body["assign"], int), state)
    args = tuple(values.read(each) for each in _is(body.get("args"), list))
    kwargs = {name: values.read(each) for name, each in _members(body.get("kwargs"), dict).items()}
    if "make" in body:
        weights = {name: values.tensor(each) for name, each in _members(body.get("weights"), dict).items()}
        dtype = None if body.get("dtype") is None else _is(values.read(body["dtype"]), torch.dtype)
        return nonce, Make(_is(body["make"], str), args, kwargs, weights, dtype, _is(body.get("training"), bool))
    upstream = None if body.get("upstream") is None else tuple(map(values.optional_tensor, _is(body["upstream"], list)))
    return nonce, Call(
        function=_is(body.get("call"), str),
        args=args,
        kwargs=kwargs,
        module=None if body.get("module") is None else _is(body["module"], int),
        upstream=upstream,
        after=_is(body.get("after"), bool),
        count=_is(body.get("count"), bool),
        device=None if body.get("device") is None else _is(body["device"], str),
    )


# From the worker to the grader.


def encode_ready(isolation: str) -> bytes:
    """The worker's first frame, sent before it has read anything of a student's: what confines it."""
    return pack({"ready": isolation})


def decode_ready(frame: bytes) -> str:
    """The name of the confinement."""
    return _is(_members(unpack(frame)[0], dict).get("ready"), str)


def encode_preflight(isolation: str, breaches: list[str]) -> bytes:
    """The one frame of a worker that runs no student's code and tries what it must not be able to do."""
    return pack({"ready": isolation, "breaches": breaches})


def decode_preflight(frame: bytes) -> tuple[str, list[str]]:
    """The name of the confinement, and what got through it."""
    body = _members(unpack(frame)[0], dict)
    return _is(body.get("ready"), str), [_is(each, str) for each in _is(body.get("breaches"), list)]


def encode_reply(reply: Reply, nonce: str, cap: int = MAX_FRAME) -> bytes:
    """One frame. Long lists of operations are cut; a value too large to send is a WireError."""
    values = ValueWriter(lenient=True)
    if not _are_few(reply.parameters.values()):
        raise WireError("a module with that many parameters is too large")
    body = {
        "nonce": nonce,
        "value": values.write(reply.value),
        "after": [values.write(each) for each in reply.after],
        "gradients": {name: values.write(each) for name, each in reply.gradients.items()},
        "operations": [name[:_LONGEST_OPERATION] for name in reply.operations[:_MOST_OPERATIONS]],
        "largest": reply.largest,
        "ready_made": [name[:_LONGEST_OPERATION] for name in reply.ready_made[:_MOST_OPERATIONS]],
        "foreign": [text[:_LONGEST_NAME] for text in reply.foreign[:_MOST_FOREIGN]],
        "module": reply.module,
        "parameters": {name: list(shape) for name, shape in reply.parameters.items()},
        "attributes": {name: values.write(each) for name, each in reply.attributes.items()},
        "state": {name: values.write(each) for name, each in reply.state.items()},
    }
    return _with_tensors(body, values, cap)


def encode_failure(failure: Failure, nonce: str) -> bytes:
    """One frame, its texts cut to what the far side accepts."""
    body = {
        "nonce": nonce,
        "failure": failure.reason,
        "kinds": [kind[:_LONGEST_NAME] for kind in failure.kinds[:_MOST_KINDS]],
        "message": failure.message[:_LONGEST_MESSAGE],
        "where": failure.where[:_LONGEST_NAME],
    }
    return pack(body)


def decode_answer(frame: bytes, nonce: str, cap: int = MAX_FRAME) -> Reply | Failure:
    """A worker's answer to the request of this nonce, from bytes that may be anything. Raises WireError alone."""
    header, blob = unpack(frame, cap)
    body = _members(header, dict)
    if body.get("nonce") != nonce:
        raise WireError("it does not answer the question")
    if "failure" in body:
        if blob:
            raise WireError("it carries bytes that belong to nothing")
        return _failure(body)
    return _reply(body, ValueReader(read_tensors(body.get("tensors"), blob)))


def _reply(body: dict[str, Any], values: ValueReader) -> Reply:
    _has(
        body,
        "nonce",
        "tensors",
        "value",
        "after",
        "gradients",
        "operations",
        "largest",
        "ready_made",
        "foreign",
        "module",
        "parameters",
        "attributes",
        "state",
    )
    return Reply(
        value=values.read(body["value"]),
        after=tuple(values.read(each) for each in _members(body["after"], list)),
        gradients=_named(body["gradients"], values.optional_tensor),
        operations=_texts(body["operations"], _MOST_OPERATIONS, _LONGEST_OPERATION),
        largest=_count(body["largest"], _LARGEST_COUNT),
        ready_made=_texts(body["ready_made"], _MOST_OPERATIONS, _LONGEST_OPERATION),
        foreign=_texts(body["foreign"], _MOST_FOREIGN, _LONGEST_NAME),
        module=None if body["module"] is None else _count(body["module"], _MOST_MODULES),
        parameters=_shapes(body["parameters"]),
        attributes=_named(body["attributes"], _integer),
        state=_named(body["state"], values.tensor),
    )


def _failure(body: dict[str, Any]) -> Failure:
    _has(body, "nonce", "failure", "kinds", "message", "where")
    if body["failure"] not in _FAILURES:
        raise WireError("it fails in a way that was not agreed on")
    if body["failure"] == "raised" and not body["kinds"]:
        raise WireError("it names no exception")
    return Failure(
        reason=_is(body["failure"], str),
        kinds=_texts(body["kinds"], _MOST_KINDS, _LONGEST_NAME),
        message=_text(body["message"], _LONGEST_MESSAGE),
        where=_text(body["where"], _LONGEST_NAME),
    )


def _with_tensors(body: dict[str, Any], values: ValueWriter, cap: int) -> bytes:
    orders, blob = values.tensors.finish()
    return pack({**body, "tensors": orders}, blob, cap)


def _is(value: Any, kind: type[Kind]) -> Kind:
    """The value, if it is of exactly this type (a bool is no int)."""
    if type(value) is not kind:
        raise WireError("a field is of another type than agreed")
    return value


def _members(value: Any, kind: type[Kind]) -> Kind:
    """The list or object, if it is one and not too long."""
    found: Any = _is(value, kind)
    if len(found) > _MOST_ENTRIES:
        raise WireError("a field has too many entries")
    checked: Kind = found
    return checked


def _has(body: dict[str, Any], *names: str) -> None:
    if set(body) != set(names):
        raise WireError("its fields are not those agreed on")


def _named(value: Any, read: Callable[[Any], Read]) -> dict[str, Read]:
    """An object's members, each read; names that are the same once they are cleaned are one too many."""
    members = _members(value, dict)
    found = {_text(name, _LONGEST_NAME): read(each) for name, each in members.items()}
    if len(found) != len(members):
        raise WireError("it repeats a name")
    return found


def _text(value: Any, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise WireError("a text is too long, or none")
    return plain(value, longest)


def _texts(value: Any, most: int, longest: int) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > most:
        raise WireError("a list of texts is too long, or none")
    return tuple(_text(each, longest) for each in value)


def _count(value: Any, end: int) -> int:
    number = _is(value, int)
    if not 0 <= number < end:
        raise WireError("a number is out of range")
    return number


def _integer(value: Any) -> int:
    number = _is(value, int)
    if abs(number) >= LARGEST_INTEGER:
        raise WireError("a number is out of range")
    return number


def _shapes(value: Any) -> dict[str, tuple[int, ...]]:
    shapes = _named(value, _shape)
    if not _are_few(shapes.values()):
        raise WireError("its module has too many parameters")
    return shapes


def _shape(value: Any) -> tuple[int, ...]:
    sizes = _is(value, list)
    if len(sizes) > _MOST_DIMENSIONS:
        raise WireError("a shape has too many dimensions")
    return tuple(_count(size, _LARGEST_COUNT) for size in sizes)


def _are_few(shapes: Iterable[Sequence[int]]) -> bool:
    """Whether tensors of these shapes are small enough to be drawn and sent; one without elements counts as if it had some."""
    return sum(math.prod(max(1, size) for size in shape) for shape in shapes) <= _MOST_PARAMETERS
