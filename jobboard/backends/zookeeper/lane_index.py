"""The lanes of the listing: what the jobs of each do there."""

from __future__ import annotations

import enum
import heapq
from collections.abc import Collection, Iterator
from itertools import chain, islice, takewhile
from typing import Protocol

from jobboard.backends.ordered import PriorityIndex, SortedKeys, walk
from jobboard.limit import ANY_LANE, is_lane_of
from jobboard.states import JobState


class Part(enum.Enum):
    """What a live job does in its lane; RETRYING is DELAYED after a claim."""

    BLOCKED = enum.auto()
    CLAIMABLE = enum.auto()
    CLAIMED = enum.auto()
    RETRYING = enum.auto()
    DELAYED = enum.auto()


_PARTS = {
    JobState.BLOCKED: Part.BLOCKED,
    JobState.UNCLAIMED: Part.CLAIMABLE,
    JobState.CLAIMED: Part.CLAIMED,
    JobState.DELAYED: Part.DELAYED,
}


#: Those of which a lane's numbers are.
COUNTED_PARTS = (Part.CLAIMED, Part.CLAIMABLE, Part.RETRYING, Part.BLOCKED)

_MIXED = {Part.BLOCKED, Part.CLAIMABLE}


def part_of(state: JobState, was_claimed: bool) -> Part | None:
    """Return what a job of this state does in its lane; None if it is not live."""
    return Part.RETRYING if was_claimed and state is JobState.DELAYED else _PARTS.get(state)


class Member(Protocol):
    """A job of a lane, as it is listed."""

    name: str
    place: int
    lane: str | None
    part: Part | None


class LaneIndex:
    """Every method is called under the listing's lock."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        #: The places of the live jobs of each lane.
        self._lanes: dict[str, dict[Part, PriorityIndex[int]]] = {}
        self._in_order: SortedKeys[str] = SortedKeys()
        #: Those that have both claimable and BLOCKED jobs.
        self._mixed: SortedKeys[str] = SortedKeys()

    # -- changes ---------------------------------------------------------------------------------------------------

    def add(self, job: Member) -> None:
        if job.lane is None or job.part is None:
            return
        parts = self._lanes.get(job.lane)
        if parts is None:
            parts = self._lanes[job.lane] = {}
            self._in_order.add(job.lane)
        was_mixed = parts.keys() >= _MIXED
        parts.setdefault(job.part, PriorityIndex()).add(job.place, job.name)
        if not was_mixed and parts.keys() >= _MIXED:
            self._mixed.add(job.lane)

    def remove(self, job: Member) -> None:
        if job.lane is None or job.part is None:
            return
        parts = self._lanes[job.lane]
        was_mixed = parts.keys() >= _MIXED
        parts[job.part].remove(job.place, job.name)
        if not parts[job.part]:
            del parts[job.part]
        if was_mixed and not parts.keys() >= _MIXED:
            self._mixed.remove(job.lane)
        if not parts:
            del self._lanes[job.lane]
            self._in_order.remove(job.lane)

    # -- looks -----------------------------------------------------------------------------------------------------

    def places(self, lane: str, part: Part) -> Iterator[int]:
        """Iterate over the places of these jobs of a lane, in lane order."""
        index = self._index(lane, part)
        return iter(() if index is None else index.whole)

    def places_of(
        self, lane: str, part: Part, names: frozenset[str] | None, without: Collection[str | None]
    ) -> Iterator[int]:
        """Iterate over the places of those of these names (None: of all), but for those of ``without``."""
        index = self._index(lane, part)
        return iter(()) if index is None else walk(index.orders(names, without))

    def _index(self, lane: str, part: Part) -> PriorityIndex[int] | None:
        return self._lanes.get(lane, {}).get(part)

    def last(self, lane: str) -> Iterator[int]:
        """Iterate over the places of the claimable jobs of a lane, the last one first."""
        index = self._index(lane, Part.CLAIMABLE)
        return iter(()) if index is None else reversed(index.whole)

    def count(self, lane: str, part: Part) -> int:
        index = self._index(lane, part)
        return 0 if index is None else len(index)

    def __contains__(self, lane: str) -> bool:
        """Whether a lane has live jobs."""
        return lane in self._lanes

    def page(self, pattern: str, after: str | None, size: int) -> list[str]:
        """Return the next lanes that have live jobs and are of this pattern, in the order of their texts."""
        if not pattern.endswith(ANY_LANE):
            return [pattern] if pattern in self._lanes and (after is None or pattern > after) else []
        prefix = pattern.removesuffix("*")
        lanes = takewhile(lambda lane: lane.startswith(prefix), self._in_order.after(max(prefix, after or "")))
        return list(islice((lane for lane in lanes if is_lane_of(lane, pattern)), size))

    def longest(self, count: int) -> list[str]:
        """Return the lanes that have the most BLOCKED jobs, those first; none that have only DELAYED jobs."""
        lanes = (lane for lane, parts in self._lanes.items() if not parts.keys().isdisjoint(COUNTED_PARTS))
        return heapq.nsmallest(count, lanes, key=lambda lane: (-self.count(lane, Part.BLOCKED), lane))

    @property
    def has_jobs(self) -> bool:
        """Whether a lane has live jobs."""
        return bool(self._lanes)

    def mixed(self, after: str, count: int) -> list[str]:
        """Return up to ``count`` lanes that have both, by their texts; behind the last one comes the first."""
        count = min(count, len(self._mixed))
        return list(islice(chain(self._mixed.after(after), self._mixed), count))
