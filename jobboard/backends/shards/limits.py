"""Limits: one of a lane holds on the lane's shard, one of a name is divided among all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jobboard.backends.base import Backend
from jobboard.backends.findings import AuditFinding
from jobboard.backends.lane_rows import LaneDetail, LanePage, LaneRow, LimitRow
from jobboard.backends.limit_store import LimitStore
from jobboard.backends.rows import Verdict
from jobboard.backends.shards.fleet import Fleet, chain_pages
from jobboard.backends.shards.placement import text_of_lane
from jobboard.errors import BoardUnavailable, InvalidPosting, ReplyLost

#: How often a copy is tried again, because others write the same limit meanwhile.
_MAX_TRIES = 20


class Limits(LimitStore):
    """The first shard decides which change of a limit is the present one; the others get copies of it.

    A copy that a killed client has not made is made by :meth:`finish` if the limit is of a lane; the audit finds
    others.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    @property
    def _first(self) -> int:
        return self._fleet.present[0]

    @property
    def _others(self) -> tuple[int, ...]:
        return self._fleet.present[1:]

    def all(self) -> list[LimitRow]:
        """Return the first shard's, those of names with the sums of all."""
        rows = self._all_on(self._first)
        if all(row.limit.name is None for row in rows):
            return rows
        parts = [rows, *map(self._all_on, self._others)]
        sums: dict[str, int] = {}
        for row in (row for part in parts for row in part):
            if row.limit.name is not None and row.limit.running is not None:
                sums[row.limit.name] = sums.get(row.limit.name, 0) + row.limit.running
        return [
            row if row.limit.name is None else replace(row, limit=replace(row.limit, running=sums[row.limit.name]))
            for row in rows
        ]

    def put(self, row: LimitRow, after: str | None) -> Verdict:
        self._check(row)
        first = self._fleet.roster.lead()
        verdict = self._put_on(first, self._part(row, first), after)
        if verdict is not Verdict.LOST:
            self._copy(row, after)
        return verdict

    def _check(self, row: LimitRow) -> None:
        limit, count = row.limit, len(self._fleet.present)
        if limit.name is not None and limit.running is not None and 0 < limit.running < count:
            raise InvalidPosting(
                f"{limit.running} jobs named {limit.name!r} can't be divided among {count} shards; let these jobs have "
                f"one lane, and limit that, or let {count} or more run",
                path="running",
            )

    def _part(self, row: LimitRow, number: int) -> LimitRow:
        """Return a limit as a shard keeps it: of a name, its part of the number."""
        limit, present = row.limit, self._fleet.present
        if limit.name is None or limit.running is None:
            return row
        whole, rest = divmod(limit.running, len(present))
        return replace(row, limit=replace(limit, running=whole + (present.index(number) < rest)))

    def _copy(self, row: LimitRow, after: str | None) -> None:
        """Write a limit that the first shard has on all others, unless it has a newer one by then."""
        try:
            for number in self._others:
                self._copy_to(number, self._part(row, number), after)
        except BoardUnavailable as error:
            if isinstance(error, ReplyLost):
                raise
            raise ReplyLost(f"whether this limit is on all shards is unknown: {error}") from error

    def _copy_to(self, number: int, row: LimitRow, after: str | None) -> None:
        for _ in range(_MAX_TRIES):
            if self._put_on(number, row, after) is not Verdict.LOST:
                return
            if self._version_on(self._first, row) != (None if _is_removal(row) else row.version):
                # A newer change was made, and is copied by who made it.
                return
            # An earlier change was not copied.
            after = self._version_on(number, row)
            if after is None and _is_removal(row):
                return
        raise BoardUnavailable(f"others change the limit of {row.key[0]} {row.key[1]!r} all the time; try again")

    def finish(self, row: LimitRow) -> None:
        if self._version_on(self._first, row) != row.version:
            return
        for number in self._others:
            self._copy_to(number, row, self._version_on(number, row))
        for number in (*self._others, self._first):
            self._fleet.ask(number, lambda shard: shard.limits.finish(row))

    def audit(self, repair: bool) -> list[AuditFinding]:
        """Find limits that a shard does not have as the first one does; those of lanes are copied if told to."""
        first = {row.key: row for row in self._all_on(self._first)}
        found: list[AuditFinding] = []
        for number in self._others:
            there = {row.key: row.version for row in self._all_on(number)}
            wanted = {key: row.version for key, row in first.items()}
            for scope, pattern in sorted(key for key in first | there if wanted.get(key) != there.get(key)):
                # Of a name, no shard knows the whole number.
                can_mend = scope == "lane" and (scope, pattern) in first
                if repair and can_mend:
                    self._copy_to(number, first[scope, pattern], there.get((scope, pattern)))
                advice = "" if can_mend else "; set it again, or set and remove it"
                problem = (
                    f"shard {number} has not the limit of {scope} {pattern!r} that shard {self._first} has{advice}"
                )
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
        rows = [row for part in self._fleet.everywhere(lambda shard: shard.limits.longest(count)) for row in part]
        return sorted(rows, key=lambda row: (-row.blocked, row.lane))[:count]

    def lane(self, lane: str, count: int) -> LaneDetail:
        number = self._fleet.map.now.place(text_of_lane(lane))
        return self._fleet.ask(number, lambda shard: shard.limits.lane(lane, count))

    # -- on one shard ----------------------------------------------------------------------------------------------

    def _all_on(self, number: int) -> list[LimitRow]:
        return self._fleet.ask(number, lambda shard: shard.limits.all())

    def _put_on(self, number: int, row: LimitRow, after: str | None) -> Verdict:
        return self._fleet.ask(number, lambda shard: shard.limits.put(row, after))

    def _version_on(self, number: int, row: LimitRow) -> str | None:
        return next((each.version for each in self._all_on(number) if each.key == row.key), None)


def _is_removal(row: LimitRow) -> bool:
    """Whether nothing is stored once this is written."""
    return row.limit.is_empty and not row.is_pending
