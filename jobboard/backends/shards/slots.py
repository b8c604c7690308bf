"""The limit of a name that is below the number of shards: which of them may run its jobs just now. Pure.

Such a limit is so many *slots*, and a shard may run as many jobs of the name as it has of them. A slot is written down
as a shard's before the shard learns of it. It is another one's only once its shard knows that it has lost it, and runs
no more jobs than it has slots left. So there never are more slots than the limit says, and each job that runs has one,
whoever is killed or paused meanwhile.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgpack

from jobboard.backends.lane_rows import LimitRow
from jobboard.backends.limits import pack_limit, unpack_limit

#: Seconds after which a shard whose jobs wait gives its slot to another one whose jobs wait.
TURN_OF_SHARD = 5.0


class Stage(str, enum.Enum):
    """What a shard knows of its slots."""

    GRANTED = "granted"  # perhaps not yet of all
    HELD = "held"  # how many it has
    LEAVING = "leaving"  # perhaps not yet that some have left
    EMPTYING = "emptying"  # that some have left; what runs may take them still


_CODES = {stage: stage.value[0] for stage in Stage}
_STAGES = {code: stage for stage, code in _CODES.items()}


@dataclass(frozen=True, slots=True)
class Slots:
    """A shard's slots.

    :ivar serial: that of no others.
    :ivar since: the moment that the shard got the first one.
    :ivar count: how many are taken at most.
    :ivar left: how many stay; fewer than ``count`` only while some leave.
    """

    serial: int
    since: float
    stage: Stage
    count: int
    left: int

    @property
    def is_leaving(self) -> bool:
        return self.stage in (Stage.LEAVING, Stage.EMPTYING)

    @property
    def is_untold(self) -> bool:
        """Whether the shard may not know that some leave."""
        return self.stage is Stage.LEAVING

    def leave(self, left: int) -> Slots:
        """Return them once only so many are to stay."""
        if self.is_leaving and self.left <= left:
            return self
        return replace(self, stage=Stage.LEAVING, left=min(left, self.left))

    def told(self) -> Slots:
        """Return what comes next once the shard knows how many it has."""
        return replace(self, stage=Stage.EMPTYING) if self.stage is Stage.LEAVING else replace(self, stage=Stage.HELD)

    def with_running(self, running: int) -> Slots | None:
        """Return what is left of them while some leave, and so many jobs run; None: nothing."""
        if running > self.left:
            return replace(self, count=min(self.count, running))
        return replace(self, stage=Stage.HELD, count=self.left) if self.left else None


@dataclass(frozen=True, slots=True)
class Demand:
    """How many jobs of the name wait on a shard, and how many run there; as far as they were counted."""

    waiting: int
    running: int


@dataclass(frozen=True, slots=True)
class NameLimit:
    """The limit of a name, as the first shard knows it.

    :ivar row: the whole limit; one that limits nothing is removed, and forgotten once all shards know it.
    :ivar step: grows with each change.
    :ivar slots: those of shards, if there are fewer than shards; None: the limit is divided, 0, or removed.
    :ivar is_told: whether all shards have been told.
    :ivar turned_at: when it was looked last whose jobs wait.
    :ivar ask_next: the shard where the next look begins.
    """

    row: LimitRow
    step: int = 1
    slots: Mapping[int, Slots] | None = None
    is_told: bool = False
    turned_at: float = 0.0
    ask_next: int = 0

    @property
    def running(self) -> int:
        return self.row.limit.running or 0

    @property
    def free(self) -> int:
        """How many slots no shard has; negative while what ran before is more than a new limit."""
        return self.running - sum(slots.count for slots in (self.slots or {}).values())


def begin(old: NameLimit | None, row: LimitRow, present: Sequence[int]) -> NameLimit:
    """Return a limit that was set just now.

    One that is lowered lets nothing start until what runs fits; what any shard runs counts from the first moment on.
    """
    step = 1 if old is None else old.step + 1
    running = row.limit.running
    if running is None or not 0 < running < len(present):
        return NameLimit(row, step)
    if old is None or old.slots is None:
        # Nobody knows how many run there; more than may run is as many as any number.
        return NameLimit(row, step, {number: Slots(step, 0.0, Stage.LEAVING, running + 1, 0) for number in present})
    new = replace(old, row=row, step=step, is_told=False)
    if new.free < 0:
        new = replace(new, slots={number: slots.leave(0) for number, slots in old.slots.items()})
    return new


def with_slots(entry: NameLimit, number: int, new: Slots | None) -> NameLimit:
    """Return the limit with other slots of a shard; None: with none."""
    slots = {other: its for other, its in (entry.slots or {}).items() if other != number}
    if new is not None:
        slots[number] = new
    return replace(entry, slots=slots, step=entry.step + 1)


def turn(entry: NameLimit, demands: Mapping[int, Demand], now: float) -> NameLimit:
    """Return the limit after a turn: free slots go to shards whose jobs wait, and others leave for them.

    :param demands: those of some shards, the one first that is to get a slot first.
    """
    slots, step, free = dict(entry.slots or {}), entry.step + 1, entry.free
    wanted = {number: _wanted(slots.get(number), demand) for number, demand in demands.items()}
    given = Counter[int]()
    for _ in range(max(0, free)):
        hungry = [number for number, count in wanted.items() if count > 0]
        if not hungry:
            break
        # Each gets one before any gets a second one.
        number = min(hungry, key=lambda number: given[number])
        slots[number] = _one_more(slots.get(number), step, now)
        given[number] += 1
        wanted[number] -= 1
        free -= 1
    need = sum(count > 0 for number, count in wanted.items())
    starving = sum(count > 0 for number, count in wanted.items() if number not in slots)
    need -= max(0, free + sum(each.count - each.left for each in slots.values()))
    for number, left in _spare(slots, demands):
        if need > 0:
            need -= slots[number].count - left
            slots[number] = slots[number].leave(left)
    for number in _over(slots, demands, now)[: max(0, min(need, starving))]:
        slots[number] = slots[number].leave(slots[number].left - 1)
    return replace(entry, slots=slots, step=step)


def _wanted(slots: Slots | None, demand: Demand) -> int:
    """Return how many slots more a shard could use; one that may not know that some leave must wait."""
    if slots is None:
        return demand.waiting
    return 0 if slots.stage is Stage.LEAVING else max(0, demand.waiting + demand.running - slots.count)


def _one_more(slots: Slots | None, serial: int, now: float) -> Slots:
    if slots is None:
        return Slots(serial, now, Stage.GRANTED, 1, 1)
    return Slots(serial, slots.since, Stage.GRANTED, slots.count + 1, slots.count + 1)


def _spare(slots: Mapping[int, Slots], demands: Mapping[int, Demand]) -> list[tuple[int, int]]:
    """Return the shards that have slots for which no job waits, and how many they need."""
    needs = [
        (number, min(each.running + each.waiting, slots[number].count))
        for number, each in demands.items()
        if number in slots
    ]
    return [
        (number, need) for number, need in needs if slots[number].stage is Stage.HELD and need < slots[number].count
    ]


def _over(slots: Mapping[int, Slots], demands: Mapping[int, Demand], now: float) -> list[int]:
    """Return the shards whose turn is over, those with the most slots first."""
    held = [number for number in demands if number in slots and slots[number].stage is Stage.HELD]
    over = [number for number in held if not 0 <= now - slots[number].since < TURN_OF_SHARD]
    return sorted(over, key=lambda number: (-slots[number].count, slots[number].since))


# -- stored --------------------------------------------------------------------------------------------------------


def pack(entry: NameLimit) -> bytes:
    """Return a limit as it is stored."""
    slots = None
    if entry.slots is not None:
        slots = {
            number: [each.serial, each.since, _CODES[each.stage], each.count, each.left]
            for number, each in entry.slots.items()
        }
    plain = [pack_limit(entry.row), entry.step, slots, entry.is_told, entry.turned_at, entry.ask_next]
    data: bytes = msgpack.packb(plain)
    return data


def unpack(name: str, data: bytes) -> NameLimit:
    """Read a limit that :func:`pack` has made; raises ``ValueError`` if it is none."""
    try:
        packed, step, plain, is_told, turned_at, ask_next = msgpack.unpackb(data, strict_map_key=False)
        slots = None if plain is None else {int(number): _slots_of(*parts) for number, parts in plain.items()}
        row = unpack_limit("name", name, packed)
        return NameLimit(row, int(step), slots, bool(is_told), float(turned_at), int(ask_next))
    except (KeyError, TypeError, ValueError, msgpack.UnpackException) as error:
        raise ValueError(f"the limit of the name {name!r} can't be decoded: {error}") from error


def _slots_of(serial: Any, since: Any, code: Any, count: Any, left: Any) -> Slots:
    return Slots(int(serial), float(since), _STAGES[code], int(count), int(left))
