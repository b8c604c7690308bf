"""``board.limits``: how many jobs of a name or a lane may run, how often, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime

from jobboard.backends.base import Backend
from jobboard.backends.lane_rows import LaneDetail, LaneRow, LimitRow
from jobboard.backends.rows import Verdict
from jobboard.backends.sweep import sweep
from jobboard.client import BackendClient
from jobboard.errors import BoardUnavailable, NotSupported
from jobboard.limit import LaneStats, Limit, Rate, check_lane, check_limit, check_target, combined, prefix_of
from jobboard.types import LaneOrder
from jobboard.validation import check_count, check_operator, moment, new_uuid

#: How often a change is made again, because another client has changed the same limit meanwhile.
_MAX_RETRIES = 20

#: How many lanes are shown by default, and how many of the jobs that hold a lane's slots.
LONGEST, HOLDERS = 20, 20

Change = Callable[[Limit], Limit]


class Limits:
    """The limits of a board; each of a name, of a lane, or of each lane with a prefix (``"tenant:*"``).

    A lane's own limit goes before that of its prefix. A limit of fewer than run stops nothing: nothing more starts
    until it fits.
    """

    def __init__(self, client: BackendClient, backend: Backend) -> None:
        self._client, self._backend = client, backend

    def set(
        self,
        *,
        name: str | None = None,
        lane: str | None = None,
        running: int | None = None,
        rate: Rate | None = None,
        order: LaneOrder = "free",
        by: str | None = None,
        reason: str | None = None,
    ) -> Limit:
        """Set the limit of a name, or of a lane or a prefix; it replaces the one that is there. Idempotent.

        Atomic; then all lanes that it is of are looked at, 100 a request, so that what may start does. A client that
        dies meanwhile leaves that to the conductors' housekeeping.

        :param name: a job's name, and no pattern; or ``lane``: a lane, or ``"PREFIX:*"`` for each lane whose text
            before its last colon is that prefix. One of both.
        :param running: how many jobs may be claimed at a time, up to a million; 0 is a pause.
        :param rate: of a lane: how many jobs may start in some seconds.
        :param order: of a lane: ``"strict"`` lets no other job of the lane pass one that waits for its retry.
        :param by: the operator.
        :param reason: why; kept with the limit.
        :returns: the limit as it is stored.
        :raises ValueError: the limit says nothing, or something that can't be kept; says what.
        :raises NotSupported: this kind of store has no limits.
        """
        wanted = check_limit(name, lane, running, rate, order)
        return self._change(wanted, wanted.with_pause_of, by, reason)

    def remove(
        self, *, name: str | None = None, lane: str | None = None, by: str | None = None, reason: str | None = None
    ) -> bool:
        """Remove the limit of exactly this name, lane or prefix; a pause of the lane stays. Idempotent.

        What waited may start at once; what runs counts if a limit is set again.

        :returns: whether there was one; a pause alone is none.
        """
        target = check_target(name, lane)
        old = self.get(name=name, lane=lane)
        is_there = old is not None and not old.without_pause().is_empty
        if is_there:
            self._change(target, target.with_pause_of, by, reason)
        return is_there

    def get(self, *, name: str | None = None, lane: str | None = None) -> Limit | None:
        """Return the limit of exactly this name, lane or prefix; None if there is none."""
        target = check_target(name, lane)
        return next((limit for limit in self if (limit.name, limit.lane) == (target.name, target.lane)), None)

    def of(self, lane: str) -> Limit | None:
        """Return the limit that holds for a lane: its own, or else that of its prefix; None if none does.

        If a pause of the lane or of its prefix holds, the limit returned is paused.
        """
        return limit_of(check_lane(lane), {limit.lane: limit for limit in self if limit.lane is not None})

    def __iter__(self) -> Iterator[Limit]:
        """Iterate over all limits, those of names first, each sorted; one request, and one if a pause has an end."""
        stored = [row.limit for row in self._rows()]
        if any(limit.paused_until is not None for limit in stored):
            now = self._now()
            stored = [limit.at_moment(now) for limit in stored]
        limits = [limit for limit in stored if not limit.is_empty]
        return iter(sorted(limits, key=lambda limit: (limit.lane is not None, limit.lane or limit.name or "")))

    def lanes(self, count: int = LONGEST) -> list[LaneStats]:
        """Return the numbers of the lanes that have live jobs, those with the most blocked ones first.

        :param count: how many lanes at most, up to 1,000.
        """
        check_count("count", count, 1, 1000)
        rows = self._client.call(self._backend.limits.longest, count)
        limits = {limit.lane: limit for limit in self if limit.lane is not None}
        now = self._client.call(self._backend.now)
        return [_stats_of(row, limit_of(row.lane, limits), now) for row in rows]

    def lane(self, lane: str) -> LaneStats:
        """Return the numbers of one lane, which may have no jobs."""
        detail = self._detail(lane, 0)
        return _stats_of(detail.row, self.of(lane), self._client.call(self._backend.now))

    def _detail(self, lane: str, count: int = HOLDERS) -> LaneDetail:
        return self._client.call(self._backend.limits.lane, check_lane(lane), count)

    def _pause(
        self, lane: str, until: datetime | None, duration: float | None, by: str | None, reason: str | None
    ) -> None:
        """Pause a lane or a prefix: without an end, until a moment, or for some seconds; one that ends later stays."""
        target = check_target(None, lane)
        self._check_support()
        end = until if duration is None else moment(self._now().timestamp() + duration)

        def change(old: Limit) -> Limit:
            is_longer = old.paused and (old.paused_until is None or (end is not None and end <= old.paused_until))
            return old if is_longer else replace(old, paused=True, paused_until=end)

        self._change(target, change, by, reason)

    def _resume(self, lane: str, by: str | None, reason: str | None) -> None:
        """End the pause of a lane or a prefix, also before its time."""
        target, old = check_target(None, lane), self.get(lane=lane)
        if old is not None and old.paused:
            self._change(target, Limit.without_pause, by, reason)

    def _now(self) -> datetime:
        return moment(self._client.call(self._backend.now))

    def _rows(self) -> list[LimitRow]:
        return self._client.call(self._backend.limits.all)

    def _check_support(self) -> None:
        if not self._backend.capabilities.ties:
            raise NotSupported(f"{self._backend.scheme} keeps no limits")

    def _change(self, target: Limit, change: Change, by: str | None, reason: str | None) -> Limit:
        """Write what ``change`` makes of the stored limit, if it differs; begin again if another was faster."""
        self._check_support()
        operator, why = check_operator(by, reason)
        key = LimitRow(target, "").key
        for _ in range(_MAX_RETRIES):
            stored = next((row for row in self._rows() if row.key == key), None)
            old = Limit(name=target.name, lane=target.lane) if stored is None else stored.limit
            now = self._now()
            old = old.at_moment(now)
            changed = change(old).at_moment(now)
            if changed == old:
                return old
            limit = replace(changed, by=operator, reason=why, at=now)
            row = LimitRow(limit, new_uuid(), is_pending=limit.lane is not None)
            verdict, _ = self._client.call_until_certain(
                self._backend.limits.put, row, None if stored is None else stored.version
            )
            if verdict is not Verdict.LOST:
                self._client.call(sweep, self._backend.limits, [row])
                return limit
        raise BoardUnavailable(f"other clients change the limit of {key[0]} {key[1]!r} all the time; try again")


def limit_of(lane: str, limits: dict[str, Limit]) -> Limit | None:
    """Return what holds for a lane; if its prefix is paused, so is what is returned, until the later end."""
    return combined(limits.get(lane), limits.get(prefix_of(lane) or ""))


def _stats_of(row: LaneRow, limit: Limit | None, now: float) -> LaneStats:
    oldest = None if row.oldest is None else max(0.0, now - row.oldest)
    return LaneStats(row.lane, row.claimed, row.claimable, row.retrying, row.blocked, oldest, limit)
