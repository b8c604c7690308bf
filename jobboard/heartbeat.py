"""A conductor or a scheduler among the participants that operators can see, alive or gone."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from collections.abc import Callable
from typing import Any

from jobboard.board import JobBoard, register
from jobboard.errors import BoardUnavailable
from jobboard.participants import Entity
from jobboard.validation import MAX_TEXT

logger = logging.getLogger("jobboard.heartbeat")

#: One that did not register for this many of its intervals counts as gone.
_MISSED_INTERVALS = 4


def worker_id(name: str) -> str:
    """Return the name with host, pid and a random part: one instance of one process, which a bare name is not."""
    tail = f"@{socket.gethostname()[:64]}:{os.getpid()}:{secrets.token_hex(4)}"
    return name.encode()[: MAX_TEXT - len(tail.encode())].decode(errors="ignore") + tail


class Heartbeat:
    """Registers a participant again and again, so that a dead one is seen to be gone.

    :param kind: what it is, such as ``"conductor"``.
    :param metadata: returns what operators see of it.
    :param interval: seconds between two registrations.
    :param orders: the uuid of the logbook with what operators tell it.
    :param then: is called after each that succeeds, from the same thread, with whether the board may have that logbook;
        it may ask the store.
    """

    def __init__(
        self,
        board: JobBoard,
        kind: str,
        who: str,
        metadata: Callable[[], dict[str, Any]],
        interval: float,
        orders: str | None = None,
        then: Callable[[bool], object] = lambda _has_orders: None,
    ) -> None:
        self._board = board
        self._kind = kind
        self._who = who
        self._metadata = metadata
        self._interval = interval
        self._orders = orders
        self._then = then
        self._due_at = 0.0
        self._has_failed = False

    def _entity(self) -> Entity:
        return Entity(self._kind, self._who, self._metadata(), ttl=self._interval * _MISSED_INTERVALS)

    def register_when_due(self) -> None:
        """Say that it is alive, unless it said so just now; what fails is logged, and tried again the next time."""
        now = time.monotonic()
        if now < self._due_at:
            return
        # A caller that asks once in an interval may ask a moment early.
        self._due_at = now + 0.9 * self._interval
        try:
            self._then(register(self._board, self._entity(), self._orders))
        except BoardUnavailable as error:
            # Operators see it as gone, also where everything else works, since a right is missing.
            level = logging.DEBUG if self._has_failed else logging.WARNING
            logger.log(level, "%s %s can't register, or read what it is to do: %s", self._kind, self._who, error)
            self._has_failed = True
        else:
            self._has_failed = False

    def register_again(self) -> None:
        """Something has changed: the next :meth:`register_when_due` tells it."""
        self._due_at = 0.0

    def leave(self) -> None:
        """Stopped in good order: be seen no more, until it registers again."""
        self._due_at = 0.0
        try:
            self._board.remove_entity(self._entity())
        except BoardUnavailable as error:
            logger.debug("%s %s can't leave the register: %s", self._kind, self._who, error)
