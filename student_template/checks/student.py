"""`student`: what a check is given. The student's functions and modules by name, whichever transport carries the calls."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .calls import Assign, Call, Describe, Make, ModuleRef, Opaque, Reply, Transport, Value
from .draw import Draw
from .errors import CheckFailed, StudentRaised, WorkerCrashed
from .signatures import SIGNATURES, Result, Signature


@dataclass(frozen=True)
class Answer:
    """What came back from one call, and enough about the call to write a message.

    What came back is a student's word, in the grader a hostile one maybe: everything of it is held to the call before a check
    sees it, so that no check can stumble over it.
    """

    call: str  # "masked_attention(Q, K, V, key_padding_mask, causal=True)"
    arguments: Mapping[str, Value]
    shapes: Callable[[], Mapping[str, Result]]  # what the results must be, by name, in order: a shape, or a kind of number
    reply: Reply

    def __getitem__(self, name: str) -> Tensor:
        """The result of that name, of the shape that the contract gives it; CheckFailed where something else came back."""
        result, shape = self.tensor(name), self.shapes()[name]
        if result.shape != shape:
            raise CheckFailed(f"{self.described}:\n{name} has shape {tuple(result.shape)}, and must have {shape}.")
        return result

    def tensor(self, name: str) -> Tensor:
        """The result of that name, a tensor of any shape."""
        value = self._result(name)
        if not isinstance(value, Tensor):
            raise CheckFailed(f"{self.described}:\n{name} came back as {describe(value)}, and must be a tensor.")
        return value

    def number(self, name: str, plain: bool = False) -> float:
        """The result of that name, a plain number of the kind that the contract gives it; CheckFailed where it is none.

        Where a float is due, an int will do, and unless it has to be `plain` a tensor without dimensions. Where an int is due,
        nothing else does: not a bool, and not a float of the same value.
        """
        value, kind = self._result(name), self.shapes()[name]
        number = value.item() if kind is float and not plain and isinstance(value, Tensor) and value.shape == () else value
        if kind is float and type(number) is int:
            number = _nearest_float(number)
        if type(number) is not kind:
            wanted = "a float" if kind is float else "an int"
            raise CheckFailed(f"{self.described}:\n{name} came back as {describe(value)}, and must be {wanted}.")
        return number

    def numbers(self, name: str, count: int) -> list[float]:
        """The result of that name, a list of so many plain floats; CheckFailed where it is none."""
        value = self._result(name)
        if not isinstance(value, tuple) or not all(type(each) is float for each in value):
            raise CheckFailed(f"{self.described}:\n{name} came back as {describe(value)}, and must be a list of floats.")
        if len(value) != count:
            raise CheckFailed(f"{self.described}:\n{name} has {len(value)} entries, and must have {count}.")
        return list(value)

    def module(self, name: str) -> ModuleRef:
        """The result of that name, a module."""
        value = self._result(name)
        if not isinstance(value, ModuleRef):
            raise CheckFailed(f"{self.described}:\n{name} came back as {describe(value)}, and must be a module.")
        return value

    def _result(self, name: str) -> Value:
        value, results = self.reply.value, self.results
        if len(results) == 1:
            return value
        if not isinstance(value, tuple) or len(value) != len(results):
            wanted = f"a tuple of {len(results)}: ({', '.join(results)})"
            raise CheckFailed(f"{self.described}:\ncame back as {describe(value)}, and must be {wanted}.")
        return value[results.index(name)]

    def gradient(self, name: str) -> Tensor:
        """The gradient at an argument (`"Q"`) or a parameter (`"W_q"`); CheckFailed where none arrives.

        The results' shapes come first: where they don't fit the upstream gradient, there is no gradient to speak of.
        """
        for result in self.results:
            self[result]
        names = [f"arg{list(self.arguments).index(name)}"] if name in self.arguments else []
        found = (self.reply.gradients.get(each) for each in (*names, name, f"{name}.weight"))
        gradient = next((each for each in found if each is not None), None)
        if gradient is None:
            raise CheckFailed(
                f"{self.described}:\nno gradient reaches {name}: the graph is cut between it and the output.\n"
                "Look at: detach, no_grad, .data and NumPy on the way from it to the output."
            )
        argument = self.arguments.get(name)
        fits = argument.shape == gradient.shape if isinstance(argument, Tensor) else True
        if not fits or not gradient.is_floating_point():
            raise WorkerCrashed("answered with something that is not an answer: a gradient of another shape or kind")
        return gradient

    @property
    def results(self) -> tuple[str, ...]:
        return tuple(self.shapes())

    @property
    def described(self) -> str:
        """The call with its modules and the shapes of its tensors: how every message begins."""
        tensors = {name: value for name, value in self.arguments.items() if isinstance(value, Tensor)}
        shapes = {name: f"{tuple(value.shape)}" for name, value in tensors.items()}
        told = {name: value.shown for name, value in self.arguments.items() if isinstance(value, Target)} | shapes
        if not told:
            return self.call
        dtypes = {dtype_name(value.dtype) for value in tensors.values() if value.is_floating_point()} - {"float32"}
        listed = ", ".join(f"{name} {text}" for name, text in told.items())
        return f"{self.call} with {listed}" + (f" in {', '.join(sorted(dtypes))}" if dtypes else "")

    @property
    def after(self) -> dict[str, Value]:
        """The arguments as they were after the call."""
        if len(self.reply.after) != len(self.arguments):
            raise WorkerCrashed("answered with something that is not an answer: another number of arguments than it was given")
        return dict(zip(self.arguments, self.reply.after, strict=True))


@dataclass(frozen=True)
class Target:
    """Something of the student's that can be called: `target(Q, K, V, causal=True)` → Answer."""

    transport: Transport
    name: str
    signature: Signature
    module: int | None = None
    constructed: Mapping[str, Value] = field(default_factory=dict)  # the constructor's arguments
    shown: str = ""  # how a call of it is written: "MultiHeadAttention(12, 4)"
    attributes: Mapping[str, int] = field(default_factory=dict)
    parameters: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __call__(self, *args: Value, **kwargs: Value) -> Answer:
        return self.observe(*args, **kwargs)

    def observe(
        self,
        *args: Value,
        upstream: Sequence[Tensor | None] | None = None,
        after: bool = False,
        count: bool = False,
        on: str | None = None,
        **kwargs: Value,
    ) -> Answer:
        """Call it and watch: gradients under `upstream`, the arguments `after`, the operations' `count`, `on` another device."""
        call = Call(
            self.name,
            tuple(map(_sent, args)),
            {name: _sent(value) for name, value in kwargs.items()},
            module=self.module,
            upstream=None if upstream is None else tuple(upstream),
            after=after,
            count=count,
            device=on,
        )
        arguments = dict(zip(self.signature.parameters, args, strict=False)) | dict(kwargs)
        written = _written(self.shown or self.name, arguments)
        shapes = functools.partial(self.signature.shapes, {**self.constructed, **arguments})
        try:
            return Answer(written, arguments, shapes, self.transport.perform(call))
        except StudentRaised as error:
            called = Answer(written, arguments, shapes, Reply()).described
            raise StudentRaised(error.kinds, error.message, error.where, called) from None

    def describe(self) -> Reply:
        """Of a module: its parameters, mode and plain attributes as they are now."""
        assert self.module is not None
        return self.transport.perform(Describe(self.module))

    def state(self) -> Mapping[str, Tensor]:
        """Of a module: its parameters and buffers as they are now, by full name. CheckFailed where one that it had is gone."""
        state = self.describe().state
        for name, shape in self.parameters.items():
            if name not in state or state[name].shape != shape:
                raise CheckFailed(f"{self.shown}: its parameter {name} is gone, or of another shape than when it was made.")
        return state

    def assign(self, state: Mapping[str, Tensor]) -> None:
        """Of a module: write these values into its parameters and buffers."""
        assert self.module is not None
        self.transport.perform(Assign(self.module, state))


