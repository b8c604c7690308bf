"""The limits of a board for asyncio and Trio."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

from jobboard.aio.threads import Threads
from jobboard.aio.wrapper import AsyncWrapper, Iteration, as_coroutine
from jobboard.board.limits import Limits
from jobboard.limit import Limit

if TYPE_CHECKING:
    from jobboard.aio.board import AsyncJobBoard


class AsyncLimits(AsyncWrapper):
    """The limits of a board: those of :class:`~jobboard.board.limits.Limits`, awaited."""

    __slots__ = ("_board", "_sync", "_threads")

    _of = Limits

    def __init__(self, board: AsyncJobBoard, limits: Limits, threads: Threads) -> None:
        self._board = board
        self._sync = limits
        self._threads = threads

    def _shown(self, value: Any) -> Any:
        return self._board._shown(value)

    set = as_coroutine(Limits.set)
    remove = as_coroutine(Limits.remove)
    get = as_coroutine(Limits.get)
    of = as_coroutine(Limits.of)
    lanes = as_coroutine(Limits.lanes)
    lane = as_coroutine(Limits.lane)

    def __aiter__(self) -> AsyncIterator[Limit]:
        return Iteration(self, partial(Limits.__iter__, self._sync))
