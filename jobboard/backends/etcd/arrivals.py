"""Jobs that arrive in empty queues, and that their waiters can claim without a look."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from jobboard.backends.etcd.events import Event
from jobboard.backends.etcd.keys import is_order
from jobboard.backends.etcd.ready_queue import Candidate
from jobboard.backends.etcd.stored import Hint

#: The names that a waiter waits for; None: all.
_Names = frozenset[str] | None


class Arrivals:
    """Remembers the events since a waiter found the queues of its names empty, as long as they are of one job.

    This is a guess about the store: the transaction that claims such a job compares that it is so.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: What has come; None stands for what is no new job.
        self._since: dict[_Names, list[Candidate | None]] = {}

    def begin(self, names: _Names) -> None:
        """Remember what comes from now on; to be called before the look."""
        with self._lock:
            self._since[names] = []

    def forget(self, names: _Names) -> None:
        """Remember nothing for these names: their queues are not empty, or no waiter is left."""
        with self._lock:
            self._since.pop(names, None)

    def add(self, events: Sequence[Event]) -> None:
        """Add the events of one transaction."""
        claimable = [event for event in events if event.due == 0.0]
        if not claimable:
            return
        with self._lock:
            for names, come in self._since.items():
                if len(come) < 2:
                    come.extend([_job_of(event) for event in claimable if _concerns(event, names)][:2])

    def take(self, names: _Names) -> Candidate | None:
        """Return the job if it is the only one; the next claim looks again."""
        with self._lock:
            come = self._since.pop(names, [])
        return come[0] if len(come) == 1 else None


def _concerns(event: Event, names: _Names) -> bool:
    return names is None or event.name is None or event.name in names


def _job_of(event: Event) -> Candidate | None:
    if event.uuid is None or event.name is None or event.order is None or not is_order(event.order):
        return None
    # A job is created when it is posted.
    return Candidate(event.order, Hint(event.uuid, event.name, event.at, event.lane))
