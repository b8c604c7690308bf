"""Looks at lanes: each brings some to what their limits allow, as :func:`jobboard.backends.lanes.plan` says.

A transaction that may have freed a slot, or that wants one, looks once it has written its rows. One transaction of a
board looks at a time, so that each sees what the one before it has admitted. A transaction that may not look (another
one does, or it is the user's) lets its rows be due at once; whatever expires and promotes next looks at the lanes of
such rows. So what is committed after a look has a row that is due. A lane that must be looked at later, because of its
rate or because it has too much to do for one look, has a row that is due then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobboard.backends import admission
from jobboard.backends.lanes import MAX_MOVES, LanePlan, LaneView, plan
from jobboard.backends.limits import LaneLimit
from jobboard.backends.rows import JobRow, NewJob
from jobboard.backends.sql import journal_statements, lanes
from jobboard.backends.sql.floors import are_below_floors
from jobboard.backends.sql.journal_lines import journal_event, journal_line, write_events
from jobboard.backends.sql.lane_limits import NEXT_STARTS, PUT_NEXT_START, rules_of, unlimited_lanes
from jobboard.backends.sql.rows import columns_of, job_of, priority_and_moment
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.transition import Transition
from jobboard.events import EventKind
from jobboard.states import JobState

#: Of how many lanes a transaction looks at most; whatever follows it goes on.
MAX_LANES = 100


@dataclass(slots=True)
class _Lane:
    """A lane as it was counted, and what of it is locked."""

    limit: LaneLimit
    claimed: int
    claimable: int
    retrying: int
    last_place: int | None
    blocked: int
    last: list[JobRow] = field(default_factory=list)
    first: list[JobRow] = field(default_factory=list)

    @property
    def held(self) -> int:
        return self.claimed + (self.retrying if self.limit.is_strict else 0)

    @property
    def room(self) -> int:
        """How many jobs fit; negative: how many are too many."""
        return MAX_MOVES if self.limit.running is None else self.limit.running - self.held - self.claimable

    @property
    def wanted(self) -> int:
        """How many BLOCKED jobs a look may need."""
        return min(self.blocked, max(self.room, 0) + 1, lanes.MOST_BLOCKED)

    @property
    def needs_rate(self) -> bool:
        """Whether a look must know what its rate has come to: if jobs wait, or several may have started since."""
        return self.limit.rate is not None and (self.blocked > 0 or self.limit.rate.burst > 1)

    @property
    def may_exchange(self) -> bool:
        """Whether a BLOCKED job may have a better priority than a claimable one."""
        # Those that there is room for wait too if the rate says so.
        next_ones = self.first[0 if self.limit.rate is not None else max(self.room, 0) :]
        if self.last_place is None or not next_ones:
            return False
        return next_ones[0].priority > priority_and_moment(self.last_place)[0]

    @property
    def must_be_seen_again(self) -> bool:
        """Whether rows that others have locked may have to be moved once these have let them go."""
        if self.room < 0:
            return len(self.last) < min(-self.room, self.claimable, MAX_MOVES)
        return len(self.first) < min(self.room, self.blocked, MAX_MOVES)

    def view(self, next_at: float = 0.0, offered: int = 0) -> LaneView[JobRow]:
        # Claimable jobs that others have locked can't be taken back now.
        locked = self.claimable - len(self.last) if len(self.last) < MAX_MOVES and self.room < 0 else 0
        return LaneView(self.held + locked, self.claimable - locked, self.last, self.first, next_at, offered)


class LaneLook:
    """One look at some lanes; only for a transaction that may look.

    :param joined: jobs of these lanes that this transaction lets join them, by their uuids; they are changed in place.
    :param waited: others that it has changed, likewise.
    """

    def __init__(
        self,
        transaction: Transaction,
        wanted: Iterable[str],
        joined: Mapping[str, JobRow],
        waited: Mapping[str, JobRow],
    ) -> None:
        self._transaction = transaction
        self._joined, self._own = joined, {**joined, **waited}
        self._names = list(wanted)
        self._lanes: dict[str, _Lane] = {}
        self._moved: list[tuple[JobRow, Transition[None] | None]] = []
        self._due: list[tuple[JobRow, float]] = []
        #: Lanes that this look has not brought to what their limits allow.
        self.unfinished: set[str] = set()

    def take(self) -> set[str]:
        """Take it; return the lanes that must be looked at again, and have no row that is due for that."""
        self._count()
        self._lock()
        unmarked = {name for name, steps in self._plans().items() if not self._carry_out(name, steps)}
        self._write()
        return unmarked

    def _count(self) -> None:
        rules = rules_of(self._transaction, self._names)
        rows = self._transaction.rows_of_each([lanes.COUNT], [{"lane": name} for name in self._names])
        now = self._transaction.now
        self._lanes = {name: _Lane(rules.of_lane(name).at(now), *counts) for name, *counts in rows}

    def _lock(self) -> None:
        self._lock_blocked({name: lane.wanted for name, lane in self._lanes.items() if lane.blocked})
        exchanging = {name for name, lane in self._lanes.items() if lane.may_exchange}
        self._lock_blocked({name: lanes.MOST_BLOCKED for name in exchanging if self._lanes[name].blocked > 1})
        over = {name for name, lane in self._lanes.items() if lane.room < 0 and lane.claimable}
        for job in self._locked(lanes.LOCK_CLAIMABLE, dict.fromkeys(sorted(over | exchanging), MAX_MOVES)):
            self._lane_of(job).last.append(job)

    def _lock_blocked(self, wanted: Mapping[str, int]) -> None:
        for name in wanted:
            self._lanes[name].first.clear()
        for job in self._locked(lanes.LOCK_BLOCKED, wanted):
            self._lane_of(job).first.append(self._own.get(job.uuid, job))

    def _locked(self, statement: Statement, wanted: Mapping[str, int]) -> list[JobRow]:
        many = [{"lane": name, "limit": limit} for name, limit in wanted.items()]
        return [job_of(row) for row in self._transaction.rows_of_each([statement], many)] if many else []

    def _lane_of(self, job: JobRow) -> _Lane:
        assert job.lane is not None
        return self._lanes[job.lane]

    def _plans(self) -> dict[str, LanePlan[JobRow]]:
        now = self._transaction.now
        rated = [name for name, lane in self._lanes.items() if lane.needs_rate]
        known: dict[str, tuple[float, int]] = {}
        if rated:
            rows = self._transaction.rows(NEXT_STARTS, lanes=self._transaction.list_of(rated))
            known = {name: (next_at, offered) for name, next_at, offered in rows}
        plans = {name: plan(lane.view(*known.get(name, ())), lane.limit, now) for name, lane in self._lanes.items()}
        starts = [
            {"lane": name, "next_at": plans[name].next_at, "offered": plans[name].offered}
            for name in rated
            if (plans[name].next_at, plans[name].offered) != known.get(name, (0.0, 0))
        ]
        self._transaction.run_many(PUT_NEXT_START, starts)
        return plans

    def _carry_out(self, name: str, steps: LanePlan[JobRow]) -> bool:
        """Move the jobs of a lane; return whether a row is due for its next look, if there is to be one."""
        now, lane = self._transaction.now, self._lanes[name]
        self._moved += [(job, admission.withdraw(job, now)) for job in steps.withdraw]
        for job in steps.admit:
            if job.uuid in self._joined:
                admission.admit_at_once(job)
                self._moved.append((job, None))
            else:
                self._moved.append((job, admission.admit(job, now)))
        due_at = now if lane.must_be_seen_again else steps.look_at
        if due_at is None:
            return True
        if due_at <= now:
            self.unfinished.add(name)
        waiting = [job for job in (*steps.withdraw, *lane.first) if job.state is JobState.BLOCKED]
        self._due += [(job, due_at) for job in waiting[:1]]
        return bool(waiting)

    def _write(self) -> None:
        due = [due_by(job, due_at) for job, due_at in self._due]
        with self._transaction.together():
            move_jobs(self._transaction, self._moved)
            self._transaction.run_many(lanes.DUE, due)


def due_by(job: JobRow, moment: float) -> dict[str, Any]:
    """Return the columns of a job that is due at a moment, unless it is due sooner."""
    row = columns_of(job)
    row["due_at"] = moment if row["due_at"] is None else min(moment, row["due_at"])
    return row


def move_jobs(transaction: Transaction, moved: Sequence[tuple[JobRow, Transition[None] | None]]) -> None:
    """Write jobs that were admitted or withdrawn, with what is told of each, if anything is."""
    if not moved:
        return
    rows = [columns_of(job) | {"retain_until": None} for job, _ in moved]
    transaction.is_below_floors |= are_below_floors(rows, transaction.now)
    transaction.run_many(lanes.SAVE, rows)
    lanes.place(transaction, [job for job, _ in moved])
    told = [(job, change) for job, change in moved if change is not None]
    lines = [journal_line(job.sequence, job.uuid, job.name, note) for job, change in told for note in change.history]
    transaction.run_many(journal_statements.WRITE_HISTORY, lines)
    # The other events are no part of a job's history.
    others = [(job, note) for job, change in told for note in change.told if note not in change.history]
    write_events(transaction, [journal_event(note.kind, job.uuid, job.name) for job, note in others])
    transaction.notifies = True


def look_at(
    transaction: Transaction,
    jobs: Mapping[str, JobRow],
    joined: Mapping[str, JobRow],
    waited: Mapping[str, JobRow],
) -> None:
    """Look at lanes, of each of which a job is named that may be due for its next look."""
    names = list(jobs)
    for first in range(0, len(names), MAX_LANES):
        unmarked = LaneLook(transaction, names[first : first + MAX_LANES], joined, waited).take()
        due_now = [due_by(jobs[name], transaction.now) for name in sorted(unmarked)]
        transaction.run_many(lanes.DUE, due_now)


class LaneStep:
    """One atomic step, at whose end the lanes of its changed jobs are looked at."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._may_look: bool | None = None
        self._jobs: dict[str, JobRow] = {}
        self._joined: dict[str, JobRow] = {}
        self._admitted: set[str] = set()
        self._waited: dict[str, JobRow] = {}
        #: What is posted once its jobs are written.
        self.posts: list[NewJob] = []

    def post(self, new: Iterable[JobRow]) -> None:
        """Admit new jobs at once, before they are written, to lanes that no limit is about: these need no look."""
        blocked = [(job, job.joined_lane) for job in new if job.state is JobState.BLOCKED]
        joining = [(job, lane) for job, lane in blocked if lane is not None]
        if not joining or not self._lock():
            return
        free = unlimited_lanes(self._transaction, {lane for _, lane in joining})
        for job, lane in joining:
            if lane in free:
                admission.admit_at_once(job)
                self._admitted.add(job.uuid)

    def look_at(self, jobs: Iterable[JobRow]) -> None:
        """Have the lanes of other jobs looked at too, if this transaction may look at lanes."""
        if self._lock():
            self._jobs |= {job.lane: job for job in jobs if job.lane is not None}

    def _lock(self) -> bool:
        if self._may_look is None:
            self._may_look = self._transaction.moves_others and lanes.lock(self._transaction)
        return self._may_look

    def note_waiting(self, job: JobRow) -> None:
        """Know a job, before it is changed, as one that waits for its lane already, if it does."""
        if job.state is JobState.BLOCKED and job.joined_lane is not None and job.uuid not in self._joined:
            self._waited[job.uuid] = job

    def add(self, job: JobRow, change: Transition[Any], row: dict[str, Any]) -> None:
        """Note a changed job, before it is written.

        :param row: what is written of it; it is due at once if this transaction may not look at lanes.
        """
        if not change.follow or job.lane is None or job.uuid in self._admitted:
            return
        self._jobs[job.lane] = job
        if not self._lock():
            row["due_at"] = self._transaction.now
        has_waited = job.uuid in self._waited or change.told[0].kind is EventKind.REPRIORITIZED
        if job.state is JobState.BLOCKED and job.joined_lane is not None and not has_waited:
            self._joined[job.uuid] = job

    def end(self) -> None:
        """Look at the lanes, once all jobs are written; tell of those that join them and wait."""
        if self._may_look:
            look_at(self._transaction, self._jobs, self._joined, self._waited)
        waiting = [job for job in self._joined.values() if job.state is JobState.BLOCKED]
        notes = [(job, admission.wait_for_lane(job, self._transaction.now)) for job in waiting]
        lines = [journal_line(job.sequence, job.uuid, job.name, note) for job, change in notes for note in change.told]
        self._transaction.run_many(journal_statements.WRITE_HISTORY, lines)
