"""What it costs to begin: the CPU of an import, and of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.goals.goal import Goal, Part, Setting, Sides
from benchmarks.house import COMMANDS, cpu_of
from benchmarks.peers.report import Results

_ROOT = Path(__file__).parent.parent.parent


@contextmanager
def _commands(_setting: Setting) -> Iterator[Sides]:
    def measure(results: Results) -> None:
        for name, words in COMMANDS.items():
            results.values[f"CPU of {name}"].append(1000 * cpu_of(words, _ROOT))

    # The first run compiles.
    measure(Results())
    yield {"jobboard": measure}


PARTS = (
    Part(
        "cpu",
        (Goal("CPU of import jobboard", "ms", "<= 100"), Goal("CPU of jobboard --help", "ms", "<= 150")),
        _commands,
    ),
)
