"""A student's own desk: where the package lies, which public checks there are, and fresh direct transports for them."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Collection, Iterator
from pathlib import Path

import torch

from . import package
from .calls import Transport
from .draw import seed_for
from .errors import BadUsage, StudentRaised
from .executor import Direct, seed_everything
from .parts import Assignment, PartInfo
from .records import Check
from .registry import collect
from .run import Opener
from .substitutes import exchanged

_DESK_SECRET = "desk"  # the same inputs at every run, so that a failure stays where it was


def public_checks(parts: tuple[PartInfo, ...]) -> list[Check]:
    """The public checks of these parts, in order."""
    return collect([importlib.import_module(f".test_{part.slug}", __package__) for part in parts])


def desk_seed(check: Check) -> int:
    return seed_for(_DESK_SECRET, check.id)


def opener(root: Path, assignment: Assignment, device: str | None = None) -> Opener:
    """Fresh direct transports on the package in `root`, read anew for each check; calls run on `device`."""
    if not (root / assignment.package).is_dir():
        raise BadUsage(f"There is no folder {assignment.package}/ in {root}: give the folder that holds it.")
    if device == "cuda" and not torch.cuda.is_available():
        raise BadUsage("This machine has no GPU that torch can use: run the checks on the CPU, without a device.")

    torch.set_num_threads(1)  # the tensors are small, and threads would only wait for each other

    @contextlib.contextmanager
    def open_transport(
        part: str, seed: int, substitutes: Collection[str] = (), memory_mib: int | None = None
    ) -> Iterator[Transport]:
        sources, refused = package.read_folder(root, assignment.package)
        if reason := refused.get(f"{assignment.package}/{part}.py"):
            raise StudentRaised(("UnicodeDecodeError",), reason)
        seed_everything(seed)
        texts, layout = exchanged(sources, assignment.layout, substitutes)
        yield Direct(package.Package(texts, assignment.package, str(root)), layout, device=device)

    return open_transport
