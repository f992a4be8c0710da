"""The direct transport: a student's code, called in this very process.

On a student's desk this is the whole way. In the grader the same class runs at the far end of the wire, inside the worker.
With `package.py`, which imports the files, it is all of the kit that touches a student's code.
"""

from __future__ import annotations

import contextlib
import copy
import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from .calls import LARGEST_INTEGER, Assign, Call, Describe, Load, Make, ModuleRef, Opaque, Reply, Request, Value
from .errors import StudentRaised, is_stub
from .package import Package
from .stand_in import STAND_INS
from .watch import Operations, ReadyMade

_LONGEST_MESSAGE = 2000  # characters of an exception's text
_DEEPEST = 8  # nested tuples of an answer
_MOST_PRINTED = 1 << 16  # characters


@dataclass(frozen=True)
class Layout:
    """Where the public names live, which parts may call ready-made attention, and whose files are not the student's."""

    package: str
    exports: Mapping[str, str]  # public name → slug of the part, which is the module's name
    ready_made: frozenset[str] = frozenset()  # slugs
    substitutes: frozenset[str] = frozenset()  # slugs of the parts whose files the kit brought along (see `substitutes`)


class Direct:
    """`calls.Transport` in this process. With `capture`, what the code prints is kept in `printed` and not shown.

    `device` is where calls run that ask for no device of their own; answers come back on the CPU in any case.
    """

    def __init__(self, package: Package, layout: Layout, *, capture: bool = True, device: str | None = None) -> None:
        self._package = package
        self._layout = layout
        self._device = device
        torch.set_grad_enabled(True)  # what an earlier one ran in this process may have left it off
        self._made: list[tuple[nn.Module, str]] = []  # modules by number, and the part each belongs to, if any
        self._printed = io.StringIO()
        self._capturing = contextlib.redirect_stdout(self._printed) if capture else contextlib.nullcontext()

    @property
    def printed(self) -> str:
        return self._printed.getvalue()[:_MOST_PRINTED]

    def perform(self, request: Request) -> Reply:
        with self._package.installed(), self._capturing:
            match request:
                case Load(part):
                    with self._errors_of_student():
                        self._module(part)
                    return Reply()
                case Make():
                    return self._make(request)
                case Describe(module):
                    return self._describe(module)
                case Assign(module, state):
                    with self._errors_of_student():
                        _assign(self._made[module][0], state)
                    return Reply()
                case Call():
                    return self._call(replace(request, device=request.device or self._device))

    def _make(self, request: Make) -> Reply:
        part = "" if request.cls in STAND_INS else self._layout.exports[request.cls]
        with self._errors_of_student():
            cls = STAND_INS.get(request.cls) or self._export(request.cls)
            made = cls(*_copied(request.args), **dict(zip(request.kwargs, _copied(request.kwargs.values()), strict=True)))
            if not isinstance(made, nn.Module):
                raise TypeError(f"{request.cls} makes a {type(made).__name__}, and must be an nn.Module")
            if request.dtype is not None:
                made.to(request.dtype)
            _load_weights(made, request.weights)
            made.train(request.training)
            shapes = {name: tuple(parameter.shape) for name, parameter in made.named_parameters()}
        self._made.append((made, part))
        return Reply(module=len(self._made) - 1, parameters=shapes, attributes=_integers(made))

    def _describe(self, index: int) -> Reply:
        with self._errors_of_student():
            module = self._made[index][0]
            state = {name: _outward(value) for name, value in [*module.named_parameters(), *module.named_buffers()]}
            shapes = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
            tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
            return Reply(module=index, parameters=shapes, attributes=_integers(module), state=tensors)

    def _kept(self, part: str) -> Callable[[nn.Module], ModuleRef]:
        """Keeps a module that a call returned, and tells its number."""

        def keep(module: nn.Module) -> ModuleRef:
            known = next((index for index, (made, _) in enumerate(self._made) if made is module), None)
            if known is None:
                self._made.append((module, part))
            return ModuleRef(len(self._made) - 1 if known is None else known, _class_names(module))

        return keep

    def _call(self, request: Call) -> Reply:
        target, module, part = self._target(request)
        arguments = _Arguments(request, [made for made, _ in self._made], leaves=request.upstream is not None)
        ready_made = ReadyMade(part not in ("", *self._layout.ready_made), self.of_substitute)
        watch = (
            Operations(request.device, self._locate, self.of_substitute) if request.count or request.device == "meta" else None
        )
        try:
            with self._errors_of_student(), ready_made, watch or contextlib.nullcontext():
                value = target(*arguments.positional, **arguments.keyword)
                gradients = _gradients(value, request.upstream, arguments, module)
        except StudentRaised as error:
            if request.device != "meta" or is_stub(error) or error.kinds[0] == "ReadyMadeAttention":
                raise
            return Reply(foreign=_met_other_device(error, watch))
        with self._errors_of_student():
            return Reply(
                value=_devices(value) if request.device == "meta" else _outward(value, self._kept(part)),
                after=tuple(_outward(each, self._kept(part)) for each in arguments.all()) if request.after else (),
                gradients=gradients,
                operations=tuple(watch.names) if watch and request.count else (),
                largest=watch.largest if watch and request.count else 0,
                ready_made=tuple(ready_made.names) if request.count else (),
                foreign=tuple(watch.foreign) if watch else (),
            )

    def _target(self, request: Call) -> tuple[Callable[..., Any], nn.Module | None, str]:
        if request.module is None:
            with self._errors_of_student():
                return self._export(request.function), None, self._layout.exports[request.function]
        module, part = self._made[request.module]
        if request.device is not None:
            module = copy.deepcopy(module).to(request.device)
        return module, module, part

    def _module(self, part: str) -> Any:
        if not self._package.holds(part):
            raise StudentRaised(("ModuleNotFoundError",), f"there is no file {self._package.name}/{part}.py")
        return self._package.load(part)

    def _export(self, name: str) -> Callable[..., Any]:
        part = self._layout.exports[name]
        try:
            export: Callable[..., Any] = getattr(self._module(part), name)
        except AttributeError:
            raise StudentRaised(("MissingName",), f"{self._package.name}/{part}.py defines no `{name}`") from None
        return export

    def _locate(self, frame: FrameType | None) -> str:
        """The student's own line that a frame of torch's was called from: `"at attention/masking.py:41"`."""
        module, line = self._innermost(frame)
        return f"at {module.replace('.', '/')}.py:{line}" if module else ""

    def of_substitute(self, frame: FrameType | None) -> bool:
        """Whether the kit's own file, put in place of a student's, is what a frame of torch's was called from."""
        return bool(self._layout.substitutes) and self._innermost(frame)[0].rpartition(".")[2] in self._layout.substitutes

    def _innermost(self, frame: FrameType | None) -> tuple[str, int]:
        """The module of the package that a frame was called from, and its line; "" where there is none."""
        while frame is not None:
            if (name := str(frame.f_globals.get("__name__", ""))).startswith(self._package.name + "."):
                return name, frame.f_lineno
            frame = frame.f_back
        return "", 0

    @contextlib.contextmanager
    def _errors_of_student(self) -> Iterator[None]:
        """Whatever is raised inside becomes a StudentRaised of plain text. Control-C stays what it is: the user's own."""
        try:
            yield
        except (StudentRaised, KeyboardInterrupt):
            raise
        except BaseException as error:
            text = "\n".join(line for line in (_text(error), self._package.init_error) if line)
            raise StudentRaised(_class_names(error), text, self._package.where(error)) from None


