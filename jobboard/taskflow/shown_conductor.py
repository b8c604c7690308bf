"""A conductor of TaskFlow as operators see it: what it runs, and whether they have told it to claim no more."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from jobboard.board import JobBoard
from jobboard.heartbeat import Heartbeat
from jobboard.own_process import OwnProcess
from jobboard.participants import EVERY_NAME, told_of
from jobboard.quiet import QUIET_BOOK, quiet_ones, set_quiet
from jobboard.taskflow.keeper import Keeper

logger = logging.getLogger("jobboard.taskflow")


class ShownConductor:
    """Tells operators of a conductor under the name of its claims, and learns what they tell it.

    :param entity: what the conductor registers: TaskFlow's :class:`Entity`. ``concurrency`` in its metadata is the
        number of its slots; TaskFlow's own conductors don't tell theirs.
    :param keeper: renews what it has claimed.
    """

    def __init__(self, board: JobBoard, entity: Any, keeper: Keeper) -> None:
        self.who = _claims_as(entity)
        self.is_quiet = False
        self._has_begun = False
        #: Is called after :attr:`is_quiet` has changed; returns at once.
        self.on_change: Callable[[], object] = lambda: None
        self._board = board
        self._told = {key: value for key, value in entity.metadata.items() if key != "hostname"}
        self._process = OwnProcess()
        self._keeper = keeper
        interval = max(1.0, keeper.interval)
        self.heartbeat = Heartbeat(board, "conductor", self.who, self._metadata, interval, QUIET_BOOK, self._obey)

    def _metadata(self) -> dict[str, Any]:
        runs = self._keeper.runs_of(self.who)
        return {
            **self._process.facts(),
            "names": EVERY_NAME,
            "quiet": self.is_quiet,
            "running": len(runs),
            # One that does not tell claims in any case what it can run.
            "concurrency": max(1, len(runs)),
            **told_of(runs),
            **self._told,
        }

    def _obey(self, has_orders: bool) -> None:
        quiet = has_orders and self.who in quiet_ones(self._board)
        if not self._has_begun:
            self._has_begun = True
            if quiet:
                # Meant for an earlier one of this name, which ended: nobody stays quiet for longer.
                set_quiet(self._board, [self.who], False)
                return
        if quiet == self.is_quiet:
            return
        self.is_quiet = quiet
        logger.info("conductor %s %s, as an operator said", self.who, "claims no more" if quiet else "claims again")
        self.on_change()
        self.heartbeat.register_again()
        self.heartbeat.register_when_due()


def _claims_as(entity: Any) -> str:
    """Return the owner of its claims: TaskFlow's conductors register with host and pid behind it."""
    host, pid = entity.metadata.get("hostname"), entity.metadata.get("pid")
    return str(entity.name).removesuffix(f"@{host}:{pid}")
