"""The lanes of a store: which jobs of each hold its slots, and which wait."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable
from itertools import chain, islice, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING

from jobboard.backends import admission
from jobboard.backends.changes import BLOCKED, CLAIMED, UNCLAIMED
from jobboard.backends.lane_rows import LaneRow, LimitRow
from jobboard.backends.lanes import MAX_EXCHANGES, MAX_MOVES, LanePlan, LaneView, is_retrying, plan
from jobboard.backends.limits import UNLIMITED, LaneLimit, Rules, within_rooms
from jobboard.backends.memory.stored_job import StoredJob, sequence_of
from jobboard.backends.ordered import PriorityIndex, SortedKeys

if TYPE_CHECKING:
    from jobboard.backends.memory.store import MemoryStore


class Lane:
    """The jobs of a lane, by their positions or sequences; and what is kept of its rate."""

    __slots__ = ("blocked", "claimable", "claimed", "is_mixed", "look_at", "next_at", "offered", "retrying")

    def __init__(self) -> None:
        self.blocked: PriorityIndex[int] = PriorityIndex()
        self.claimable: SortedKeys[int] = SortedKeys()
        self.claimed: set[int] = set()
        self.retrying: set[int] = set()
        self.next_at = 0.0
        self.look_at: float | None = None
        self.offered = 0
        #: Whether it is known as one that has both claimable and BLOCKED jobs.
        self.is_mixed = False

    def held(self, limit: LaneLimit) -> int:
        """Return how many jobs hold a slot that can't be taken back."""
        return len(self.claimed) + (len(self.retrying) if limit.is_strict else 0)

    def needs_no_look(self, limit: LaneLimit) -> bool:
        """Whether a look would change nothing, as far as this can be told without its jobs: most looks end here."""
        if limit.rate is not None or limit.paused_until is not None:
            return False
        held, running = self.held(limit), limit.running
        if self.blocked.by_name:
            return running is not None and held >= running and not self.claimable
        return running is None or held + len(self.claimable) <= running

    def row(self, name: str, rows: dict[int, StoredJob]) -> LaneRow:
        first = self.blocked.whole.first()
        oldest = None if first is None else rows[sequence_of(first)].place
        return LaneRow(name, len(self.claimed), len(self.claimable), len(self.retrying), len(self.blocked), oldest)


