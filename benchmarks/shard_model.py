"""A model of a store, for boards of many shards in virtual time: jobs that wait, delayed ones, and who waits for them.

It answers as a Redis does: a job that gets ready wakes the waiter that was armed first, and whoever claims also
makes the delayed jobs ready that are due by then. An answer takes no time.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jobboard.backends.base import Waiter
from jobboard.backends.rows import NewJob
from jobboard.states import JobState


class Events:
    """What is to happen, and the time that it is; it goes on only as things happen."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._numbers = itertools.count()

    def after(self, seconds: float, call: Callable[..., object], *arguments: Any) -> None:
        """Let this be called so many seconds from now."""
        heapq.heappush(self._due, (self.now + seconds, next(self._numbers), call, arguments))

    def run_until(self, moment: float) -> None:
        """Let everything happen that is due until this moment."""
        while self._due and self._due[0][0] <= moment:
            self.now, _, call, arguments = heapq.heappop(self._due)
            call(*arguments)
        self.now = moment

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Let this be the time of the whole process for the block, which has no other threads."""
        real = time.monotonic, time.time
        time.monotonic = time.time = lambda: self.now
        try:
            yield
        finally:
            time.monotonic, time.time = real


class Row:
    """What boards of shards read of a job."""

    __slots__ = ("place", "sequence", "uuid")
    priority, owner, token = 3, None, 0

    def __init__(self, uuid: str, place: float, sequence: int) -> None:
        self.uuid, self.place, self.sequence = uuid, place, sequence


class Answer:
    """What a post answers."""

    __slots__ = ("row",)

    def __init__(self, row: Row) -> None:
        self.row = row


class Requests:
    """How many requests all shards have got, of each kind and in each second."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self.kinds: Counter[str] = Counter()
        self.seconds: Counter[int] = Counter()

    def add(self, kind: str) -> None:
        self.kinds[kind] += 1
        self.seconds[int(self._events.now)] += 1


class ModelShard:
    """One shard, with as much of a backend as a board of shards uses here. Its roles are itself."""

    def __init__(self, events: Events, requests: Requests) -> None:
        self._events, self._requests = events, requests
        self.jobs = self.books = self
        self.waiting: deque[Row] = deque()
        self._delayed: list[tuple[float, int, Row]] = []
        self._sequences = itertools.count()
        self._armed: dict[ModelWaiter, None] = {}
        #: How many jobs it got.
        self.posted = 0

    def post(self, rows: Sequence[NewJob]) -> list[Answer]:
        self._requests.add("post")
        return [Answer(self._add(new)) for new in rows]

    def _add(self, new: NewJob) -> Row:
        number, delay = next(self._sequences), new.delay or 0.0
        row = Row(new.uuid, self._events.now + delay, number)
        self.posted += 1
        if delay > 0:
            heapq.heappush(self._delayed, (row.place, number, row))
        else:
            self._be_ready(row)
        return row

    def _be_ready(self, row: Row) -> None:
        self.waiting.append(row)
        if self._armed:
            first = next(iter(self._armed))
            del self._armed[first]
            first.wake()

    def _promote(self) -> None:
        while self._delayed and self._delayed[0][0] <= self._events.now:
            self._be_ready(heapq.heappop(self._delayed)[2])

    def claim_next(self, _claim: object, _names: object, limit: int) -> list[Row]:
        self._requests.add("claim")
        if self._delayed:
            self._promote()
        waiting = self.waiting
        return [waiting.popleft() for _ in range(min(limit, len(waiting)))]

    def outlook(self, _names: object) -> JobState | None:
        self._requests.add("look")
        self._promote()
        return JobState.UNCLAIMED if self.waiting else None

    def load(self, _book: str, _cursor: str | None, _size: int) -> None:
        """There are no limits of names."""
        self._requests.add("load")

    def count(self) -> int:
        self._requests.add("count")
        return len(self.waiting) + len(self._delayed)

    def ready_in(self, waiter: ModelWaiter) -> float | None:
        """Return when a job is ready, and arm the waiter unless one is."""
        self._requests.add("ready_in")
        self._promote()
        if self.waiting:
            return 0.0
        self._armed.setdefault(waiter)
        return self._delayed[0][0] - self._events.now if self._delayed else None

    def disarm(self, waiter: ModelWaiter) -> None:
        self._armed.pop(waiter, None)

    def waiter(self, _names: object) -> ModelWaiter:
        return ModelWaiter(self)


class ModelWaiter(Waiter):
    """Tells whoever set ``told`` that it was woken."""

    def __init__(self, shard: ModelShard) -> None:
        self._shard = shard
        self.told: Callable[[], object] = lambda: None

    def ready_in(self) -> float | None:
        return self._shard.ready_in(self)

    def wake(self) -> None:
        self.told()

    def wait(self, timeout: float | None) -> None:
        raise NotImplementedError("nobody waits in virtual time")

    def interrupt(self) -> None:
        """Nobody waits."""

    def close(self) -> None:
        self._shard.disarm(self)
