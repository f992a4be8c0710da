"""The bank: every attack, in the order in which it is run. One module a family."""

from __future__ import annotations

from ..attack import Attack
from .answers import ANSWERS
from .burning import BURNING
from .leaking import LEAKING
from .parsing import PARSING
from .processes import PROCESSES
from .reading import READING
from .ready_made import READY_MADE
from .writing import WRITING

BANK: tuple[Attack, ...] = (*ANSWERS, *READING, *WRITING, *PROCESSES, *BURNING, *PARSING, *LEAKING, *READY_MADE)
