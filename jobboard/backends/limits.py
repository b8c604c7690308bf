"""The limits of a board, as its stores keep them: which one holds for a lane or a name, and how each is encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgpack

from jobboard.backends.lane_rows import LimitRow
from jobboard.limit import Limit, Rate, combined, prefix_of
from jobboard.validation import moment

Job = TypeVar("Job")

#: Two moments that are no more seconds apart are one: sums of them are rounded, and so are timers.
SAME_MOMENT = 1e-6


@dataclass(frozen=True, slots=True)
class LaneLimit:
    """What holds for one lane; ``running`` None: any number of its jobs.

    :ivar paused_until: until then nothing starts; None: no pause of the lane has an end.
    """

    running: int | None = None
    is_strict: bool = False
    rate: Rate | None = None
    paused_until: float | None = None

    @property
    def may_block(self) -> bool:
        """Whether jobs may have to wait for the lane."""
        return self.running is not None or self.rate is not None or self.paused_until is not None

    def is_paused_at(self, now: float) -> bool:
        """Whether a pause that has an end holds at a moment."""
        return self.paused_until is not None and self.paused_until > now + SAME_MOMENT

    def at(self, now: float) -> LaneLimit:
        """Return what holds at a moment: during a pause none may run."""
        return replace(self, running=0) if self.is_paused_at(now) else self


UNLIMITED = LaneLimit()


def lane_limit(exact: Limit | None, of_prefix: Limit | None) -> LaneLimit:
    """Return what :func:`~jobboard.limit.combined` limits say to a store."""
    limit = combined(exact, of_prefix)
    if limit is None:
        return UNLIMITED
    is_strict, until = limit.order == "strict", limit.paused_until
    if limit.paused and until is None:
        return LaneLimit(0, is_strict, limit.rate)
    return LaneLimit(limit.running, is_strict, limit.rate, None if until is None else until.timestamp())


class Rules:
    """All limits of a board, by what they are of."""

    def __init__(self, rows: Iterable[LimitRow]) -> None:
        stored = list(rows)
        limits = [row.limit for row in stored]
        self._pending = {row.limit.lane for row in stored if row.is_pending}
        self._lanes = {limit.lane: limit for limit in limits if limit.lane is not None}
        #: What each of them says where no other one matches.
        self._alone = {pattern: lane_limit(limit, None) for pattern, limit in self._lanes.items()}
        #: How many jobs of each limited name may be claimed at a time.
        self.names = {
            limit.name: limit.running for limit in limits if limit.name is not None and limit.running is not None
        }

    def of_lane(self, lane: str) -> LaneLimit:
        """Return what holds for a lane: two look-ups, however many limits there are."""
        if not self._lanes:
            return UNLIMITED
        prefix = prefix_of(lane) or ""
        if lane not in self._lanes or prefix not in self._lanes:
            return self._alone.get(lane) or self._alone.get(prefix, UNLIMITED)
        return lane_limit(self._lanes[lane], self._lanes[prefix])

    def are_pending(self, lane: str) -> bool:
        """Return whether a lane may not be yet as its limits say: somebody is at work on one of them, or was killed."""
        return not self._pending.isdisjoint((lane, prefix_of(lane)))

    def of_name(self, name: str) -> int | None:
        """Return how many jobs of a name may be claimed at a time; None: any number."""
        return self.names.get(name)


def within_rooms(jobs: Iterable[Job], rooms: dict[str, int], name_of: Callable[[Job], str]) -> Iterator[Job]:
    """Yield those jobs that the limits of their names have room for.

    :param rooms: how many jobs of each limited name; those that are yielded are taken off.
    """
    for job in jobs:
        name = name_of(job)
        room = rooms.get(name)
        if room is None:
            yield job
        elif room > 0:
            rooms[name] = room - 1
            yield job


def pack_limit(row: LimitRow) -> bytes:
    """Return a limit as stores keep it, without the name or pattern that it is of."""
    limit = row.limit
    rate = None if limit.rate is None else [limit.rate.count, limit.rate.per, limit.rate.burst]
    at = None if limit.at is None else limit.at.timestamp()
    data: bytes = msgpack.packb(
        {
            "running": limit.running, "rate": rate, "order": limit.order, "paused": limit.paused, "by": limit.by,
            "reason": limit.reason, "at": at, "version": row.version, "pending": row.is_pending,
            **({} if limit.paused_until is None else {"paused_until": limit.paused_until.timestamp()}),
        }
    )  # fmt: skip
    return data


def unpack_limit(scope: str, pattern: str, data: bytes) -> LimitRow:
    """Read a limit that :func:`pack_limit` has made; raises ``ValueError`` if it is none."""
    try:
        fields: dict[str, Any] = msgpack.unpackb(data)
        rate, at, until = fields["rate"], fields["at"], fields.get("paused_until")
        limit = Limit(
            name=pattern if scope == "name" else None, lane=pattern if scope == "lane" else None,
            running=fields["running"], rate=None if rate is None else Rate(*rate),
            order="strict" if fields["order"] == "strict" else "free", paused=bool(fields["paused"]),
            by=fields["by"], reason=fields["reason"], at=None if at is None else moment(at),
            paused_until=None if until is None else moment(until),
        )  # fmt: skip
        return LimitRow(limit, str(fields["version"]), bool(fields["pending"]))
    except (KeyError, TypeError, ValueError, msgpack.UnpackException) as error:
        raise ValueError(f"the limit of the {scope} {pattern!r} can't be decoded: {error}") from error
