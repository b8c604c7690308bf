"""What a whole board looks like, in a bounded number of requests; for the status, consoles and metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice, repeat
from typing import TYPE_CHECKING

from jobboard.backends.base import PAUSE_ID
from jobboard.backends.findings import Holder, Persistence, Shortage
from jobboard.backends.lane_rows import LaneRow
from jobboard.backends.rows import JobRow, Pause
from jobboard.backends.schedule_rows import ScheduleRow
from jobboard.board import JobBoard, client_of
from jobboard.errors import MissingExtra, UnreadableSchedule
from jobboard.limit import Limit
from jobboard.operate.clock_findings import SetBack, set_back
from jobboard.operate.conductors import GoneConductor, gone_conductors
from jobboard.operate.failing import RECENT, Failures, failures_of
from jobboard.operate.held_lanes import HeldLane, held_lanes
from jobboard.operate.held_up import FailedParent, failed_parents
from jobboard.operate.missed import Missed, missed_of
from jobboard.operate.trash import TrashGroup, grouped
from jobboard.operate.why_missed import missed_waiting
from jobboard.participants import Entity, claims, unhandled
from jobboard.states import JobState
from jobboard.stats import BoardStats, NameStats

if TYPE_CHECKING:
    from jobboard.schedules.progress import Progress

#: Of how many names, those with most waiting jobs, the next job is read: one request and one job each. And of how many,
#: those with most trash, the reasons are counted.
MAX_NAMES = 20
#: From how many jobs of the trash the reasons are counted, and of how many delayed ones: one request each.
MAX_TRASH_READ = 100
#: How many schedules are read, those that are due first: the number of requests, and of schedules in each.
MAX_SCHEDULE_PAGES, _SCHEDULE_PAGE = 2, 500
#: How many lanes of which no job runs are looked at, of the longest, and how many of each one's jobs.
MAX_IDLE_LANES, _HOLDERS = 5, 20


@dataclass(frozen=True, slots=True)
class NameOverview:
    """The jobs of one name.

    :ivar next_waits: for how many seconds the job that is claimed next could have been claimed; of jobs of one priority
        it is the one that waits longest. None if no job waits, or its name is beyond :data:`MAX_NAMES`.
    :ivar conductors: how many that are alive claim jobs of this name.
    :ivar limit: how many of them may be claimed at a time; None: any number.
    """

    name: str
    numbers: NameStats
    next_waits: float | None
    conductors: int
    paused: bool
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ScheduleOverview:
    """The schedules that were read, at most a thousand, those first that are due first.

    One that is not due, and needs a package that this host lacks, counts nowhere.

    :ivar overdue: the seconds since each schedule that is due was to fire, by id; a moment is normal.
    :ivar set_aside: the ids of those that schedulers have set aside, or that can't be decoded.
    :ivar unhandled: the job names of active schedules for which no conductor that is alive has a handler, by id; {} if
        no conductor is alive.
    :ivar skipped: how many of its last fire times each active schedule has skipped, by id, since its jobs are live
        still; of those that go back further than its history so many as that has.
    :ivar missed: how many fire times each active schedule has missed since its last job, by id, with the last of these.
    :ivar pauses: the notes of paused schedules, by id, up to :data:`MAX_NAMES`.
    :ivar complete: whether these are all schedules of the board.
    :ivar all_paused: whether no scheduler posts anything, since somebody paused all.
    :ivar all_paused_note: why, and who did, if they said so.
    """

    active: int = 0
    paused: int = 0
    finished: int = 0
    set_aside: tuple[str, ...] = ()
    overdue: dict[str, float] = field(default_factory=dict)
    unhandled: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    missed: dict[str, tuple[int, datetime | None]] = field(default_factory=dict)
    pauses: dict[str, str | None] = field(default_factory=dict)
    complete: bool = True
    all_paused: bool = False
    all_paused_since: datetime | None = None
    all_paused_note: str | None = None


@dataclass(frozen=True, slots=True)
class IdleLane:
    """A lane of which no job runs, while others wait for the slots of some that can be claimed.

    :ivar oldest: for how many seconds the first of them waits.
    :ivar names: of the jobs that nobody claims.
    """

    lane: str
    blocked: int
    oldest: float
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """One look at a board; the parts are read one after the other, so they may differ by what happens meanwhile.

    :ivar at: the moment, by the store's clock.
    :ivar trash: of the first :data:`MAX_TRASH_READ` jobs in the trash; groups with a job of the last hour come first,
        and then the largest.
    :ivar failures: what failed in the last hour, of those, and of :data:`MAX_TRASH_READ` jobs that are delayed.
    :ivar limits: those of the board.
    :ivar idle_lanes: lanes with jobs that wait for slots that nobody claims, up to :data:`MAX_IDLE_LANES`.
    :ivar held_lanes: strict lanes with jobs that wait for one which fails again and again.
    :ivar failed_parents: jobs in the trash for which others wait, of those that were read.
    :ivar missed: jobs in the trash that had not begun in time and wait for others still, of those that were read.
    :ivar gone: conductors that went away and did not stop in good order, the one that was seen last first.
    :ivar holders: what keeps the store from deleting old rows, as far as this login may know; the oldest first.
    :ivar shortages: what will soon keep the store from taking changes, or does so.
    :ivar set_back: how far the store's clock is behind what was read; None if it is not.
    :ivar persistence: whether the store is set up to keep what it has acknowledged; None for one that never does.
    """

    at: float
    stats: BoardStats
    names: tuple[NameOverview, ...]
    entities: tuple[Entity, ...]
    pauses: tuple[Pause, ...]
    trash: tuple[TrashGroup, ...]
    schedules: ScheduleOverview
    holders: tuple[Holder, ...] = ()
    limits: tuple[Limit, ...] = ()
    idle_lanes: tuple[IdleLane, ...] = ()
    held_lanes: tuple[HeldLane, ...] = ()
    failed_parents: tuple[FailedParent, ...] = ()
    shortages: tuple[Shortage, ...] = ()
    persistence: Persistence | None = None
    gone: tuple[GoneConductor, ...] = ()
    failures: tuple[Failures, ...] = ()
    set_back: SetBack | None = None
    missed: tuple[Missed, ...] = ()


def overview(board: JobBoard) -> Overview:
    """Look at a board.

    Costs 6 requests, on etcd and SQLite one more, on Redis, PostgreSQL and MariaDB two more, and on Redis another one
    for a user who may not see the server's settings; one for each name with waiting jobs (20 at most), one if there is
    trash, one if jobs are delayed, one more for more than 500 schedules, one if a conductor went away while jobs are
    claimed, and if jobs are blocked one, and one for each lane of which none runs (5 at most) and each strict lane with
    a retry (5 at most), and two for each job of the trash that has children, and three if it has a key (5 at most), two
    for the other ones that have children, and one if jobs of the trash had not begun in time: 61 at most. Reads no job
    but the next of each name, 100 of the trash, 100 delayed and 100 claimed ones, 20 of each such lane, and 100
    children of each such job, or one.

    :raises BoardUnavailable: the store can't be reached.
    """
    stats, pauses, entities = board.stats(), tuple(board.pauses()), tuple(board.entities())
    paused = {pause.name for pause in pauses}
    client = client_of(board)
    schedules = _read_schedules(board)
    now = client.call(client.backend.now)
    heads = _read_heads(board, stats)
    limits = tuple(board.limits)
    running = {limit.name: limit.running for limit in limits if limit.name is not None}
    names = tuple(
        NameOverview(
            name,
            numbers,
            None if name not in heads else max(0.0, now - _claimable_since(heads[name])),
            sum(claims(entity, name) for entity in entities),
            name in paused or None in paused,
            running.get(name),
        )
        for name, numbers in sorted(stats.names.items())
    )
    trashed = _read_some(
        board, JobState.TRASHED, _most({name: numbers.trashed for name, numbers in stats.names.items()})
    )
    delayed = _read_some(board, JobState.DELAYED, _most({name: one.delayed for name, one in stats.names.items()}))
    holders = tuple(client.call(client.backend.maintenance.holders))
    shortages = tuple(client.call(client.backend.shortages))
    persistence = client.call(client.backend.persistence) if board.capabilities.durable else None
    longest = client.call(client.backend.limits.longest, MAX_NAMES) if stats.blocked else []
    idle = tuple(_idle_lanes(board, longest, entities, now))
    held = tuple(held_lanes(board, longest, limits, now))
    failed = tuple(failed_parents(board, trashed)) if stats.blocked or any(map(missed_waiting, trashed)) else ()
    missed = missed_of(board, trashed, failed)
    gone = gone_conductors(board, entities, stats.claimed, now)
    seen = _summary(schedules, now, entities)
    behind = set_back([*heads.values(), *trashed, *delayed], _outlines(schedules[0]), now)
    trash = tuple(sorted(grouped(trashed), key=lambda group: group.last < now - RECENT))
    failures = failures_of([*trashed, *delayed], now)
    found = holders, limits, idle, held, failed, shortages, persistence, gone, failures, behind, missed
    return Overview(now, stats, names, entities, pauses, trash, seen, *found)


def _idle_lanes(
    board: JobBoard, longest: Sequence[LaneRow], entities: Sequence[Entity], now: float
) -> Iterator[IdleLane]:
    client = client_of(board)
    idle = [lane for lane in longest if lane.blocked and lane.claimable and not lane.claimed]
    for lane in idle[:MAX_IDLE_LANES]:
        holders = client.call(client.backend.limits.lane, lane.lane, _HOLDERS).holders
        names = {row.name for row in holders if row.state is JobState.UNCLAIMED}
        if names and not any(claims(entity, name) for entity in entities for name in names):
            waits = 0.0 if lane.oldest is None else max(0.0, now - lane.oldest)
            yield IdleLane(lane.lane, lane.blocked, waits, tuple(sorted(names)))


def scale_of(board: JobBoard, name: str | None) -> dict[str, int]:
    """Return how much there is to do of one name (None: of all), for autoscalers; always the same four numbers.

    ``waiting`` jobs, those that are ``running``, for how many seconds the ``oldest`` waits (of one name the job that is
    claimed next, of all the one that was posted first), and as ``wanted`` those that run or that a worker could start:
    no others of a name that is paused, and no more of one than its limit says. Six requests at most.

    :raises BoardUnavailable: the store can't be reached.
    """
    stats = board.stats()
    names = stats.names if name is None else {name: stats.names.get(name, NameStats())}
    numbers = stats if name is None else names[name]
    oldest = stats.oldest_unclaimed or 0.0
    if name is not None:
        client = client_of(board)
        heads = client.call(client.backend.jobs.page, {JobState.UNCLAIMED}, frozenset({name}), None, 1).rows
        now = client.call(client.backend.now) if heads else 0.0
        oldest = max(0.0, now - _claimable_since(heads[0])) if heads else 0.0
    waiting, running = numbers.unclaimed, numbers.claimed
    wanted = running + (_startable(board, names) if waiting else 0)
    return {"waiting": waiting, "running": running, "oldest": int(oldest), "wanted": wanted}


def _startable(board: JobBoard, names: Mapping[str, NameStats]) -> int:
    """Return how many of the waiting jobs of some names workers could start now. Three requests at most."""
    paused = {pause.name for pause in board.pauses()}
    if None in paused:
        return 0
    most = {limit.name: limit.running for limit in board.limits if limit.running is not None}
    return sum(_with_room(numbers, most.get(name)) for name, numbers in names.items() if name not in paused)


def _with_room(numbers: NameStats, most: int | None) -> int:
    # If a limit was lowered, more may run than it says.
    return numbers.unclaimed if most is None else min(numbers.unclaimed, max(0, most - numbers.claimed))


def _most(numbers: Mapping[str, int]) -> list[str]:
    """Return the names of the largest numbers, without those of 0."""
    found = [name for name, number in numbers.items() if number]
    return sorted(found, key=lambda name: (-numbers[name], name))[:MAX_NAMES]


def _read_heads(board: JobBoard, stats: BoardStats) -> dict[str, JobRow]:
    client, heads = client_of(board), dict[str, JobRow]()
    for name in _most({name: numbers.unclaimed for name, numbers in stats.names.items()}):
        page = client.call(client.backend.jobs.page, {JobState.UNCLAIMED}, frozenset({name}), None, 1)
        heads.update({row.name: row for row in page.rows})
    return heads


def _claimable_since(row: JobRow) -> float:
    return max(row.created_on, row.last_modified, row.run_at or 0.0)


def _read_some(board: JobBoard, state: JobState, names: Collection[str]) -> list[JobRow]:
    if not names:
        return []
    client = client_of(board)
    return client.call(client.backend.jobs.page, {state}, frozenset(names), None, MAX_TRASH_READ).rows


def _read_schedules(board: JobBoard) -> tuple[list[ScheduleRow], bool]:
    """Return the schedules that are due first, and whether these are all."""
    client = client_of(board)
    pages = list(client.pages(repeat(_SCHEDULE_PAGE, MAX_SCHEDULE_PAGES), client.backend.schedules.page))
    return [row for page in pages for row in page.rows], pages[-1].cursor is None


def unhandled_schedules(board: JobBoard) -> dict[str, str]:
    """Return :attr:`ScheduleOverview.unhandled` of a board, in three requests at most."""
    rows, _ = _read_schedules(board)
    return _unhandled(_outlines(rows), board.entities())


def _outlines(rows: Sequence[ScheduleRow]) -> dict[str, tuple[str, Progress]]:
    """Return the job's name and the progress of each active schedule, by id."""
    active = [row for row in rows if row.next_at is not None and row.id != PAUSE_ID]
    if not active:
        return {}
    from jobboard.schedules.schedule import outline_of

    return {row.id: outline for row in active if (outline := outline_of(row.body)) is not None}


