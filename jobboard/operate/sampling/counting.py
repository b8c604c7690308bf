"""Counts what happens on a board from its events; they are hints, so a lost one is not counted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from jobboard.backends.reasons import has_not_failed
from jobboard.events import EventKind, JobEvent
from jobboard.operate.sampling.buckets import Figures

if TYPE_CHECKING:
    from jobboard.board import JobBoard

#: Names beyond these are counted in the total only, until the next :meth:`EventCounts.take`.
_MAX_NAMES = 1000
#: How many jobs are followed from one event to the next.
MAX_FOLLOWED = 10_000
#: What is followed for longer, in seconds, has most likely lost an event.
_MAX_AGE = 2 * 86_400.0

_BEGINS_TO_WAIT = frozenset(
    {
        EventKind.POSTED,
        EventKind.DUE,
        EventKind.ADMITTED,
        EventKind.ABANDONED,
        EventKind.EXPIRED,
        EventKind.RELEASED,
        EventKind.RESTORED,
    }
)
_ENDS_ATTEMPT = frozenset({EventKind.CONSUMED, EventKind.ABANDONED, EventKind.EXPIRED, EventKind.TRASHED})
_ENDS_JOB = frozenset({EventKind.CONSUMED, EventKind.TRASHED, EventKind.CANCELLED})
#: What can't be claimed for now waits for no conductor.
_ENDS_WAIT = _ENDS_JOB | {EventKind.BLOCKED}
KINDS = _BEGINS_TO_WAIT | _ENDS_ATTEMPT | _ENDS_WAIT | {EventKind.CLAIMED}


class Followed:
    """Since when jobs are in some state; of too many it follows each second one, each fourth, and so on.

    So the jobs that it follows are a fair sample of a backlog of any size, and not the newest of it.
    """

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._mask = 0

    def begin(self, uuid: str, at: float) -> None:
        if hash(uuid) & self._mask:
            return
        self._since.pop(uuid, None)
        self._since[uuid] = at
        if len(self._since) > MAX_FOLLOWED:
            self._thin_out(at)

    def end(self, uuid: str, at: float) -> float | None:
        """Return how long it took; None for a job that was not followed."""
        since = self._since.pop(uuid, None)
        if self._mask and len(self._since) < MAX_FOLLOWED // 8:
            self._mask >>= 1
        return None if since is None else max(0.0, at - since)

    def _thin_out(self, now: float) -> None:
        self._since = {uuid: at for uuid, at in self._since.items() if now - at < _MAX_AGE}
        while len(self._since) > MAX_FOLLOWED // 2 and self._mask < 2**30:
            self._mask = self._mask << 1 | 1
            self._since = {uuid: at for uuid, at in self._since.items() if not hash(uuid) & self._mask}

    def __len__(self) -> int:
        return len(self._since)


class EventCounts:
    """Rates and durations by name since the last :meth:`take`; thread-safe, of bounded size."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[str, Figures] = {}
        self._total = Figures()
        self.waiting, self.running = Followed(), Followed()

    def listen(self, board: JobBoard) -> Callable[[], None]:
        """Begin to count; returns what ends it."""
        return board.subscribe(self.count, KINDS)

    def take(self) -> tuple[Figures, dict[str, Figures]]:
        """Return the counts of all and of each name, and begin anew."""
        with self._lock:
            taken = self._total, self._names
            self._total, self._names = Figures(), {}
        return taken

    def count(self, event: JobEvent) -> None:
        uuid, at = event.uuid, event.at.timestamp()
        if uuid is None or event.name is None:
            return
        with self._lock:
            wait, run = None, None
            if event.kind in _ENDS_ATTEMPT:
                run = self.running.end(uuid, at)
            if event.kind in _ENDS_WAIT:
                self.waiting.end(uuid, at)
            if event.kind is EventKind.CLAIMED:
                wait = self.waiting.end(uuid, at)
                self.running.begin(uuid, at)
            elif event.kind in _BEGINS_TO_WAIT:
                self.waiting.begin(uuid, at)
            for figures in self._figures_of(event.name):
                _note(figures, event, wait, run)

    def _figures_of(self, name: str) -> tuple[Figures, ...]:
        figures = self._names.get(name)
        if figures is None and len(self._names) < _MAX_NAMES:
            figures = self._names[name] = Figures()
        return (self._total,) if figures is None else (self._total, figures)


def _note(figures: Figures, event: JobEvent, wait: float | None, run: float | None) -> None:
    if event.kind is EventKind.POSTED:
        figures.posted += 1
    elif event.kind is EventKind.CONSUMED:
        figures.finished += 1
    elif event.kind in _ENDS_ATTEMPT and event.token is not None and not has_not_failed(event.reason):
        figures.failed += 1
    if wait is not None:
        figures.wait.add(wait)
    if run is not None:
        figures.run.add(run)