class _Arguments:
    """Copies of a call's arguments, so that no check's own tensors can be changed; as leaves where gradients are asked for.

    One tensor passed twice stays one tensor, and a module is the module itself, since training it is what some functions are
    for; on another device, a copy there.
    """

    def __init__(self, request: Call, made: Sequence[nn.Module], leaves: bool) -> None:
        self._device = request.device
        self._made = made
        self._leaves = leaves
        self._copies: dict[int, Tensor] = {}
        self.positional = [self._copy(value) for value in request.args]
        self.keyword = {name: self._copy(value) for name, value in request.kwargs.items()}

    def all(self) -> list[Value]:
        return [*self.positional, *self.keyword.values()]

    def leaves(self) -> dict[str, Tensor]:
        """The floating-point arguments by name: `arg0`, …, and keyword arguments by theirs."""
        named = {f"arg{index}": value for index, value in enumerate(self.positional)} | self.keyword
        return {name: value for name, value in named.items() if isinstance(value, Tensor) and value.is_floating_point()}

    def _copy(self, value: Value) -> Value:
        if isinstance(value, ModuleRef):
            module = self._made[value.index]
            return module if self._device is None else copy.deepcopy(module).to(self._device)
        if not isinstance(value, Tensor):
            return value
        if id(value) not in self._copies:
            copied = value.detach().clone()
            if self._device is not None:
                copied = copied.to(self._device)
            self._copies[id(value)] = copied.requires_grad_(self._leaves and copied.is_floating_point())
        return self._copies[id(value)]


def _copied(values: Any) -> list[Value]:
    return [value.clone() if isinstance(value, Tensor) else value for value in values]


