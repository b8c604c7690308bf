"""Which shards may run jobs of a limited name just now: what is told of a job for which its own has no room."""

from __future__ import annotations

from itertools import islice

from jobboard.backends.base import Backend
from jobboard.backends.lane_rows import NameShare
from jobboard.backends.rows import JobRow
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.ledger import Ledger
from jobboard.backends.shards.pages import pages_of
from jobboard.backends.shards.shares import Shares
from jobboard.errors import BoardUnavailable
from jobboard.states import JobState

#: How many pages of a shard's jobs are read to name some that run.
_MAX_PAGES = 4

_CLAIMED = frozenset({JobState.CLAIMED})


class NameShares:
    """Reads the shares of a name's limit, and what runs by them; nothing is changed."""

    def __init__(self, fleet: Fleet, ledger: Ledger) -> None:
        self._fleet, self._ledger, self._shares = fleet, ledger, Shares(fleet)

    def without_room(self, uuid: str, name: str, count: int) -> list[NameShare]:
        """Return the share of a job's shard if it has no room, and those of others that take turns with it.

        [] if it has room. Six requests, and five at most for each share; more if the job must be searched for.

        :param count: how many shares at most, and about how many jobs that run, of all of them together.
        """
        own = self._fleet.locate([uuid])[0]
        row = self._shares.get(own, ("name", name))
        if row is None or row.limit.running is None:
            return []
        claimed = self._claimed(own, name)
        if claimed < row.limit.running:
            return []
        entry = self._ledger.get(name)
        slots = None if entry is None else entry.slots
        taken = {number: each.count for number, each in sorted((slots or {}).items())}
        # What leaves once its jobs end is still there.
        counts: list[tuple[int, int, int | None]] = [(own, max(row.limit.running, taken.pop(own, 0)), claimed)]
        others = list(taken.items())[: count - 1]
        counts += [(number, running, self._claimed_if_there(number, name)) for number, running in others]
        some = max(1, count // len(counts))
        return [
            NameShare(number, slots is not None, running, runs, self._holders(number, name, some) if runs else [])
            for number, running, runs in counts
        ]

    def _claimed_if_there(self, number: int, name: str) -> int | None:
        try:
            return self._claimed(number, name)
        except BoardUnavailable:
            return None

    def _claimed(self, number: int, name: str) -> int:
        numbers = self._fleet.ask(number, lambda shard: shard.jobs.stats()).names.get(name)
        return 0 if numbers is None else numbers.claimed

    def _holders(self, number: int, name: str, count: int) -> list[JobRow]:
        return self._fleet.ask(number, lambda shard: _claimed_on(shard, name, count))


def _claimed_on(shard: Backend, name: str, count: int) -> list[JobRow]:
    pages = pages_of(lambda cursor: shard.jobs.page(_CLAIMED, frozenset({name}), cursor, count))
    rows = (row for page in islice(pages, _MAX_PAGES) for row in page.rows)
    return list(islice(rows, count))
