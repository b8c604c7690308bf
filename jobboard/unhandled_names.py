"""Warns when schedules post jobs that no conductor runs: the task was renamed, or its name is mistyped."""

from __future__ import annotations

import time
from collections.abc import Mapping
from logging import Logger

from jobboard.board import JobBoard
from jobboard.errors import BoardUnavailable
from jobboard.participants import unhandled

#: Seconds between two looks.
_INTERVAL = 60.0


class UnhandledNames:
    """Logs each job name that was posted while conductors are alive and none of them has a handler for it.

    A look is one request, at most once in a minute, and only after something was posted. A name is told once, and again
    if it had a handler in between.
    """

    def __init__(self, board: JobBoard, logger: Logger) -> None:
        self._board = board
        self._logger = logger
        self._posted: dict[str, str] = {}
        self._told: set[str] = set()
        self._due_at = 0.0

    def note(self, posted: Mapping[str, str]) -> None:
        """Remember for the next look what was posted: the names of jobs, and for each the id of its schedule."""
        self._posted.update(posted)

    def look_when_due(self) -> None:
        """Ask the store who is alive, unless nothing was posted or the last look was just now."""
        now = time.monotonic()
        if not self._posted or now < self._due_at:
            return
        self._due_at = now + _INTERVAL
        posted, self._posted = self._posted, {}
        try:
            lacking = unhandled(self._board.entities(), posted)
        except BoardUnavailable as error:
            self._logger.debug("it is not known which names conductors have handlers for: %s", error)
            return
        for name in sorted(lacking - self._told):
            self._logger.warning(
                "schedule %r posts jobs named %r, and no conductor that is alive has a handler of that name",
                posted[name], name,
            )  # fmt: skip
        self._told = (self._told - posted.keys()) | lacking
