"""The lookers' primitives."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jobboard.backends.redis.client import Client
from jobboard.backends.redis.wire import entries_of, history_of, pack, text_of
from jobboard.backends.rows import JobRow, Page
from jobboard.events import HistoryEntry
from jobboard.states import JobState
from jobboard.stats import BoardStats, NameStats


class Reading(Client):
    """Pages begin above the place of the last job of the page before."""

    def read(self, uuids: Sequence[str]) -> list[JobRow | None]:
        if not uuids:
            return []
        _, there, parts = self._look("read", pack(list(uuids)))
        rows = iter(entries_of(parts))
        return [next(rows) if is_there else None for is_there in there]

    def history(self, uuid: str) -> list[HistoryEntry]:
        status, *lines = self._look("history", uuid)
        return [] if status == b"MISSING" else history_of(lines[0])

    def find(self, name: str, key: str) -> JobRow | None:
        status, *parts = self._look("find", name, key)
        return None if status == b"MISSING" else entries_of(parts[0])[0]

    def page(
        self, states: Collection[JobState], names: frozenset[str] | None, cursor: object | None, size: int
    ) -> Page:
        if cursor is not None and not isinstance(cursor, bytes):
            raise TypeError(f"not a cursor of this backend: {cursor!r}")
        wanted = None if names is None else list(names)
        request = pack([[state.value for state in states], wanted, cursor, size])
        _, last, parts = self._until_settled("page", request)
        return Page(entries_of(parts), last or None)

    def stats(self) -> BoardStats:
        _, counts, age = self._until_settled("stats")
        names = {text_of(name): NameStats(*numbers) for name, numbers in zip(counts[::2], counts[1::2], strict=True)}
        return BoardStats(
            delayed=sum(stats.delayed for stats in names.values()),
            unclaimed=sum(stats.unclaimed for stats in names.values()),
            claimed=sum(stats.claimed for stats in names.values()),
            trashed=sum(stats.trashed for stats in names.values()),
            names=dict(sorted(names.items())),
            oldest_unclaimed=None if age < 0 else age / 1e6,
        )

    def count(self) -> int:
        return int(self._until_settled("count")[1])
