"""The schedules of a board for asyncio and Trio."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

from jobboard.aio.threads import Threads
from jobboard.aio.twin import Iteration, Twin, awaited
from jobboard.schedules.collection import Schedules
from jobboard.schedules.schedule import Schedule

if TYPE_CHECKING:
    from jobboard.aio.board import AsyncJobBoard


class AsyncSchedules(Twin):
    """The schedules that live on a board: those of :class:`~jobboard.Schedules`, awaited."""

    __slots__ = ("_board", "_sync", "_threads")

    _of = Schedules

    def __init__(self, board: AsyncJobBoard, schedules: Schedules, threads: Threads) -> None:
        self._board = board
        self._sync = schedules
        self._threads = threads

    def _shown(self, value: Any) -> Any:
        return self._board._shown(value)

    add = awaited(Schedules.add)
    modify = awaited(Schedules.modify)
    pause = awaited(Schedules.pause)
    resume = awaited(Schedules.resume)
    pause_all = awaited(Schedules.pause_all)
    resume_all = awaited(Schedules.resume_all)
    all_paused = awaited(Schedules.all_paused)
    remove = awaited(Schedules.remove)
    remove_all = awaited(Schedules.remove_all)
    get = awaited(Schedules.get)
    unreadable = awaited(Schedules.unreadable)
    upcoming = awaited(Schedules.upcoming)
    due_at = awaited(Schedules.due_at)
    history = awaited(Schedules.history)
    fire_now = awaited(Schedules.fire_now)
    backfill = awaited(Schedules.backfill)
    export = awaited(Schedules.export)
    load = awaited(Schedules.load)

    def __aiter__(self) -> AsyncIterator[Schedule]:
        return Iteration(self, partial(Schedules.__iter__, self._sync))