class Lanes:
    """All lanes that have live jobs, or a rate to keep; under the store's lock."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.by_name: dict[str, Lane] = {}
        #: (moment, lane) of every lane that is looked at by time.
        self.timers: SortedKeys[tuple[float, str]] = SortedKeys()
        self.limits: dict[tuple[str, str], LimitRow] = {}
        self.rules = Rules(())
        self._open: dict[str, None] = {}
        self._joined: list[StoredJob] = []
        #: The lanes that have both claimable and BLOCKED jobs.
        self._mixed: SortedKeys[str] = SortedKeys()
        self._last_exchange = ""

    # -- indexes ---------------------------------------------------------------------------------------------------

    def enter(self, row: StoredJob) -> None:
        """Let a job that stands in another index now stand in that of its lane."""
        name = row.joined_lane
        if name is None or not self._store.is_live(row):
            return
        lane = self.by_name.get(name)
        if lane is None:
            lane = self.by_name[name] = Lane()
        if row.state is BLOCKED:
            lane.blocked.add(row.position, row.name)
        elif row.state is UNCLAIMED:
            lane.claimable.add(row.position)
        elif row.state is CLAIMED:
            lane.claimed.add(row.sequence)
        elif is_retrying(row):
            lane.retrying.add(row.sequence)
        self._sort_mixed(name, lane)

    def leave(self, row: StoredJob) -> None:
        """Forget where a job stood in its lane, before it stands elsewhere."""
        name = row.lane
        lane = None if name is None else self.by_name.get(name)
        if name is None or lane is None:
            return
        if row.index is self._store.claimed:
            lane.claimed.discard(row.sequence)
        elif row.index is self._store.unclaimed:
            lane.claimable.remove(row.position)
        elif row.index is not self._store.blocked:
            lane.retrying.discard(row.sequence)
        elif lane.blocked.has(row.position, row.name):
            # One that waited for its parents stood in no lane.
            lane.blocked.remove(row.position, row.name)
        self._sort_mixed(name, lane)

    def _sort_mixed(self, name: str, lane: Lane) -> None:
        is_mixed = bool(lane.blocked.by_name and lane.claimable)
        if is_mixed != lane.is_mixed:
            lane.is_mixed = is_mixed
            if is_mixed:
                self._mixed.add(name)
            else:
                self._mixed.remove(name)

    def clear(self) -> None:
        """Forget where jobs stand; what is kept of rates stays."""
        for lane in self.by_name.values():
            lane.blocked.clear()
            lane.claimable = SortedKeys()
            lane.claimed.clear()
            lane.retrying.clear()
            lane.is_mixed = False
        self._mixed = SortedKeys()

    # -- looks -----------------------------------------------------------------------------------------------------

    def limit_of(self, row: StoredJob | None) -> LaneLimit:
        """Return what holds for the lane of a job."""
        return UNLIMITED if row is None or row.lane is None else self.rules.of_lane(row.lane)

    def has_room(self, row: StoredJob) -> bool:
        """Whether a look would admit a job that joins its lane now: nobody waits there, and no rate must let it."""
        limit = self.limit_of(row)
        lane = None if row.lane is None else self.by_name.get(row.lane)
        is_timed = limit.rate is not None or limit.paused_until is not None
        if is_timed or (lane is not None and lane.blocked.by_name):
            return False
        held = 0 if lane is None else lane.held(limit) + len(lane.claimable)
        return limit.running is None or held < limit.running

    def follow(self, lane: str, row: StoredJob, was_blocked: bool) -> None:
        """Let the next look see a lane, and a job of it that has changed."""
        self._open[lane] = None
        if row.state is BLOCKED and not was_blocked and row.joined_lane is not None:
            self._joined.append(row)

    def look_all(self, now: float) -> None:
        """Look at the lanes of the jobs that a step has changed; then at those whose time has come."""
        if self._open:
            lanes, joined = self._open, {row.uuid: row for row in self._joined}
            self._open, self._joined = {}, []
            for lane in lanes:
                self._look(lane, now, joined)
            for row in joined.values():
                if row.state is BLOCKED:
                    self._store.carry_out(row, admission.wait_for_lane(row, now), now)

    def look_at_due(self, now: float) -> None:
        """Look at the lanes whose time has come, once each."""
        first = self.timers.first()
        if first is not None and first[0] <= now:
            for _, name in list(takewhile(lambda timer: timer[0] <= now, self.timers)):
                self._look(name, now, {})

    def look(self, name: str, now: float) -> bool:
        """Look at a lane; return whether another look is needed at once."""
        self._look(name, now, {})
        lane = self.by_name.get(name)
        return lane is not None and lane.look_at is not None and lane.look_at <= now

    def _look(self, name: str, now: float, joined: dict[str, StoredJob]) -> None:
        lane = self.by_name.get(name)
        if lane is None:
            return
        limit = self.rules.of_lane(name).at(now)
        look_at: float | None = None
        if not lane.needs_no_look(limit):
            steps = plan(self._view(lane, limit), limit, now)
            self._carry_out(steps, now, joined)
            lane.next_at, lane.offered, look_at = steps.next_at, steps.offered, steps.look_at
        is_empty = not (lane.claimed or lane.claimable or lane.blocked.by_name or lane.retrying)
        # An empty one is kept for as long as its rate counts.
        self._set_timer(name, lane, lane.next_at if is_empty and lane.next_at > now else look_at)
        if is_empty and lane.look_at is None:
            del self.by_name[name]

    def _view(self, lane: Lane, limit: LaneLimit) -> LaneView[StoredJob]:
        held, claimable = lane.held(limit), len(lane.claimable)
        last = self._rows(islice(reversed(lane.claimable), MAX_MOVES)) if claimable else []
        count = MAX_MOVES
        if limit.running is not None:
            # What may be admitted, and what may go before one of the last.
            count = min(count, max(0, limit.running - held - claimable) + len(last))
        blocked = self._rows(islice(lane.blocked.whole, count + 1))
        return LaneView(held, claimable, last, blocked, lane.next_at, lane.offered)

    def _rows(self, positions: Iterable[int]) -> list[StoredJob]:
        return [self._store.by_sequence[sequence_of(position)] for position in positions]

    def _carry_out(self, steps: LanePlan[StoredJob], now: float, joined: dict[str, StoredJob]) -> None:
        store = self._store
        for row in steps.withdraw:
            store.carry_out(row, admission.withdraw(row, now), now)
        for row in steps.admit:
            if row.uuid in joined:
                admission.admit_at_once(row)
                store.move(row, store.unclaimed)
            else:
                store.carry_out(row, admission.admit(row, now), now)

    def _set_timer(self, name: str, lane: Lane, at: float | None) -> None:
        if at != lane.look_at:
            if lane.look_at is not None:
                self.timers.remove((lane.look_at, name))
            if at is not None:
                self.timers.add((at, name))
                self._store.notify(None, at)
            lane.look_at = at

    # -- exchanges -------------------------------------------------------------------------------------------------

    def exchange(self, names: frozenset[str] | None, refused: Collection[str | None], most: int, now: float) -> None:
        """Let up to ``most`` blocked jobs that somebody asks for have the slots of claimable ones that it can't claim.

        All others are claimed already. Looks at ``MAX_EXCHANGES`` lanes; the next call goes on behind them.

        :param refused: the names of which no job is granted now.
        """
        count = min(MAX_EXCHANGES, len(self._mixed))
        rooms = {name: self._store.room_of(name) for name in self.rules.names}
        for name in list(islice(chain(self._mixed.after(self._last_exchange), self._mixed), count)):
            self._last_exchange = name
            if most <= 0:
                return
            most -= self._exchange(name, names, refused, rooms, most, now)

    @property
    def may_exchange(self) -> bool:
        """Whether a lane has both claimable and BLOCKED jobs."""
        return len(self._mixed) > 0

    def _exchange(
        self,
        name: str,
        names: frozenset[str] | None,
        refused: Collection[str | None],
        rooms: dict[str, int],
        most: int,
        now: float,
    ) -> int:
        """Exchange jobs of one lane, and return how many; a strict lane keeps its order.

        :param rooms: how many jobs of each limited name may be claimed; those that are admitted are taken off.
        """
        lane = self.by_name[name]
        if self.rules.of_lane(name).is_strict:
            return 0
        waiting = chain.from_iterable(
            islice(order, min(most, rooms.get(job_name, most)))
            for job_name, order in lane.blocked.by_name.items()
            if job_name not in refused and (names is None or job_name in names)
        )
        asked, stuck = heapq.nsmallest(most, waiting), islice(reversed(lane.claimable), most)
        allowed = within_rooms(self._rows(asked), rooms, attrgetter("name"))
        pairs = list(zip(self._rows(stuck), allowed, strict=False))
        self._carry_out(LanePlan([row for row, _ in pairs], [row for _, row in pairs]), now, {})
        return len(pairs)
