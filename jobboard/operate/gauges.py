"""What a board looks like, as gauges for Prometheus: read at each scrape, so by one process and not by each worker."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from jobboard.board import JobBoard, client_of
from jobboard.errors import BoardUnavailable
from jobboard.graph.blocked import Wait, wait_of
from jobboard.operate.overview import NameOverview, Overview, ScheduleOverview, overview
from jobboard.participants import number_of, runs_of
from jobboard.states import JobState
from jobboard.stats import COUNTED
from jobboard.telemetry.labels import MAX_NAMES, OTHER

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

    from jobboard.limit import LaneStats
    from jobboard.participants import Entity

#: Participants that the project itself has.
_OWN_KINDS = ("conductor", "scheduler")
#: How many further kinds have series of their own: anybody may register, as of any kind.
MAX_KINDS = 20
#: How many lanes have series, those with most blocked jobs.
MAX_LANES = 20
#: How many blocked jobs are read, to count them by what they wait for.
MAX_BLOCKED = 500


class BoardGauges:
    """A collector for ``prometheus_client``; costs 31 requests a board at most, see :func:`overview`.

    While jobs are blocked, the lanes cost 3 more, and one request reads the first :data:`MAX_BLOCKED` of these jobs.
    For jobs of the trash that have children it may be 10 more then.

    :param boards: connected.
    """

    def __init__(self, boards: Iterable[JobBoard]) -> None:
        self._boards = list(boards)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        families = _Families()
        for board in self._boards:
            began = time.monotonic()
            lanes: list[LaneStats] = []
            waits = Counter[Wait | None]()
            try:
                look: Overview | None = overview(board)
                if look is not None and look.stats.blocked:
                    lanes = board.limits.lanes(MAX_LANES)
                    waits = _read_waits(board)
            except BoardUnavailable:
                look = None
            families.add("up", board.name, value=float(look is not None))
            families.add("look_seconds", board.name, value=time.monotonic() - began)
            if look is not None:
                _add_names(families, board.name, look.names)
                _add_lanes(families, board.name, lanes)
                _add_blocked(families, board.name, look.stats.blocked, waits, lanes)
                _add_participants(families, board.name, look.entities)
                _add_schedules(families, board.name, look.schedules)
        return iter(families.made.values())


#: Each gauge without its prefix: what it says, and its labels.
_GAUGES = {
    "up": ("Whether the store answers.", ("board",)),
    "look_seconds": ("How long this look at the board took.", ("board",)),
    "jobs": ("Jobs by state; complete ones are not counted.", ("board", "name", "state")),
    "oldest_unclaimed_seconds": (
        "For how long the job that is claimed next could have been claimed; 0 if none waits.",
        ("board", "name"),
    ),
    "paused": ("Whether no jobs of this name are claimed.", ("board", "name")),
    "conductors": ("Conductors that are alive and claim jobs of this name.", ("board", "name")),
    "blocked_jobs": (
        "Blocked jobs by what they wait for: parents, a signal or a lane; unread are those that were too many to read.",
        ("board", "reason"),
    ),
    "lane_jobs": ("Jobs by state, of the lanes with most blocked ones.", ("board", "lane", "state")),
    "lane_limit": ("How many jobs of such a lane may run; 0 if it is paused.", ("board", "lane")),
    "lane_oldest_blocked_seconds": ("For how long the first blocked job has waited for its lane.", ("board", "lane")),
    "entities": ("Conductors, schedulers and others, alive or gone.", ("board", "kind", "alive")),
    "slots": ("Slots of living conductors.", ("board", "state")),
    "longest_run_seconds": ("How long the handler that runs longest has run; 0 if none runs.", ("board",)),
    "schedules": ("Schedules by state.", ("board", "state")),
    "schedule_overdue_seconds": ("Since the most overdue schedule was to fire; 0 if none is.", ("board",)),
}


class _Families:
    """The gauges that were made so far."""

    def __init__(self) -> None:
        from prometheus_client.core import GaugeMetricFamily

        self.made = {
            gauge: GaugeMetricFamily(f"jobboard_{gauge}", text, labels=labels)
            for gauge, (text, labels) in _GAUGES.items()
        }

    def add(self, gauge: str, *labels: str, value: float) -> None:
        self.made[gauge].add_metric(labels, value)


def _add_names(families: _Families, board: str, names: Sequence[NameOverview]) -> None:
    for name, parts in _by_label(names).items():
        for state in COUNTED:
            number = sum(getattr(part.numbers, state) for part in parts)
            families.add("jobs", board, name, state, value=number)
        families.add("oldest_unclaimed_seconds", board, name, value=max(part.next_waits or 0.0 for part in parts))
        families.add("paused", board, name, value=float(any(part.paused for part in parts)))
        families.add("conductors", board, name, value=min(part.conductors for part in parts))


def _add_lanes(families: _Families, board: str, lanes: Sequence[LaneStats]) -> None:
    for lane in lanes:
        for state, number in (("unclaimed", lane.claimable), ("claimed", lane.running), ("blocked", lane.blocked)):
            families.add("lane_jobs", board, lane.lane, state, value=number)
        families.add("lane_oldest_blocked_seconds", board, lane.lane, value=lane.oldest or 0.0)
        limit = lane.limit
        running = None if limit is None else 0 if limit.paused else limit.running
        if running is not None:
            families.add("lane_limit", board, lane.lane, value=running)


def _read_waits(board: JobBoard) -> Counter[Wait | None]:
    client = client_of(board)
    rows = client.call(client.backend.jobs.page, {JobState.BLOCKED}, None, None, MAX_BLOCKED).rows
    return Counter(map(wait_of, rows))


def _add_blocked(
    families: _Families, board: str, blocked: int, waits: Counter[Wait | None], lanes: Sequence[LaneStats]
) -> None:
    """Of the longest lanes all jobs are counted, and the jobs that were read."""
    numbers = {wait.value: waits[wait] for wait in Wait}
    numbers[Wait.LANE.value] = max(waits[Wait.LANE], sum(lane.blocked for lane in lanes))
    for reason, number in {**numbers, "unread": max(0, blocked - sum(numbers.values()))}.items():
        families.add("blocked_jobs", board, reason, value=number)


def _add_participants(families: _Families, board: str, entities: Sequence[Entity]) -> None:
    known = _kinds_of(entities)
    kinds = Counter((entity.kind if entity.kind in known else OTHER, str(entity.alive).lower()) for entity in entities)
    for kind in _OWN_KINDS:
        kinds.setdefault((kind, "true"), 0)
    for (kind, alive), number in sorted(kinds.items()):
        families.add("entities", board, kind, alive, value=number)
    crew = [entity for entity in entities if entity.kind == "conductor" and entity.alive]
    for state, field in (("all", "concurrency"), ("taken", "running"), ("stuck", "stuck")):
        families.add("slots", board, state, value=sum(number_of(entity, field) for entity in crew))
    longest = max((run.seconds for entity in crew for run in runs_of(entity)), default=0.0)
    families.add("longest_run_seconds", board, value=longest)


def _kinds_of(entities: Sequence[Entity]) -> set[str]:
    """Return the kinds that have series of their own: of others than the project's those with most that are alive."""
    alive = Counter({entity.kind: 0 for entity in entities})
    alive.update(entity.kind for entity in entities if entity.alive)
    others = sorted(alive.keys() - {*_OWN_KINDS}, key=lambda kind: (-alive[kind], kind))
    return {*_OWN_KINDS, *others[:MAX_KINDS]}


def _add_schedules(families: _Families, board: str, schedules: ScheduleOverview) -> None:
    numbers = {"active": schedules.active, "paused": schedules.paused, "set_aside": len(schedules.set_aside)}
    for state, number in numbers.items():
        families.add("schedules", board, state, value=number)
    families.add("schedule_overdue_seconds", board, value=max(schedules.overdue.values(), default=0.0))


def _by_label(names: Sequence[NameOverview]) -> dict[str, list[NameOverview]]:
    """Group the names under their labels: those with most waiting jobs have their own, the rest share one."""
    by_size = sorted(names, key=lambda name: (-name.numbers.unclaimed, name.name))
    groups = {name.name: [name] for name in by_size[:MAX_NAMES]}
    if rest := by_size[MAX_NAMES:]:
        groups.setdefault(OTHER, []).extend(rest)
    return groups
