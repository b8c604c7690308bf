"""Limits: one of a lane holds on the lane's shard; one of a name is divided among all, or they take turns with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobboard.backends.base import Backend
from jobboard.backends.findings import AuditFinding
from jobboard.backends.lane_rows import LaneDetail, LanePage, LaneRow, LimitRow
from jobboard.backends.limit_store import LimitStore
from jobboard.backends.rows import Verdict
from jobboard.backends.shards.fleet import Fleet, chain_pages
from jobboard.backends.shards.name_limits import NameLimits
from jobboard.backends.shards.placement import text_of_lane
from jobboard.backends.shards.shares import Shares
from jobboard.errors import BoardUnavailable, ReplyLost

#: How often a copy is tried again, because others write the same limit meanwhile.
_MAX_TRIES = 20


class Limits(LimitStore):
    """The first shard decides which change of a limit is the present one; the others get copies of it.

    A copy that a killed client has not made is made by :meth:`finish` if the limit is of a lane, and by
    :meth:`.NameLimits.tell` if it is of a name.
    """

    def __init__(self, fleet: Fleet, names: NameLimits) -> None:
        self._fleet, self._names, self._shares = fleet, names, Shares(fleet)

    @property
    def _first(self) -> int:
        return self._fleet.present[0]

    @property
    def _others(self) -> tuple[int, ...]:
        return self._fleet.present[1:]

    def all(self) -> list[LimitRow]:
        rows = self._shares.all(self._first)
        return [*(row for row in rows if row.limit.name is None), *self._names.all(rows)]

    def put(self, row: LimitRow, after: str | None) -> Verdict:
        first = self._fleet.roster.lead()
        if row.limit.name is not None:
            return self._names.put(row, after)
        verdict = self._fleet.ask(first, lambda shard: shard.limits.put(row, after))
        if verdict is not Verdict.LOST:
            try:
                for number in self._others:
                    self._copy_to(number, row, after)
            except BoardUnavailable as error:
                if isinstance(error, ReplyLost):
                    raise
                raise ReplyLost(f"whether this limit is on all shards is unknown: {error}") from error
        return verdict

    def _copy_to(self, number: int, row: LimitRow, after: str | None) -> None:
        for _ in range(_MAX_TRIES):
            if self._shares.put(number, row, after):
                return
            if self._shares.version(self._first, row.key) != (None if _is_removal(row) else row.version):
                # A newer change was made, and is copied by who made it.
                return
            # An earlier change was not copied.
            after = self._shares.version(number, row.key)
            if after is None and _is_removal(row):
                return
        raise BoardUnavailable(f"others change the limit of {row.key[0]} {row.key[1]!r} all the time; try again")

    def finish(self, row: LimitRow) -> None:
        if self._shares.version(self._first, row.key) != row.version:
            return
        for number in self._others:
            self._copy_to(number, row, self._shares.version(number, row.key))
        for number in (*self._others, self._first):
            self._fleet.ask(number, lambda shard: shard.limits.finish(row))

    def tell_names(self) -> None:
        """Go on with what killed clients have begun of limits of names."""
        self._names.tell_all()

    def audit(self, repair: bool) -> list[AuditFinding]:
        """Find limits that a shard does not have as the first one does; they are copied if told to."""
        return [*self._audit_lanes(repair), *self._names.audit(repair)]

    def _audit_lanes(self, repair: bool) -> list[AuditFinding]:
        first = {row.key: row for row in self._shares.all(self._first) if row.limit.name is None}
        wanted = {key: row.version for key, row in first.items()}
        found: list[AuditFinding] = []
        for number in self._others:
            there = {row.key: row.version for row in self._shares.all(number) if row.limit.name is None}
            for scope, pattern in sorted(key for key in first | there if wanted.get(key) != there.get(key)):
                can_mend = (scope, pattern) in first
                if repair and can_mend:
                    self._copy_to(number, first[scope, pattern], there.get((scope, pattern)))
                advice = "" if can_mend else "; set and remove it"
                problem = f"shard {number} has not the limit of lane {pattern!r} that shard {self._first} has{advice}"
                found.append(AuditFinding(None, problem, repaired=repair and can_mend))
        return found

    def look(self, lanes: Sequence[str]) -> list[str]:
        numbers = [self._fleet.map.now.place(text_of_lane(lane)) for lane in lanes]
        left: list[str] = []

        def look(shard: Backend, some: list[str]) -> list[None]:
            left.extend(shard.limits.look(some))
            return [None] * len(some)

        self._fleet.split(numbers, lanes, look, changes=True)
        return left

    def lanes(self, pattern: str, cursor: object | None, size: int) -> LanePage:
        def part(shard: Backend, inner: Any, most: int) -> tuple[list[str], Any]:
            page = shard.limits.lanes(pattern, inner, most)
            return page.lanes, page.cursor

        return LanePage(*chain_pages(self._fleet, cursor, size, part))

    def longest(self, count: int) -> list[LaneRow]:
        parts = self._fleet.everywhere(lambda shard: shard.limits.longest(count))
        rows = [row for part in parts.values() for row in part]
        return sorted(rows, key=lambda row: (-row.blocked, row.lane))[:count]

    def lane(self, lane: str, count: int) -> LaneDetail:
        number = self._fleet.map.now.place(text_of_lane(lane))
        return self._fleet.ask(number, lambda shard: shard.limits.lane(lane, count))


def _is_removal(row: LimitRow) -> bool:
    """Whether nothing is stored once this is written."""
    return row.limit.is_empty and not row.is_pending