def _unhandled(outlines: Mapping[str, tuple[str, Progress]], entities: Sequence[Entity]) -> dict[str, str]:
    if not any(entity.alive and entity.kind == "conductor" for entity in entities):
        return {}
    lacking = unhandled(entities, [name for name, _ in outlines.values()])
    return {id: name for id, (name, _) in outlines.items() if name in lacking}


def _summary(found: tuple[Sequence[ScheduleRow], bool], now: float, entities: Sequence[Entity]) -> ScheduleOverview:
    from jobboard.schedules.pausing import unpack_pause

    rows, is_complete = found
    pause = next((unpack_pause(row) for row in rows if row.id == PAUSE_ID), None)
    rows = [row for row in rows if row.id != PAUSE_ID]
    states = {row.id: _state_of(row) for row in rows}
    count, outlines = Counter(states.values()), _outlines(rows)
    return ScheduleOverview(
        active=count["active"],
        paused=count["paused"],
        finished=count["finished"],
        set_aside=tuple(id for id, state in states.items() if state == "set aside"),
        overdue={row.id: now - row.next_at for row in rows if row.next_at is not None and row.next_at < now},
        unhandled=_unhandled(outlines, entities),
        missed={
            id: (last[0], last[1].fire_time)
            for id, (_, progress) in outlines.items()
            if (last := progress.last_missed) is not None
        },
        pauses={
            row.id: _note_of(row) for row in islice((one for one in rows if states[one.id] == "paused"), MAX_NAMES)
        },
        skipped={id: skipped for id, (_, progress) in outlines.items() if (skipped := progress.last_skipped)},
        complete=is_complete,
        all_paused=pause is not None,
        all_paused_since=None if pause is None else pause.since,
        all_paused_note=None if pause is None else pause.note,
    )


def _note_of(row: ScheduleRow) -> str | None:
    from jobboard.schedules.transitions import readable_of

    progress = readable_of(row).progress
    return None if progress is None else progress.note


def _state_of(row: ScheduleRow) -> str:
    if row.next_at is not None:
        return "active"
    # Here, because a board without schedules should not wait for the import of triggers and time zones.
    from jobboard.schedules.transitions import readable_of

    try:
        return readable_of(row).state
    except UnreadableSchedule:
        return "set aside"
    except MissingExtra:
        return "unknown"
