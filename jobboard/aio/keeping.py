"""Keeps the claims of one owner for tasks of asyncio and Trio."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

import anyio

from jobboard.aio.job import AsyncJob
from jobboard.aio.pending import current_notify
from jobboard.aio.threads import Threads
from jobboard.board import JobBoard
from jobboard.job import Job
from jobboard.types import Seconds

if TYPE_CHECKING:
    from jobboard.aio.board import AsyncJobBoard


class AsyncKeeper:
    """Renews all claims of one owner that are made through one board, for an ``async with`` block.

    Get one from :meth:`AsyncJobBoard.keep`. It takes one thread.
    """

    def __init__(
        self,
        board: AsyncJobBoard,
        plain: JobBoard,
        threads: Threads,
        who: str,
        expiry: Seconds | None,
        on_lost: Callable[[AsyncJob], object] | None,
    ) -> None:
        if inspect.iscoroutinefunction(on_lost):
            raise TypeError("on_lost must be a plain function; let it cancel a scope, or start a task")
        self._board, self._threads, self._on_lost = board, threads, on_lost
        self._keeper = plain.keep(who, expiry, None if on_lost is None else self._report_loss)

    async def __aenter__(self) -> Self:
        self._notify = current_notify()
        await self._threads.run(self._keeper.__enter__, lambda keeper: keeper.stop())
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await self._threads.run(self._keeper.stop)

    @property
    def held(self) -> list[AsyncJob]:
        """The jobs whose claims are kept now."""
        return [self._shown(job) for job in self._keeper.held]

    @property
    def unrenewed(self) -> list[AsyncJob]:
        """The jobs whose claims the last renewal could not reach, and which are not lost yet."""
        return [self._shown(job) for job in self._keeper.unrenewed]

    def _shown(self, job: Job) -> AsyncJob:
        return AsyncJob(self._board, job, self._threads)

    def _report_loss(self, job: Job) -> None:
        """Is called in the keeper's thread."""
        self._notify(self._on_lost, self._shown(job))
