"""The listing: what this client knows of every job, in claim order, and of every schedule, in due order."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Collection, Iterator
from itertools import islice, takewhile

from jobboard.backends.base import RETRY_WINDOW
from jobboard.backends.lane_rows import LaneRow
from jobboard.backends.lanes import EXCHANGE_POLL
from jobboard.backends.ordered import (
    PriorityIndex,
    ScheduleOrder,
    first_of_each_span,
    walk,
)
from jobboard.backends.waiter import ConditionWaiter
from jobboard.backends.zookeeper.changes import Listed
from jobboard.backends.zookeeper.codec import NameRules
from jobboard.backends.zookeeper.lane_index import COUNTED_PARTS, LaneIndex, Part, part_of
from jobboard.backends.zookeeper.timers import ListedGuard, ListedMark, Timers
from jobboard.states import LIVE, JobState

#: Above every sequence, and above every moment in milliseconds times that: a priority, the moment at which the job is
#: due, and a sequence make one number.
_SEQUENCES, _MOMENTS = 1 << 80, 1 << 144


class Item:
    """A job, and where it stands. ``zxid`` is the transaction that it is known from."""

    __slots__ = ("due", "index", "lane", "name", "part", "place", "presence", "state", "uuid", "was_claimed", "zxid")

    def __init__(self, listed: Listed, zxid: int) -> None:
        self.uuid = listed.uuid
        self.index: PriorityIndex[int] | None = None
        self.due: float | None = None
        self.learn(listed, zxid)

    def learn(self, listed: Listed, zxid: int) -> None:
        self.name, self.place = listed.name, place_of(listed)
        self.state, self.presence, self.zxid = listed.state, listed.presence, zxid
        self.lane, self.was_claimed = listed.lane, listed.was_claimed
        self.part = part_of(listed.state, listed.was_claimed)

    @property
    def priority(self) -> int:
        return -(self.place // _MOMENTS)

    @property
    def became_due(self) -> float:
        """The moment at which it became due, to the millisecond."""
        return self.place % _MOMENTS // _SEQUENCES / 1000


def place_of(listed: Listed) -> int:
    """Return where a job stands: a lower place is claimed earlier."""
    moment = max(0, round(listed.place * 1000))
    return listed.sequence + moment * _SEQUENCES - listed.priority * _MOMENTS


def last_place(priority: int) -> int:
    """Return a place behind those of all jobs of a priority that are posted."""
    return _MOMENTS - _SEQUENCES - priority * _MOMENTS


class ScheduleIndex:
    """The schedules; every method is called under the listing's lock."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.order = ScheduleOrder()
        #: Each schedule's place, and the transaction that it is known from; None for one that was deleted.
        self._known: dict[str, tuple[tuple[float, str] | None, int]] = {}
        self._deleted: set[str] = set()

    def put(self, id: str, next_at: float | None, zxid: int) -> None:
        self._move(id, self.order.place(next_at, id), zxid)

    def drop(self, id: str, zxid: int) -> None:
        self._move(id, None, zxid)

    def _move(self, id: str, place: tuple[float, str] | None, zxid: int) -> None:
        before, known = self._known.get(id, (None, -1))
        if known >= zxid:
            return
        if before is not None:
            self.order.remove(before)
        if place is not None:
            self.order.add(place)
            self._deleted.discard(id)
        else:
            self._deleted.add(id)
        self._known[id] = (place, zxid)

    def forget_deleted(self) -> None:
        """Forget what was deleted, once every older change is known."""
        for id in self._deleted:
            del self._known[id]
        self._deleted.clear()


