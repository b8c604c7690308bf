"""The memory backend: one process, many threads; boards of one name share a shelf."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar

from jobboard.address import Address
from jobboard.backend import Backend, Capabilities, Waiter
from jobboard.backends.memory.claiming import Claiming
from jobboard.backends.memory.operating import Operating
from jobboard.backends.memory.posting import Posting
from jobboard.backends.memory.shelf import Shelf, clock
from jobboard.backends.memory.waiting import MemoryWaiter
from jobboard.entry import LIVE, Entry, JobState, Page
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, HistoryEntry, JobEvent
from jobboard.stats import BoardStats, NameStats

_shelves: dict[tuple[str, str], Shelf] = {}
_shelves_lock = threading.Lock()


class MemoryBackend(Posting, Claiming, Operating, Backend):
    """A board in this process's memory; it stays until the process ends, and no other process sees it.

    ``memory://`` is one space of boards, ``memory://NAME`` another. No primitive is ever lost or repeated: each is
    atomic under the shelf's lock.
    """

    scheme: ClassVar[str] = "memory"
    capabilities: ClassVar[Capabilities] = Capabilities(
        processes=False, durable=False, expiry="time", clock="client", largest_batch=10_000
    )

    def __init__(self, board: str, address: Address, **options: Any) -> None:
        super().__init__(board, address, **options)
        if address.path.strip("/") or address.username or address.password or len(address.hosts) > 1:
            raise ValueError("a memory board is memory:// or memory://SPACE, with no path, user or further hosts")
        space, port = address.hosts[0] if address.hosts else ("", None)
        if port is not None:
            raise ValueError("a memory board has no port; use memory:// or memory://SPACE")
        with _shelves_lock:
            self._shelf = _shelves.setdefault((space, board), Shelf())
        self._open = False
        self._listening: list[Callable[[], None]] = []

    @property
    def shelf(self) -> Shelf:  # type: ignore[override]
        if not self._open:
            raise BoardUnavailable(f"board {self.board!r} is closed; call connect() first")
        return self._shelf

    def open(self, timeout: float) -> None:
        self._open = True

    def close(self) -> None:
        with self._shelf.lock:
            self._open = False
            while self._listening:
                self._listening.pop()()
            self._shelf.changed.notify_all()

    @property
    def connected(self) -> bool:
        return self._open

    def now(self) -> float:
        return clock()

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(self, uuids: Sequence[str]) -> list[Entry | None]:
        shelf = self.shelf
        with shelf.lock:
            now = clock()
            shelf.settle(now)
            rows = [shelf.visible(uuid, now) for uuid in uuids]
            return [row.copy() if row else None for row in rows]

    def history(self, uuid: str) -> list[HistoryEntry]:
        shelf = self.shelf
        with shelf.lock:
            row = shelf.visible(uuid, clock())
            return row.history() if row else []

    def find(self, name: str, key: str) -> Entry | None:
        shelf = self.shelf
        with shelf.lock:
            shelf.settle(clock())
            uuid = shelf.keys.get((name, key))
            return None if uuid is None else shelf.rows[uuid].copy()

    def page(
        self, states: Collection[JobState], names: frozenset[str] | None, cursor: object | None, size: int
    ) -> Page:
        shelf, entries = self.shelf, []
        with shelf.lock:
            now = clock()
            shelf.settle(now)
            for place, uuid in shelf.listing.after(cursor):  # type: ignore[arg-type]
                row = shelf.visible(uuid, now)
                if row and row.entry.state in states and (names is None or row.entry.name in names):
                    entries.append(row.copy())
                    if len(entries) == size:
                        return Page(entries, place)
        return Page(entries, None)

    def stats(self) -> BoardStats:
        shelf = self.shelf
        with shelf.lock:
            now = clock()
            shelf.settle(now)
            names: dict[str, dict[str, int]] = {}
            totals: dict[str, int] = {}
            for (name, state), number in shelf.counts.items():
                if number and state is not JobState.COMPLETE:
                    names.setdefault(name, {})[state.value.lower()] = number
                    totals[state.value.lower()] = totals.get(state.value.lower(), 0) + number
            return BoardStats(
                **totals,
                names={name: NameStats(**numbers) for name, numbers in sorted(names.items())},
                oldest_unclaimed=self._oldest_unclaimed(now),
            )

    def _oldest_unclaimed(self, now: float) -> float | None:
        unclaimed = (row.entry.created_on for row in self._shelf.rows.values() if row.entry.state is JobState.UNCLAIMED)
        oldest = min(unclaimed, default=math.inf)
        return None if math.isinf(oldest) else max(0.0, now - oldest)

    def count(self) -> int:
        shelf = self.shelf
        with shelf.lock:
            return sum(number for (_, state), number in shelf.counts.items() if state in LIVE)

    # -- waiting and events ----------------------------------------------------------------------------------------

    def waiter(self, names: frozenset[str] | None) -> Waiter:
        return MemoryWaiter(self.shelf, names, lambda: self._open)

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        shelf, listener = self.shelf, (tell, kinds)

        def unlisten() -> None:
            with shelf.lock:
                if listener in shelf.listeners:
                    shelf.listeners.remove(listener)

        with shelf.lock:
            shelf.listeners.append(listener)
            self._listening.append(unlisten)
        return unlisten
