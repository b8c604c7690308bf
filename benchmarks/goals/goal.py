"""What a goal is, and what is measured for it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.report import Results

#: What another checkout of this project is called beside this one.
BEFORE = "before"
_CLAUSE = re.compile(r"(ratio )?(<=|>=|<|>) ([\d,.]+)")
_COMPARISONS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}

#: Each measures one round, and adds what it found; in every round they take turns.
Sides = dict[str, Callable[[Results], None]]


@dataclass(frozen=True)
class Goal:
    """One figure that has to be reached.

    :param what: the figure, as a side tells it.
    :param aim: such as ``"<= 4"``, ``"ratio >= 1.5"`` or ``">= 40,000 or ratio >= 2"``.
    :param beside: the side that it is compared with, if any.
    :param side: the side whose figure it is.
    """

    what: str
    unit: str
    aim: str
    beside: str = ""
    side: str = "jobboard"

    def is_met(self, value: float, ratio: float | None) -> bool:
        """Whether one of the aim's clauses holds."""
        return any(_holds(clause, value, ratio) for clause in self.aim.split(" or "))


def _holds(clause: str, value: float, ratio: float | None) -> bool:
    match = _CLAUSE.fullmatch(clause)
    if match is None:
        raise ValueError(f"not an aim: {clause}")
    compared = ratio if match[1] else value
    return compared is not None and _COMPARISONS[match[2]](compared, float(match[3].replace(",", "")))


@dataclass(frozen=True)
class Setting:
    """How to measure.

    :param against: another checkout of this project.
    :param core: the processor that clients share, as of ``taskset``.
    """

    rounds: int = 5
    scale: float = 1.0
    against: Path | None = None
    core: str | None = None

    def scaled(self, count: int) -> int:
        return max(1, int(count * self.scale))


@dataclass(frozen=True)
class Part:
    """Goals that are measured together.

    :param sides: opens what is needed, for all rounds.
    """

    name: str
    goals: tuple[Goal, ...]
    sides: Callable[[Setting], AbstractContextManager[Sides]]
