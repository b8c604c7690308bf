"""Lets shards take turns with the slots of a name's limit that is below their number (:mod:`.slots`).

Any client takes these steps, and goes on with what another one has begun. Each step may be repeated, and may come late:

- A shard is told of its share on condition of the version that it had *before* the slot was read. Whoever takes the
  slot away writes that down first, and then writes another version to the shard. So a late step finds either the slot
  gone, or another version.
- A slot that a shard has left is free once the shard knows that it has none and runs no job of the name.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import islice

from jobboard.backends.base import Backend
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.homes import Homes
from jobboard.backends.shards.ledger import Ledger
from jobboard.backends.shards.pages import pages_of
from jobboard.backends.shards.shares import Shares, share_of
from jobboard.backends.shards.slots import Demand, NameLimit, Slots, Stage, turn, with_slots
from jobboard.errors import BoardUnavailable
from jobboard.states import JobState
from jobboard.validation import new_uuid

logger = logging.getLogger("jobboard.backends.shards")

#: Seconds between two turns of a name; and between two looks of a client whether there are limits that need turns.
TURN_INTERVAL, LOOK_INTERVAL = 1.0, 20.0

#: About how many clients together look in each interval of turns.
_LOOKS_AT_A_TURN = 8

#: How many shards a turn asks whether jobs wait, of many: so each is asked within 16 seconds. And at least.
_PART_OF_SHARDS, _MIN_ASKED = 16, 4

#: How often a shard is told of its share again because others change it meanwhile.
_MAX_TRIES = 20

#: Up to so many waiting jobs of a shard are counted.
_MAX_COUNTED = 16

#: How many pages of jobs are read to find one that waits for its lane, and how many jobs each has.
_MAX_PAGES, _PAGE = 100, 100

_UNCLAIMED, _BLOCKED, _RUNNING = (
    frozenset({state}) for state in (JobState.UNCLAIMED, JobState.BLOCKED, JobState.CLAIMED)
)


class Turns:
    """What the conductors do beside their claims, and others do when a claim comes short."""

    def __init__(self, fleet: Fleet, ledger: Ledger, homes: Homes) -> None:
        self._fleet, self._ledger, self._homes = fleet, ledger, homes
        self._shares = Shares(fleet)
        #: When this client looks again whether there are limits that need turns, by its own clock.
        self.look_again_at = -math.inf

    # -- when ------------------------------------------------------------------------------------------------------

    @property
    def interval(self) -> float:
        """Seconds between two looks while there are such limits."""
        return max(TURN_INTERVAL, TURN_INTERVAL * self._homes.owners / _LOOKS_AT_A_TURN)

    def take_when_due(self) -> list[int]:
        """Take the turns that nobody has taken for a while; return the shards that have got a slot."""
        now = time.monotonic()
        if now < self.look_again_at:
            return []
        self.look_again_at = now + LOOK_INTERVAL
        return _unless_away(lambda: self._take_due(now))

    def _take_due(self, now: float) -> list[int]:
        entries = self._with_slots(None)
        if not entries:
            return []
        self.look_again_at = now + self.interval
        moment = self._now()
        due = [name for name, entry in entries.items() if not 0 <= moment - entry.turned_at < TURN_INTERVAL]
        asked = max(_MIN_ASKED, math.ceil(len(self._fleet.present) / _PART_OF_SHARDS))
        return [number for name in due for number in self.take(name, asked)]

    def take_now(self, names: Collection[str] | None) -> list[int]:
        """Take the turns of these names (None: of all), asking all shards; return those that have got a slot."""
        return _unless_away(lambda: [number for name in self._with_slots(names) for number in self.take(name)])

    def let_run(self, name: str, number: int) -> bool:
        """Let a shard have a slot before all others; return whether it has got one."""
        return number in _unless_away(
            lambda: [got for each in self._with_slots({name}) for got in self.take(each, first=number)]
        )

    def _with_slots(self, names: Collection[str] | None) -> dict[str, NameLimit]:
        entries = self._ledger.read()
        return {
            name: entry
            for name, entry in entries.items()
            if entry.slots is not None and (names is None or name in names)
        }

    def _now(self) -> float:
        return self._fleet.ask(self._fleet.present[0], lambda shard: shard.now())

    # -- turns -----------------------------------------------------------------------------------------------------

    def take(self, name: str, asked: int | None = None, first: int | None = None) -> list[int]:
        """Take one turn of a name, whose limit need not have slots; return the shards that have got one.

        :param asked: how many shards are asked whether jobs wait; None: all.
        :param first: the shard that is asked first, if it has none.
        """
        entry = self._free(name, self._ledger.get(name))
        if entry is None or entry.slots is None:
            return []
        demands, ask_next = self._demands(name, entry, asked, entry.ask_next if first is None else first)
        now = self._now()

        def take(there: NameLimit | None) -> NameLimit | None:
            if there is None or there.slots is None:
                return there
            new = turn(there, demands, now)
            # Who wants a slot and gets none is asked first the next time.
            left = (number for number, demand in demands.items() if demand.waiting and number not in (new.slots or {}))
            return replace(new, turned_at=now, ask_next=next(left, ask_next))

        entry = self._ledger.change(name, take)
        if _having(entry, Stage.LEAVING):
            self._free(name, entry)
            entry = self._ledger.change(name, take)
        return self._tell_granted(name, entry)

    def _demands(self, name: str, entry: NameLimit, asked: int | None, first: int) -> tuple[dict[int, Demand], int]:
        """Ask some shards without slots, in turn, and those with slots if any of these needs one."""
        count, slots = self._fleet.count, entry.slots or {}
        around = [(first + step) % count for step in range(count)]
        others = [number for number in around if self._can_ask(number) and number not in slots][:asked]
        most = min(entry.running, _MAX_COUNTED)
        demands = {number: Demand(self._waiting(number, name, most), 0) for number in others}
        # With room left, those with slots may use it.
        if entry.free > 0 or any(demand.waiting for demand in demands.values()):
            for number in filter(self._can_ask, slots):
                running = self._count(number, _RUNNING, name, slots[number].count)
                demands[number] = Demand(self._waiting(number, name, most), running)
        return demands, (others[-1] + 1) % count if others else entry.ask_next

    def _can_ask(self, number: int) -> bool:
        return number in self._fleet.present and not self._fleet.health.is_down(number)

    def _tell_granted(self, name: str, entry: NameLimit | None) -> list[int]:
        granted = [(number, slots) for number, slots in _having(entry, Stage.GRANTED) if self._can_ask(number)]
        return [number for number, slots in granted if self._tell(name, number, slots)]

    def _free(self, name: str, entry: NameLimit | None) -> NameLimit | None:
        """Let shards know that slots have left them, and free those that none of their jobs has any more."""
        for number, slots in _having(entry, Stage.LEAVING):
            if self._can_ask(number):
                self._tell(name, number, slots)
        entry = self._ledger.get(name)
        for number, slots in _having(entry, *Stage):
            if number not in self._fleet.present:
                # Nothing is left there.
                entry = self._change_slots(name, number, slots, None)
            elif slots.stage is Stage.EMPTYING and self._can_ask(number):
                running = self._count(number, _RUNNING, name, slots.count)
                entry = self._change_slots(name, number, slots, slots.with_running(running))
        return entry

    def _tell(self, name: str, number: int, slots: Slots) -> bool:
        """Tell a shard how many slots it has, and note that it knows; return False if it has others by now."""
        for _ in range(_MAX_TRIES):
            version = self._shares.version(number, ("name", name))
            # After the version was read.
            entry = self._ledger.get(name)
            if entry is None or (entry.slots or {}).get(number) != slots:
                return False
            if self._shares.put(number, share_of(entry.row, new_uuid(), slots.left), version):
                self._change_slots(name, number, slots, slots.told())
                return True
        raise BoardUnavailable(f"others change the limit of the name {name!r} all the time; try again")

    def _change_slots(self, name: str, number: int, old: Slots, new: Slots | None) -> NameLimit | None:
        """Note what has become of a shard's slots, unless they are others by now."""

        def change(entry: NameLimit | None) -> NameLimit | None:
            if entry is None or old == new or (entry.slots or {}).get(number) != old:
                return entry
            return with_slots(entry, number, new)

        return self._ledger.change(name, change)

    # -- jobs ------------------------------------------------------------------------------------------------------

    def _waiting(self, number: int, name: str, most: int) -> int:
        """Return how many jobs wait for a slot there, or give way to others in their lanes; at most so many."""
        count = self._count(number, _UNCLAIMED, name, most)
        return count or self._fleet.ask(number, lambda shard: _is_any_in_a_lane(shard, name))

    def _count(self, number: int, states: Collection[JobState], name: str, most: int) -> int:
        """Return how many jobs of a name a shard has; at most so many."""
        return self._fleet.ask(number, lambda shard: _count_on(shard, states, name, most))


