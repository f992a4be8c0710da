"""Do right solutions pass under any secret? A part is graded again and again, the reference and every variant, each time on
other inputs and other initial weights:

    python -m tests.robustness forecasting --secrets 50 [--jobs 2]

Prints for each solution which checks it lost how often, and the slowest check. Exit status 0 only if none lost any.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import torch

from .support import grade_directly, lost, reference, variants


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.robustness")
    parser.add_argument("part", help="the slug of a part")
    parser.add_argument("--secrets", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    solutions = {"reference": reference()} | variants(given.part)
    secrets = [f"robust {number}" for number in range(given.secrets)]
    losses = 0
    with ProcessPoolExecutor(given.jobs, initializer=torch.set_num_threads, initargs=(1,)) as executor:
        for name, sources in solutions.items():
            found: Counter[str] = Counter()
            slowest = (0.0, "")
            for results in executor.map(partial(_graded, sources, given.part), secrets):
                found.update(results[0])
                slowest = max(slowest, results[1])
            losses += found.total()
            listed = ", ".join(f"{check} {count} times" for check, count in found.most_common()) or "none"
            print(f"{name}, {len(secrets)} secrets: lost {listed}; slowest {slowest[1]}, {slowest[0]:.1f} s", flush=True)
    return 0 if losses == 0 else 1


def _graded(sources: dict[str, str], part: str, secret: str) -> tuple[list[str], tuple[float, str]]:
    """The checks that were lost, and the slowest one with its seconds."""
    results = grade_directly(sources, part, secret)
    return list(lost(results)), max((result.seconds, result.check) for result in results.values())


if __name__ == "__main__":
    sys.exit(main())
