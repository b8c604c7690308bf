"""The events: what happens on the board now, as far as somebody looks at it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

from starlette.responses import Response

from jobboard.board import JobBoard
from jobboard.console.shared import checked
from jobboard.console.view import Page, View
from jobboard.events import FREQUENT, EventKind, JobEvent

#: How many events are kept, and how many characters of each reason.
MAX_EVENTS, _MAX_REASON = 1000, 300
#: Seconds after which a log that nobody reads stops listening.
_IDLE_TTL = 300.0
#: Which kinds are kept.
KINDS = [kind for kind in EventKind if kind not in FREQUENT]


class EventLog:
    """Listens from the first reader on, which may be a page that is live, until nobody has read for five minutes."""

    def __init__(self, board: JobBoard) -> None:
        self._board = board
        self._events: deque[JobEvent] = deque(maxlen=MAX_EVENTS)
        self._lock = threading.Lock()
        self._unsubscribe: Callable[[], None] | None = None
        self._read_at = 0.0
        #: How many came since it listens.
        self.total = 0

    def read(self) -> list[JobEvent]:
        """Return what is known, newest first.

        :raises BoardUnavailable: the store can't be reached.
        """
        self._read_at = time.monotonic()
        with self._lock:
            if self._unsubscribe is None:
                self._events.clear()
                self.total = 0
                self._unsubscribe = self._board.subscribe(self._add, KINDS)
            return list(reversed(self._events))

    def has(self, uuid: str, number: int) -> bool:
        """Whether one of the newest events, of this number, is of this job; no request."""
        with self._lock:
            return any(event.uuid == uuid for event in islice(reversed(self._events), number))

    def _add(self, event: JobEvent) -> None:
        if time.monotonic() - self._read_at > _IDLE_TTL:
            self.close()
            return
        if event.reason is not None and len(event.reason) > _MAX_REASON:
            event = replace(event, reason=event.reason[:_MAX_REASON] + "…")
        with self._lock:
            self._events.append(event)
            self.total += 1

    def close(self) -> None:
        """Stop listening. Idempotent."""
        with self._lock:
            unsubscribe, self._unsubscribe = self._unsubscribe, None
        if unsubscribe is not None:
            unsubscribe()


_MAX_SHOWN = 50
_ANY = "ANY"
#: What an operator looks for, and what of it is a failure.
_BAD = frozenset(
    {EventKind.ABANDONED, EventKind.EXPIRED, EventKind.TRASHED, EventKind.MISSED, EventKind.SKIPPED, EventKind.FAILED}
)
_TROUBLE = _BAD | {
    EventKind.RELEASED, EventKind.CANCEL_ASKED, EventKind.CANCELLED, EventKind.PURGED, EventKind.PAUSED,
}  # fmt: skip


def show(view: View) -> Response:
    """Show the newest events of a kind, or those of trouble, and a name; no request, but for the first reader."""
    view.board  # noqa: B018, connects it
    log = view.part(EventLog)
    kind, name = checked(_kind_of, view.query("kind")), view.query("name")
    events = log.read()
    wanted = _TROUBLE if not kind else KINDS if kind == _ANY else {kind}
    fitting = [event for event in events if event.kind in wanted and name in (event.name or "")]
    return view.render(
        "events.html", events=fitting[:_MAX_SHOWN], fitting=len(fitting), total=log.total, kept=MAX_EVENTS,
        kinds=KINDS, kind=kind, name=name, bad=_BAD, trouble=_TROUBLE,
    )  # fmt: skip


def _kind_of(text: str) -> str:
    """Return the kind that a URL names; "" for trouble."""
    kind = text.upper()
    if kind in ("", _ANY, "ALL"):
        return kind and _ANY
    return EventKind(kind).value


PAGES = (Page("events", show, title="Events", order=70),)