def _unless_away(take: Callable[[], list[int]]) -> list[int]:
    """Return the shards that have got a slot; none if a store is away: whoever looks next goes on."""
    try:
        return take()
    except BoardUnavailable as error:
        logger.debug("nobody moved slots of limits of names: %s", error)
        return []


def _having(entry: NameLimit | None, *stages: Stage) -> list[tuple[int, Slots]]:
    slots = {} if entry is None else entry.slots or {}
    return [(number, each) for number, each in slots.items() if each.stage in stages]


def _count_on(shard: Backend, states: Collection[JobState], name: str, most: int) -> int:
    # A page without any may not be the last.
    pages = pages_of(lambda cursor: shard.jobs.page(states, frozenset({name}), cursor, most))
    return sum(1 for _ in islice((row for page in pages for row in page.rows), most))


def _is_any_in_a_lane(shard: Backend, name: str) -> bool:
    """Whether a job waits for its lane, and not for its parents; yes also if nobody knows, behind 10,000 of those."""
    pages = pages_of(lambda cursor: shard.jobs.page(_BLOCKED, frozenset({name}), cursor, _PAGE))
    for page in islice(pages, _MAX_PAGES):
        if any(row.joined_lane is not None for row in page.rows):
            return True
        if page.cursor is None:
            return False
    # A slot that nobody needs there goes on with a later turn.
    return True
