"""The schedules of a board for asyncio and Trio."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

from jobboard.aio.threads import Threads
from jobboard.aio.wrapper import AsyncWrapper, Iteration, as_coroutine
from jobboard.schedules.collection import Schedules
from jobboard.schedules.schedule import Schedule

if TYPE_CHECKING:
    from jobboard.aio.board import AsyncJobBoard


class AsyncSchedules(AsyncWrapper):
    """The schedules that live on a board: those of :class:`~jobboard.Schedules`, awaited."""

    __slots__ = ("_board", "_sync", "_threads")

    _of = Schedules

    def __init__(self, board: AsyncJobBoard, schedules: Schedules, threads: Threads) -> None:
        self._board = board
        self._sync = schedules
        self._threads = threads

    def _shown(self, value: Any) -> Any:
        return self._board._shown(value)

    add = as_coroutine(Schedules.add)
    modify = as_coroutine(Schedules.modify)
    pause = as_coroutine(Schedules.pause)
    resume = as_coroutine(Schedules.resume)
    pause_all = as_coroutine(Schedules.pause_all)
    resume_all = as_coroutine(Schedules.resume_all)
    all_paused = as_coroutine(Schedules.all_paused)
    remove = as_coroutine(Schedules.remove)
    remove_all = as_coroutine(Schedules.remove_all)
    get = as_coroutine(Schedules.get)
    unreadable = as_coroutine(Schedules.unreadable)
    upcoming = as_coroutine(Schedules.upcoming)
    due_at = as_coroutine(Schedules.due_at)
    history = as_coroutine(Schedules.history)
    fire_now = as_coroutine(Schedules.fire_now)
    backfill = as_coroutine(Schedules.backfill)
    export = as_coroutine(Schedules.export)
    load = as_coroutine(Schedules.load)
    apply = as_coroutine(Schedules.apply)
    changes_to = as_coroutine(Schedules.changes_to)

    def __aiter__(self) -> AsyncIterator[Schedule]:
        return Iteration(self, partial(Schedules.__iter__, self._sync))