class Listing:
    """Every method is called under :attr:`lock`, which no thread holds while it waits for a server."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.waiters: set[ConditionWaiter] = set()
        self.schedules = ScheduleIndex()
        #: Every look at the board reads it again, so :meth:`clear` leaves it.
        self.rules = NameRules()
        self.clear()

    def clear(self) -> None:
        #: Whether a change was interrupted halfway, as by what a signal's handler raises: then it must be listed anew.
        self.is_torn = False
        self.items: dict[str, Item] = {}
        self.by_place: dict[int, Item] = {}
        self.indexes: dict[JobState, PriorityIndex[int]] = {state: PriorityIndex() for state in JobState}
        self.lanes = LaneIndex()
        #: By lane: when it must be looked at.
        self.guards = Timers()
        #: By parent: when its edges are to be told how it stands.
        self.marks = Timers()
        #: (moment, place) of every live job that time changes.
        self.timers: PriorityIndex[tuple[float, int]] = PriorityIndex()
        #: (moment, uuid) of every COMPLETE job: when it is hidden, and when it can be deleted.
        self.retained: list[tuple[float, str]] = []
        self.remembered: list[tuple[float, str]] = []
        self.by_presence: dict[str, set[str]] = {}
        #: The transaction that deleted a job; an older change must not bring it back.
        self.deleted_at: dict[str, int] = {}
        self.schedules.clear()

    # -- changes ---------------------------------------------------------------------------------------------------

    def put(self, listed: Listed, zxid: int) -> None:
        """Learn how a job stands after a transaction; what is newer is kept."""
        item = self.items.get(listed.uuid)
        if (self.deleted_at.get(listed.uuid, 0) if item is None else item.zxid) >= zxid:
            return
        was_torn, self.is_torn = self.is_torn, True
        was_claimed = False
        if item is None:
            item = self.items[listed.uuid] = Item(listed, zxid)
        else:
            was_claimed = item.state is JobState.CLAIMED
            self._unlink(item)
            item.learn(listed, zxid)
        self._link(item, listed.due)
        if was_claimed and item.state is not JobState.CLAIMED and item.name in self.rules.running:
            self.notify(item.name, 0.0)
        self.is_torn = was_torn

    def drop(self, uuid: str, zxid: int) -> None:
        """Forget a job that a transaction deleted."""
        self.deleted_at[uuid] = zxid
        item = self.items.get(uuid)
        if item is not None and item.zxid <= zxid:
            was_torn, self.is_torn = self.is_torn, True
            self._unlink(item)
            del self.items[uuid]
            self.is_torn = was_torn

    def forget_deleted(self) -> None:
        """Forget what was deleted, once every older change is known."""
        self.deleted_at.clear()
        self.schedules.forget_deleted()
        self.guards.forget_gone()
        self.marks.forget_gone()

    def _link(self, item: Item, due: float | None) -> None:
        state = item.state
        while item.place in self.by_place:
            # A damaged job may have the place of another one.
            item.place += 1
        item.index = index = self.indexes[state]
        index.add(item.place, item.name)
        self.by_place[item.place] = item
        self.lanes.add(item)
        if state is JobState.COMPLETE:
            moment = due or 0.0
            heapq.heappush(self.retained, (moment, item.uuid))
            heapq.heappush(self.remembered, (moment + RETRY_WINDOW, item.uuid))
            return
        if due is not None:
            item.due = due
            self.timers.add((due, item.place), item.name)
        if state is JobState.CLAIMED and item.presence is not None:
            self.by_presence.setdefault(item.presence, set()).add(item.uuid)
        if state is JobState.UNCLAIMED:
            self.notify(item.name, 0.0)
        elif due is not None:
            self.notify(item.name, due)
        elif state is JobState.BLOCKED and item.lane is not None:
            for waiter in tuple(self.waiters):
                waiter.notify_of_blocked(item.name)

    def _unlink(self, item: Item) -> None:
        if item.index is not None:
            item.index.remove(item.place, item.name)
            item.index = None
        self.by_place.pop(item.place, None)
        self.lanes.remove(item)
        if item.due is not None:
            self.timers.remove((item.due, item.place), item.name)
            item.due = None
        if item.presence is not None:
            held = self.by_presence.get(item.presence)
            if held is not None:
                held.discard(item.uuid)
                if not held:
                    del self.by_presence[item.presence]

    # -- looks -----------------------------------------------------------------------------------------------------

    def hide(self, now: float) -> None:
        """Stop showing completed jobs whose retention is over."""
        while self.retained and self.retained[0][0] <= now:
            _, uuid = heapq.heappop(self.retained)
            item = self.items.get(uuid)
            if item is not None and item.state is JobState.COMPLETE and item.index is not None:
                item.index.remove(item.place, item.name)
                item.index = None

    def forgettable(self, now: float, limit: int) -> list[str]:
        """Take out up to ``limit`` completed jobs that need not be remembered any more."""
        found: list[str] = []
        while len(found) < limit and self.remembered and self.remembered[0][0] <= now:
            _, uuid = heapq.heappop(self.remembered)
            item = self.items.get(uuid)
            if item is not None and item.state is JobState.COMPLETE:
                found.append(uuid)
        return found

    def remember(self, uuids: list[str], now: float) -> None:
        """Put back what :meth:`forgettable` took out and could not be deleted."""
        for uuid in uuids:
            heapq.heappush(self.remembered, (now, uuid))

    def page(
        self,
        states: Collection[JobState],
        names: frozenset[str] | None,
        after: int | None,
        size: int,
        paused: frozenset[str | None] = frozenset(),
    ) -> dict[int, str]:
        """Return the places and uuids of the next jobs in these states, in claim order; not of paused names."""
        orders = [order for state in states for order in self.indexes[state].orders(names, paused)]
        return {place: self.by_place[place].uuid for place in islice(walk(orders, after), size)}

    def due(self, now: float, limit: int | None = None) -> list[str]:
        """Return jobs whose moment has come."""
        moments = takewhile(lambda timer: timer[0] <= now, islice(self.timers.whole, limit))
        return [self.by_place[place].uuid for _, place in moments]

    def ready(self, names: frozenset[str] | None, count: int) -> list[Item]:
        """Return the best jobs that can be claimed, of a limited name no more than it has room for."""
        if None in self.rules.paused:
            return []
        index, room = self.indexes[JobState.UNCLAIMED], self.room(names)
        places = walk(index.orders(names, {*self.rules.paused, *room} if room else self.rules.paused))
        if room:
            places = heapq.merge(places, *(islice(index.by_name[name], most) for name, most in room.items()))
        return [self.by_place[place] for place in islice(places, count)]

    def room(self, names: frozenset[str] | None) -> dict[str, int]:
        """Return how many more claims limited names may have, of these names, that have claimable jobs."""
        ready = self.indexes[JobState.UNCLAIMED].by_name
        return {
            name: self.room_of(name)
            for name in self.rules.running
            if name in ready and name not in self.rules.paused and (names is None or name in names)
        }

    def room_of(self, name: str) -> int:
        """Return how many more claims a limited name may have."""
        return max(0, self.rules.running[name] - len(self.indexes[JobState.CLAIMED].by_name.get(name, ())))

    @property
    def closed(self) -> frozenset[str | None]:
        """The names of which no job can be claimed: they are paused, or full. None stands for the whole board."""
        running = self.rules.running
        return (
            self.rules.paused.union(name for name in running if not self.room_of(name))
            if running
            else self.rules.paused
        )

    def of_lane(self, lane: str) -> list[str]:
        """Return the live jobs of a lane."""
        return [self.by_place[place].uuid for part in Part for place in self.lanes.places(lane, part)]

    def lane_row(self, lane: str) -> LaneRow:
        """Return how many live jobs a lane has."""
        claimed, claimable, retrying, blocked = (self.lanes.count(lane, part) for part in COUNTED_PARTS)
        first = next(self.lanes.places(lane, Part.BLOCKED), None)
        oldest = None if first is None else self.by_place[first].became_due
        return LaneRow(lane, claimed, claimable, retrying, blocked, oldest)

    def next_ready(self, names: frozenset[str] | None, now: float) -> float | None:
        """Return the moment at which a job of these names can be claimed, or may be; None if none is in sight."""
        if None in self.rules.paused:
            return None
        outlook = self.outlook(names)
        if outlook is JobState.UNCLAIMED:
            return now
        # The end of a claim makes room for its name, too.
        timer = self.timers.first(names, self.rules.paused)
        moments = [None if timer is None else timer[0], self.guards.next_due(), self.marks.next_due()]
        if outlook is JobState.BLOCKED:
            # Whoever holds the slots of its lane may end, and then a job be admitted that can't be claimed.
            moments.append(now + EXCHANGE_POLL)
        return min((at for at in moments if at is not None), default=None)

    def outlook(self, names: frozenset[str] | None) -> JobState | None:
        """Return UNCLAIMED if a job of these names can be claimed, BLOCKED if one waits that is in a lane perhaps."""
        if None in self.rules.paused:
            return None
        if self.indexes[JobState.UNCLAIMED].first(names, self.closed) is not None:
            return JobState.UNCLAIMED
        is_any_blocked = self.lanes.has_jobs and self.indexes[JobState.BLOCKED].first(names, self.closed) is not None
        return JobState.BLOCKED if is_any_blocked else None

    def put_guard(self, guard: ListedGuard, zxid: int) -> None:
        """Learn how the guard of a lane stands after a transaction; what is newer is kept."""
        is_news = self.guards.put(guard.lane, guard.look_at, zxid, is_gone=not guard.exists)
        if is_news and guard.look_at is not None:
            self.notify(None, guard.look_at)

    def put_mark(self, mark: ListedMark, zxid: int) -> None:
        """Learn how the mark of a parent stands after a transaction; what is newer is kept."""
        if self.marks.put(mark.parent, mark.due, zxid, is_gone=mark.due is None) and mark.due is not None:
            self.notify(None, mark.due)

    def unused_guards(self, limit: int) -> list[str]:
        """Return lanes that have a guard and no live job."""
        return list(islice((lane for lane in self.guards.present() if lane not in self.lanes), limit))

    def heads(self) -> Iterator[Item]:
        """Iterate over the oldest unclaimed job of each priority."""
        return map(self.by_place.__getitem__, first_of_each_span(self.indexes[JobState.UNCLAIMED].whole, _MOMENTS))

    def count(self) -> int:
        return sum(len(self.indexes[state]) for state in LIVE)

    # -- waiters ---------------------------------------------------------------------------------------------------

    def notify(self, name: str | None, at: float) -> None:
        """Tell the waiters that a job of this name (None: any) may be ready at that moment."""
        for waiter in tuple(self.waiters):
            waiter.notify(name, at)