class Student:
    """The student's package: `student.masked_attention(Q, K, V)`, `student.MultiHeadAttention(12, 4, weights=…)`."""

    def __init__(self, transport: Transport, draw: Draw) -> None:
        self._transport = transport
        self.draw = draw

    def __getattr__(self, name: str) -> Any:
        if name not in SIGNATURES:
            raise AttributeError(f"the assignment has no public name {name}")
        signature = SIGNATURES[name]
        if signature.constructor:
            return _Maker(self._transport, name, signature)
        return Target(self._transport, name, signature)

    @property
    def stand_in(self) -> _Maker:
        """Makes a multi-head layer of the checks' own (see `stand_in.py`) where the student's code is."""
        return _Maker(self._transport, "@MultiHeadAttention", SIGNATURES["MultiHeadAttention"])

    def returned(self, answer: Answer, name: str, signature: Signature) -> Target:
        """A module that came back from a call, to be called in turn."""
        return Target(self._transport, "forward", signature, answer.module(name).index, shown=answer.call)

    def gradients(self, target: Target, *args: Value, upstream: Sequence[Tensor | None], **kwargs: Value) -> Answer:
        """Call `target`, and ask for the gradients of `Σ <upstream, result>` at every argument and parameter."""
        return target.observe(*args, upstream=upstream, **kwargs)