def _load_weights(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load each weight into the projection of that name: an `nn.Linear`, or an `nn.Parameter` in its layout.

    What is missing or has another shape is passed over: whoever asked sees it in the reply's `parameters`. A bias that should
    not be there is set to zero, so that it costs the one check that is about it and no other.
    """
    with torch.no_grad():
        for name, weight in weights.items():
            projection = getattr(module, name, None)
            target = getattr(projection, "weight", None) if isinstance(projection, nn.Module) else projection
            if isinstance(target, Tensor) and target.shape == weight.shape:
                target.copy_(weight)
            if isinstance(bias := getattr(projection, "bias", None), Tensor):
                bias.zero_()


def _assign(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Write into what is there; a name that is not is a KeyError."""
    there = dict(module.named_parameters()) | dict(module.named_buffers())
    with torch.no_grad():
        for name, value in state.items():
            there[name].copy_(value)


def _integers(module: nn.Module) -> dict[str, int]:
    """The module's plain integers and flags (a flag is 0 or 1), properties of its class included."""
    properties = [name for name, value in vars(type(module)).items() if isinstance(value, property)]
    found = dict(vars(module))
    for name in properties:
        with contextlib.suppress(Exception):
            found[name] = getattr(module, name)
    plain = {name: int(value) for name, value in found.items() if type(value) in (int, bool) and not name.startswith("_")}
    return {name: value for name, value in plain.items() if abs(value) < LARGEST_INTEGER}


def _gradients(
    value: Any, upstream: tuple[Tensor | None, ...] | None, arguments: _Arguments, module: nn.Module | None
) -> dict[str, Tensor | None]:
    """Gradients of `Σ <upstream, result>`; None where no gradient arrives; empty where the results don't fit the upstream."""
    if upstream is None:
        return {}
    results = [each for each in (value if isinstance(value, tuple | list) else (value,)) if isinstance(each, Tensor)]
    pairs = [(result, given) for result, given in zip(results, upstream, strict=False) if given is not None]
    if not pairs or any(result.shape != given.shape for result, given in pairs):
        return {}
    wanted = arguments.leaves() | (dict(module.named_parameters()) if module is not None else {})
    pairs = [(result, given.to(result)) for result, given in pairs if result.requires_grad]
    if not pairs:
        return dict.fromkeys(wanted)
    inputs = list(dict.fromkeys(wanted.values()))  # one tensor passed as two arguments has one gradient
    found = torch.autograd.grad([r for r, _ in pairs], inputs, [g for _, g in pairs], allow_unused=True)
    by_tensor = {id(tensor): None if g is None else g.detach().cpu() for tensor, g in zip(inputs, found, strict=True)}
    return {name: by_tensor[id(tensor)] for name, tensor in wanted.items()}


def _met_other_device(error: StudentRaised, watch: Operations | None) -> tuple[str, ...]:
    """What an error on the meta device says about devices: nothing, where it is only that there are no values to look at."""
    seen = tuple(watch.foreign) if watch else ()
    if not seen and ("expected device" in error.message or "same device" in error.message):
        return (f"a tensor of another device, at {error.where}",)
    return seen


def _outward(value: Any, keep: Callable[[nn.Module], ModuleRef] | None = None, depth: int = 0) -> Value:
    """What may leave: tensors without their graph, plain values, tuples of them, the numbers of modules that `keep` keeps;
    the type's name of anything else.
    """
    if isinstance(value, Tensor):
        if value.layout is not torch.strided or value.is_complex() or value.is_quantized or value.device.type == "meta":
            return Opaque(f"{value.layout} {value.dtype} tensor on {value.device}")
        return torch.Tensor.detach(value).cpu().clone()
    if isinstance(value, tuple | list) and depth < _DEEPEST:
        return tuple(_outward(each, keep, depth + 1) for each in value)
    if isinstance(value, nn.Module) and keep is not None:
        return keep(value)
    if type(value) is int and abs(value) >= LARGEST_INTEGER:
        return Opaque(f"int, {value.bit_length()} bits long")
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, float):  # NumPy's is one too
        return float.__float__(value)
    return Opaque(type(value).__name__)


def _devices(value: Any) -> Value:
    if isinstance(value, Tensor):
        return value.device.type
    if isinstance(value, nn.Module):
        kinds = {parameter.device.type for parameter in value.parameters()}
        return next(iter(kinds - {"meta"}), "meta")
    return tuple(_devices(each) for each in value) if isinstance(value, tuple | list) else None


def _class_names(value: object) -> tuple[str, ...]:
    """The names of its classes, most derived first."""
    return tuple(str(kind.__name__)[:100] for kind in type(value).__mro__ if kind is not object)[:16]


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:  # the exception may be the student's own class
        return ""
    return text[:_LONGEST_MESSAGE]


def seed_everything(seed: int) -> None:
    """Seed every generator that a student's code might draw from."""
    torch.manual_seed(seed % 2**63)
    for name, keep in (("random", seed), ("numpy", seed % 2**32)):
        module = sys.modules.get(name)
        if module is not None:
            (module.random if name == "numpy" else module).seed(keep)


__all__: Sequence[str] = ["Direct", "Layout", "seed_everything"]
