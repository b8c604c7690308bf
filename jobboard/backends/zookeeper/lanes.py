"""Looks at lanes: what a step makes of them, beside the changes of its own jobs.

A step that changes a limited lane sets its guard, which was read before the log. So the listing, by which the lane is
looked at, knows everything that had happened to the lane when its guard was as the step expects it. What limits there
are is checked too: nothing of a lane is written under a limit that is another one by now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import NamedTuple

from jobboard.backends import admission
from jobboard.backends.changes import BLOCKED, UNCLAIMED
from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.lanes import MAX_MOVES, LanePlan, LaneView, plan
from jobboard.backends.limits import LaneLimit, within_rooms
from jobboard.backends.zookeeper.change_log import ChangeLogReader
from jobboard.backends.zookeeper.changes import listed
from jobboard.backends.zookeeper.codec import Guard, decode_guard
from jobboard.backends.zookeeper.errors import Conflict
from jobboard.backends.zookeeper.job_reader import JobReader
from jobboard.backends.zookeeper.lane_index import Part, part_of
from jobboard.backends.zookeeper.lane_limits import KnownLimits, LaneLimits
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.listing import Listing, last_place, place_of
from jobboard.backends.zookeeper.requests import BAD_VERSION
from jobboard.backends.zookeeper.stored_job import StoredJob
from jobboard.states import JobState

#: How many BLOCKED jobs of a lane a look for an exchange passes at most.
MAX_ASKED = 1000


class Candidate(NamedTuple):
    """A job that a look may move; ``job`` is it if the step changes it anyway, else it is still to be read."""

    place: int
    priority: int
    token: int
    uuid: str
    job: StoredJob | None = None


@dataclass(slots=True)
class LaneStep:
    """A lane in a step: its limit, as of a version of ``paused``, and what its guard is to hold.

    ``deletions`` is how many times anything had been deleted before the guard was read: a guard that is deleted and
    made again has the same versions. ``version`` is that of the guard, which held ``stored``; None if there is none.
    ``moved`` are jobs that the look admits or withdraws, but for those that the step changes anyway.
    """

    text: str
    limit: LaneLimit
    rules: int
    deletions: int
    is_guarded: bool = False
    version: int | None = None
    stored: Guard | None = None
    guard: Guard | None = None
    must_look_again: bool = False
    moved: list[StoredJob] = field(default_factory=list)

    @property
    def is_changed(self) -> bool:
        """Whether a look at it is to be written, if no job of it is."""
        before = self.stored or Guard(self.text)
        return bool(self.moved) or (self.guard is not None and self.guard != before)


#: A lane, what a look at it does, and its jobs that the step changes.
_Planned = tuple[LaneStep, LanePlan[Candidate], Sequence[StoredJob]]


class Lanes:
    """Reads guards in the request that catches up with the board, and in another one the jobs that a look moves."""

    def __init__(
        self,
        layout: Layout,
        clock: ServerClock,
        listing: Listing,
        change_log: ChangeLogReader,
        reader: JobReader,
        limits: LaneLimits,
    ) -> None:
        self._layout, self._clock, self._listing = layout, clock, listing
        self._change_log, self._reader, self._limits = change_log, reader, limits

    def limit(self, jobs: Iterable[StoredJob | None]) -> KnownLimits | None:
        """Tell jobs the limits of their lanes, and return those; None if no job has a lane."""
        tied = [(job, job.lane) for job in jobs if job is not None and job.lane is not None]
        if not tied:
            return None
        known = self._limits.of({lane for _, lane in tied})
        for job, lane in tied:
            job.limit = known.by_lane[lane]
        return known

    def look(self, known: KnownLimits, changed: Mapping[str, Sequence[StoredJob]]) -> list[LaneStep]:
        """Look at lanes after these changes of their jobs, and carry out on the jobs what each look does.

        :param changed: none of a lane: the look is the step.
        :raises Conflict: a job is not as the listing has it.
        """
        lanes = [LaneStep(lane, known.by_lane[lane], known.version, self._reader.deletions) for lane in changed]
        with self._listing.lock:
            for lane in lanes:
                lane.is_guarded = lane.limit.may_block or self._listing.guards.has_moment(lane.text)
        looked = []
        for lane in lanes:
            if lane.is_guarded or not changed[lane.text]:
                looked.append(lane)
                continue
            for job in changed[lane.text]:
                # Without a limit nobody waits: those that do are left to whoever has removed the limit.
                if job.state is BLOCKED and job.joined_lane is not None:
                    self._admit(job)
        self._read_guards(looked)
        self._move([self._plan(lane, changed[lane.text]) for lane in looked])
        return lanes

    def look_after(
        self, changed: Sequence[StoredJob], also: Sequence[StoredJob] = (), known: KnownLimits | None = None
    ) -> list[LaneStep]:
        """Look at all lanes of jobs that a step has changed.

        :param also: jobs that the step writes, but has not moved in their lanes.
        :param known: the limits by which the jobs were changed.
        :raises Conflict: a job, or a limit, is another one by now.
        """
        tied: dict[str, dict[str, StoredJob]] = {}
        for job in changed:
            # A new job that waits for a parent has not been in its lane yet.
            if job.followed_lane is not None and (job.zxid or job.joined_lane is not None):
                tied.setdefault(job.followed_lane, {})[job.uuid] = job
        limits = self.limit([job for jobs in tied.values() for job in jobs.values()])
        if limits is None:
            return []
        if known is not None and known.version != limits.version:
            raise Conflict(self._layout.paused, BAD_VERSION)
        for job in also:
            if job.joined_lane in tied:
                tied[job.joined_lane].setdefault(job.uuid, job)
        return self.look(limits, {lane: list(jobs.values()) for lane, jobs in tied.items()})

    def exchange(
        self, known: KnownLimits, lanes: Sequence[str], names: frozenset[str] | None, most: int
    ) -> list[LaneStep]:
        """Let up to ``most`` BLOCKED jobs of these names have the slots of jobs that can't be claimed under them.

        A strict lane keeps its order.

        :raises Conflict: a job is not as the listing has it.
        """
        limits = known.by_lane
        free = [lane for lane in lanes if limits[lane].may_block and not limits[lane].is_strict]
        steps = [LaneStep(lane, limits[lane], known.version, self._reader.deletions, is_guarded=True) for lane in free]
        self._read_guards(steps)
        planned = list[_Planned]()
        with self._listing.lock:
            rooms = {name: self._listing.room_of(name) for name in self._listing.rules.running}
        for lane in steps:
            moves = self._exchanges(lane.text, names, rooms, most)
            if moves.admit:
                lane.guard = lane.stored or Guard(lane.text)
                planned.append((lane, moves, ()))
                most -= len(moves.admit)
        self._move(planned)
        return [lane for lane, _, _ in planned]

    def _exchanges(
        self, lane: str, names: frozenset[str] | None, rooms: dict[str, int], most: int
    ) -> LanePlan[Candidate]:
        """Plan exchanges of one lane; the jobs that are admitted are taken off the rooms of their names."""
        with self._listing.lock:
            closed, index, by_place = self._listing.closed, self._listing.lanes, self._listing.by_place
            wanted = set(index.places_of(lane, Part.CLAIMABLE, names, closed))
            stuck = (place for place in index.last(lane) if place not in wanted)
            blocked = islice(index.places_of(lane, Part.BLOCKED, names, closed), MAX_ASKED)
            asked = within_rooms(blocked, rooms, lambda place: by_place[place].name)
            pairs = list(islice(zip(stuck, asked, strict=False), most))
            withdrawn, admitted = ([pair[side] for pair in pairs] for side in (0, 1))
            return LanePlan(self._candidates(withdrawn, (), most), self._candidates(admitted, (), most))

    def note_conflict(self, conflict: Conflict) -> None:
        """Learn what kept a step of lanes from happening."""
        if conflict.path == self._layout.paused:
            self._limits.doubt()
        elif conflict.path == self._layout.deleted:
            self._reader.read_deletions()

    def _read_guards(self, lanes: Sequence[LaneStep]) -> None:
        """Read the guards of those lanes that have one, and then catch up with the board."""
        if not lanes:
            return
        guarded = [lane for lane in lanes if lane.is_guarded]
        found = self._change_log.refresh(before=[self._layout.lane(lane.text) for lane in guarded])
        for lane, data in zip(guarded, found, strict=True):
            if data is not None:
                lane.version, lane.stored = data.stat.version, decode_guard(data.data)

    # -- plans -----------------------------------------------------------------------------------------------------

    def _plan(self, lane: LaneStep, rows: Sequence[StoredJob]) -> _Planned:
        """Plan a look, and what the guard holds then."""
        now = self._clock.now()
        steps = plan(self._view(lane, rows), lane.limit, now)
        lane.must_look_again = steps.look_at is not None and steps.look_at <= now
        if lane.is_guarded:
            lane.guard = Guard(lane.text, steps.next_at or None, steps.look_at, steps.offered)
        return lane, steps, rows

    def _view(self, lane: LaneStep, rows: Sequence[StoredJob]) -> LaneView[Candidate]:
        """Return a lane as it is once these jobs of it are changed."""
        changed = {row.uuid for row in rows}
        with self._listing.lock:
            items = [self._listing.items.get(uuid) for uuid in changed]
            before = Counter(item.part for item in items if item is not None and item.lane == lane.text)
            counts = {part: self._listing.lanes.count(lane.text, part) - before[part] for part in Part}
            wanted = MAX_MOVES + 1 + len(rows)
            blocked = self._candidates(self._listing.lanes.places(lane.text, Part.BLOCKED), changed, wanted)
            last = self._candidates(self._listing.lanes.last(lane.text), changed, wanted)
        # What waits for a parent or a signal has left the lane, or not joined it yet.
        for row in (row for row in rows if row.joined_lane is not None):
            part = part_of(row.state, row.token != 0)
            if part is not None:
                counts[part] += 1
            if part is Part.BLOCKED:
                blocked.append(_candidate(row))
            elif part is Part.CLAIMABLE:
                last.append(_candidate(row))
        held = counts[Part.CLAIMED] + (counts[Part.RETRYING] if lane.limit.is_strict else 0)
        blocked.sort()
        last.sort(reverse=True)
        guard = lane.stored or Guard(lane.text)
        return LaneView(held, counts[Part.CLAIMABLE], last, blocked, guard.next_at or 0.0, guard.offered)

    def _candidates(self, places: Iterable[int], without: Collection[str], count: int) -> list[Candidate]:
        items = map(self._listing.by_place.__getitem__, islice(places, count))
        return [
            Candidate(item.place, item.priority, int(item.was_claimed), item.uuid)
            for item in items
            if item.uuid not in without
        ]

    # -- moves -----------------------------------------------------------------------------------------------------

    def _move(self, planned: Sequence[_Planned]) -> None:
        """Carry out plans on the jobs, of which those are read that no step changes anyway."""
        moves = [move for _, steps, _ in planned for move in (*steps.withdraw, *steps.admit)]
        unread = [move.uuid for move in moves if move.job is None]
        jobs = dict(zip(unread, self._reader.read_jobs(unread), strict=True)) if unread else {}
        for lane, steps, rows in planned:
            for move, state in (
                *((one, UNCLAIMED) for one in steps.withdraw),
                *((one, BLOCKED) for one in steps.admit),
            ):
                job = move.job
                if job is None:
                    job = self._checked(move.uuid, jobs[move.uuid], lane.text, state)
                    lane.moved.append(job)
                if state is UNCLAIMED:
                    job.apply(partial(admission.withdraw, job, self._clock.now()), self._clock.now())
                else:
                    self._admit(job)
            withdrawn = {move.uuid for move in steps.withdraw}
            for row in rows:
                is_new = row.state is BLOCKED and row.joined_lane is not None and not row.was_blocked
                if is_new and row.uuid not in withdrawn:
                    row.apply(partial(admission.wait_for_lane, row, self._clock.now()), self._clock.now())

    def _checked(self, uuid: str, job: StoredJob | None, lane: str, state: JobState) -> StoredJob:
        """Return a job that was read, if it is as the listing has it; otherwise the listing learns how it is."""
        if job is not None and job.state is state and job.joined_lane == lane:
            return job
        self._change_log.correct(uuid, job)
        raise Conflict(self._layout.job(uuid), BAD_VERSION)

    def _admit(self, job: StoredJob) -> None:
        if job.was_blocked:
            job.apply(partial(admission.admit, job, self._clock.now()), self._clock.now())
        else:
            admission.admit_at_once(job)


def _candidate(job: StoredJob) -> Candidate:
    """Return a job that the step changes; one that is not posted yet comes behind those that are."""
    place = place_of(listed(job)) if job.zxid else last_place(job.priority) + job.index
    return Candidate(place, job.priority, job.token, job.uuid, job)
