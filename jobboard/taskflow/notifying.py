"""TaskFlow's notifier of a board: POSTED and REMOVAL, from the events of the store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from taskflow.jobs import base
from taskflow.types import notifier

from jobboard.errors import JobBoardError
from jobboard.events import EventKind, JobEvent
from jobboard.taskflow.errors import translated

if TYPE_CHECKING:
    from jobboard.taskflow.board import TaskFlowBoard

_REMOVALS = (EventKind.CONSUMED, EventKind.TRASHED, EventKind.CANCELLED)


class BoardNotifier(notifier.Notifier):  # type: ignore[misc]
    """Subscribes to the board's events while it is open and somebody has registered; nobody else pays for them.

    A job that was removed and is gone from the store by the time of its event has no details, and notifies nobody.
    """

    def __init__(self, board: TaskFlowBoard, is_on: bool) -> None:
        super().__init__()
        self._board = board
        self._is_on = is_on
        self._lock = threading.Lock()
        self._is_open = False
        self._unsubscribe: Callable[[], None] | None = None

    def register(
        self,
        event_type: str,
        callback: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
        details_filter: Any = None,
    ) -> None:
        super().register(event_type, callback, args, kwargs, details_filter)
        self._subscribe()

    def board_opened(self) -> None:
        self._is_open = True
        if len(self):
            self._subscribe()

    def board_closes(self) -> None:
        self._is_open = False
        with self._lock:
            unsubscribe, self._unsubscribe = self._unsubscribe, None
        if unsubscribe is not None:
            unsubscribe()

    def _subscribe(self) -> None:
        with self._lock:
            if self._is_on and self._is_open and self._unsubscribe is None:
                with translated():
                    self._unsubscribe = self._board.board.subscribe(self._on_event, (EventKind.POSTED, *_REMOVALS))

    def _on_event(self, event: JobEvent) -> None:
        if event.uuid is None:
            return
        try:
            job = self._board.job_of(self._board.board.get(event.uuid))
        except JobBoardError:
            return
        self.notify(base.POSTED if event.kind is EventKind.POSTED else base.REMOVAL, {"job": job})
