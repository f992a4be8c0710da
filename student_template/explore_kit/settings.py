"""The few numbers of a run: of the notebook's first cell, or of the command line."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from .messages import Told, notebook


@dataclass(frozen=True)
class Settings:
    steps: int
    learning_rate: float
    seed: int

    def __post_init__(self) -> None:
        if self.steps < 1 or not self.learning_rate > 0:
            raise Told(f"steps and learning rate must be positive: they are {self.steps} and {self.learning_rate:g}.")


def choose(steps: int, learning_rate: float, seed: int) -> Settings:
    """These numbers, unless the command line gives others; a notebook has none."""
    if notebook():
        return Settings(steps, learning_rate, seed)
    parser = argparse.ArgumentParser(description="See what your own attention head looks at. The pictures go to explore/.")
    parser.add_argument("--steps", type=int, default=steps, help="training steps for each series (default: %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=learning_rate, help="of the training (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=seed, help="of the series and the first weights (default: %(default)s)")
    given = parser.parse_args()
    return Settings(given.steps, given.learning_rate, given.seed)
