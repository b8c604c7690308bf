"""Claims from several shards, which begin with another shard each time."""

from __future__ import annotations

import itertools

from jobboard.backends.rows import ClaimRequest, JobRow
from jobboard.backends.shards.fleet import Fleet
from jobboard.errors import BoardUnavailable, ReplyLost


class Claims:
    """The primitives ``claim_next`` and ``claimed_under``."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._turn = itertools.count(fleet.choose.randrange(fleet.count))
        #: Where a waiter has seen a job that can be claimed.
        self._seen: int | None = None

    def begin_at(self, number: int) -> None:
        """Let the next claim begin with this shard."""
        self._seen = number

    def _order(self) -> list[int]:
        """Return all shards, beginning with another one each time, so that none of them waits for the others."""
        seen, self._seen = self._seen, None
        first = next(self._turn) % self._fleet.count if seen is None else seen
        return [(first + step) % self._fleet.count for step in range(self._fleet.count)]

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        rows: list[JobRow] = []
        failures: list[BoardUnavailable] = []
        for number in self._order():
            try:
                found = self._fleet.shards[number].jobs.claim_next(claim, names, limit - len(rows))
            except ReplyLost:
                # All that is claimed under this id is found by it.
                raise
            except BoardUnavailable as error:
                failures.append(error)
                continue
            for row in found:
                self._fleet.remember(row.uuid, number)
            rows += found
            if len(rows) >= limit:
                break
        if len(failures) == self._fleet.count:
            raise failures[0]
        rows.sort(key=claim_order)
        return rows

    def claimed_under(self, claim_id: str) -> list[JobRow]:
        rows: list[JobRow] = []
        failures: list[BoardUnavailable] = []
        for number, shard in enumerate(self._fleet.shards):
            try:
                found = shard.jobs.claimed_under(claim_id)
            except BoardUnavailable as error:
                failures.append(error)
                continue
            for row in found:
                self._fleet.remember(row.uuid, number)
            rows += found
        if failures and not rows:
            raise failures[0]
        return sorted(rows, key=claim_order)


def claim_order(row: JobRow) -> tuple[int, float, int, str]:
    """Return what sorts jobs as they are claimed; a sequence is one shard's own, so that a uuid decides."""
    return -row.priority, row.place, row.sequence, row.uuid