@dataclass(frozen=True)
class _Maker:
    transport: Transport
    name: str
    signature: Signature

    def __call__(
        self,
        *args: Value,
        weights: Mapping[str, Tensor] | None = None,
        dtype: torch.dtype | None = None,
        training: bool = True,
        **kwargs: Value,
    ) -> Target:
        """Construct it with these weights, which every module of the contract must be able to take."""
        weights = weights or {}
        reply = self.transport.perform(Make(self.name, args, kwargs, weights, dtype, training))
        constructed = dict(zip(self.signature.constructor, args, strict=False)) | kwargs
        shown = _written(self.name.removeprefix("@"), constructed, named=False)
        for name, weight in weights.items():
            _expect_projection(shown, name, tuple(weight.shape), reply.parameters)
        return Target(
            self.transport, "forward", self.signature, reply.module, constructed, shown, reply.attributes, reply.parameters
        )


def _expect_projection(shown: str, name: str, shape: tuple[int, ...], parameters: Mapping[str, tuple[int, ...]]) -> None:
    found = parameters.get(f"{name}.weight", parameters.get(name))
    if found is None:
        listed = ", ".join(f"{key} {value}" for key, value in parameters.items()) or "none at all"
        raise CheckFailed(
            f"{shown} has no parameter {name}.weight of shape {shape}; its parameters are: {listed}.\n"
            f"Look at: `self.{name} = nn.Linear(…, bias=False)` in __init__, assigned to the module itself."
        )
    if found != shape:
        raise CheckFailed(f"{shown}: {name}.weight has shape {found}, and must have {shape}.")


def _sent(value: Value) -> Value:
    """A module goes by its number."""
    return ModuleRef(value.module) if isinstance(value, Target) and value.module is not None else value


def _nearest_float(number: int) -> float:
    """An infinity for an int beyond all floats."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def describe(value: Value) -> str:
    """A value in a few words."""
    if isinstance(value, Tensor):
        return f"a {dtype_name(value.dtype)} tensor of shape {tuple(value.shape)}"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)} ({', '.join(describe(each) for each in value[:6])})" if value else "an empty tuple"
    if isinstance(value, ModuleRef):
        return f"a module of class {value.kinds[0] if value.kinds else 'unknown'}"
    if isinstance(value, Opaque):
        return f"an object of type {value.type_name}"
    return f"{value!r:.80}"


def _written(name: str, arguments: Mapping[str, Value], named: bool = True) -> str:
    """`masked_attention(Q, K, V, key_padding_mask, causal=True)`: tensors and modules by name, anything else by value."""
    parts = [
        key if isinstance(value, Tensor | Target) else f"{key}={value}" if named else f"{value}"
        for key, value in arguments.items()
    ]
    return f"{name}({', '.join(parts)})"


def dtype_name(dtype: torch.dtype) -> str:
    """`float32`."""
    return str(dtype).removeprefix("torch.")
