"""What can be asked of a student's code, and what comes back: the one interface that both transports carry.

A `Value` is a tensor, a plain Python value (None, bool, int, float, str), a `ModuleRef`, an `Opaque`, or a tuple of values.
A `torch.dtype` or a `torch.device` may be an argument too. Nothing else crosses, in either direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

Value = Any  # see above; Python cannot say "tuples of itself" to a type checker without noise at every use
LARGEST_INTEGER = 1 << 1024  # an int of this size or more is no Value: nobody asks for one, and writing it down takes for ever


@dataclass(frozen=True)
class Opaque:
    """An object that came back and is not a value: only the name of its type is told."""

    type_name: str


@dataclass(frozen=True)
class ModuleRef:
    """A module on the far side, by its number: one that `Make` made, or one that a call returned."""

    index: int
    kinds: tuple[str, ...] = ()  # of one that came back: the names of its classes, most derived first


@dataclass(frozen=True)
class Call:
    """Call `function` (of the package, or `forward` of module number `module`) with these arguments.

    Of the observations only those asked for are made, since each costs something:
    `upstream` gives one gradient per returned tensor (None: that result is left out) and asks for the gradients of
    `sum(<upstream, result>)` with respect to every floating-point argument and every parameter;
    `after` asks for the arguments as they are after the call; `count` for the tensor operations, in order, for the size of the
    largest tensor that they made and for the calls of ready-made attention, where it may be called;
    `device` moves every tensor argument (and the module) to that device first. On "meta", where tensors have shapes and no
    values, what comes back is the names of the results' devices, and `foreign` says which operations mixed devices.
    """

    function: str
    args: tuple[Value, ...] = ()
    kwargs: Mapping[str, Value] = field(default_factory=dict)
    module: int | None = None
    upstream: tuple[torch.Tensor | None, ...] | None = None
    after: bool = False
    count: bool = False
    device: str | None = None


@dataclass(frozen=True)
class Make:
    """Construct `cls(*args, **kwargs)`, load `weights` (by projection name, `(out, in)` each), set dtype and mode, keep it.

    A name that begins with "@" is that of a stand-in, which the kit brings along (see `stand_in.py`), and not the student's.
    """

    cls: str
    args: tuple[Value, ...] = ()
    kwargs: Mapping[str, Value] = field(default_factory=dict)
    weights: Mapping[str, torch.Tensor] = field(default_factory=dict)
    dtype: torch.dtype | None = None
    training: bool = True


@dataclass(frozen=True)
class Load:
    """Import the file of `part`, and nothing else: what a broken file costs is found out once."""

    part: str


@dataclass(frozen=True)
class Describe:
    """Tell the state of module number `module` as it is now: parameters and buffers, mode, plain attributes."""

    module: int


@dataclass(frozen=True)
class Assign:
    """Write these values into the parameters and buffers of module number `module`, by their full names."""

    module: int
    state: Mapping[str, torch.Tensor]


Request = Call | Make | Load | Describe | Assign


@dataclass(frozen=True)
class Reply:
    """What came back. Fields that were not asked for are empty."""

    value: Value = None
    after: tuple[Value, ...] = ()  # positional arguments, then keyword arguments in the call's order
    gradients: Mapping[str, torch.Tensor | None] = field(default_factory=dict)  # "arg0", "kwarg name", "W_q.weight"
    operations: tuple[str, ...] = ()  # "aten.bmm", in order
    largest: int = 0  # elements of the largest tensor that an operation made
    ready_made: tuple[str, ...] = ()  # "scaled_dot_product_attention": calls of the library's attention, by name
    foreign: tuple[str, ...] = ()  # on "meta": operations that mixed devices, with the student's line
    module: int | None = None  # after Make
    parameters: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # after Make and Describe: name to shape
    attributes: Mapping[str, int] = field(default_factory=dict)  # after Make and Describe: the module's integers and flags
    state: Mapping[str, torch.Tensor] = field(default_factory=dict)  # after Describe: parameters and buffers by name


class Transport(Protocol):
    """One of the two ways to the student's code: in this process (`executor.Direct`), or over the wire to a worker."""

    @property
    def printed(self) -> str:
        """What the student's code has printed so far."""
        ...

    def perform(self, request: Request) -> Reply:
        """Do it. Raises StudentRaised, WorkerTimedOut or WorkerCrashed."""
        ...
