"""Counts what becomes of the jobs of a simulation: how long they wait, and whose jobs have the slots."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jobboard.simulation.arrivals import Arrival


class Group(NamedTuple):
    """Jobs that are counted together: those of a lane; or those of a name that have none."""

    lane: str | None
    name: str | None

    def __str__(self) -> str:
        return self.lane if self.lane is not None else f"({self.name})"


@dataclass(frozen=True, slots=True)
class Figures:
    """What became of the jobs of a group, or of all.

    :ivar unstarted: how many never started, since a limit of 0 or a lack of slots kept them back.
    :ivar p50: half of those that started had waited so many seconds at most; ``p95``, ``longest`` likewise. None: none
        started.
    :ivar share: the part of the slots' work that was theirs, of the time in which jobs waited. None: no job waited.
    :ivar most: how many ran at once, at most.
    """

    jobs: int
    unstarted: int
    p50: float | None
    p95: float | None
    longest: float | None
    share: float | None
    most: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of all jobs; ``ended``: seconds from the first arrival to the last end."""

    groups: dict[Group, Figures]
    whole: Figures
    ended: float


class Tally:
    """Is told of each arrival, start and end, by the number of the arrival."""

    def __init__(self, arrivals: Sequence[Arrival]) -> None:
        numbers: dict[tuple[str | None, str], int] = {}
        groups: dict[Group, int] = {}
        #: The number of each arrival's group.
        self._group_of = array("l")
        for _, name, lane, _, _ in arrivals:
            number = numbers.get((lane, name))
            if number is None:
                group = Group(lane, name if lane is None else None)
                number = numbers[lane, name] = groups.setdefault(group, len(groups))
            self._group_of.append(number)
        self._groups = list(groups)
        self._jobs = [0] * len(groups)
        self._waits = [array("d") for _ in groups]
        self._running, self._most = [0] * len(groups), [0] * len(groups)
        self._work = [0.0] * len(groups)
        self._now, self._waiting, self._all_running, self._most_of_all = 0.0, 0, 0, 0
        #: For how many seconds jobs have waited, up to now.
        self._contended = 0.0
        self._ended = 0.0

    def go_on(self, now: float) -> None:
        """Let time pass up to this moment."""
        if self._waiting:
            self._contended += now - self._now
        self._now = now

    def arrive(self, arrival: int) -> None:
        self._jobs[self._group_of[arrival]] += 1
        self._waiting += 1

    def start(self, arrival: int, waited: float) -> float:
        """Return what :meth:`end` of this job takes."""
        group = self._group_of[arrival]
        self._waiting -= 1
        self._waits[group].append(waited)
        self._running[group] = running = self._running[group] + 1
        if running > self._most[group]:
            self._most[group] = running
        self._all_running = all_running = self._all_running + 1
        if all_running > self._most_of_all:
            self._most_of_all = all_running
        return self._contended

    def end(self, arrival: int, started: float) -> None:
        group = self._group_of[arrival]
        self._running[group] -= 1
        self._all_running -= 1
        self._work[group] += self._contended - started
        self._ended = self._now

    def outcome(self) -> Outcome:
        work = math.fsum(self._work)
        groups = {
            group: _figures(jobs, sorted(waits), own / work if work else None, most)
            for group, jobs, waits, own, most in zip(
                self._groups, self._jobs, self._waits, self._work, self._most, strict=True
            )
        }
        waits = sorted(_chained(self._waits))
        return Outcome(groups, _figures(sum(self._jobs), waits, 1.0 if work else None, self._most_of_all), self._ended)


def _chained(parts: Iterable[array[float]]) -> array[float]:
    whole = array("d")
    for part in parts:
        whole.extend(part)
    return whole


def _figures(jobs: int, waits: Sequence[float], share: float | None, most: int) -> Figures:
    """Return the figures of jobs that have waited so long, the shortest wait first."""
    p50, p95, longest = (_percentile(waits, percent) for percent in (50, 95, 100))
    return Figures(jobs, jobs - len(waits), p50, p95, longest, share, most)


def _percentile(waits: Sequence[float], percent: int) -> float | None:
    """Return the smallest wait that so many of a hundred did not exceed."""
    return waits[-(-len(waits) * percent // 100) - 1] if waits else None
