"""What an ``async`` handler gets: its job, of which no call blocks the event loop."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from jobboard.conductor.job_facts import JobFacts
from jobboard.conductor.running_job import RunningJob
from jobboard.logbook import LogBook

if TYPE_CHECKING:
    from jobboard.aio import AsyncJobBoard

T = TypeVar("T")

_MAX_THREADS = 8


class Begun(Generic[T], Awaitable[T]):
    """A call that has begun, whether or not it is awaited."""

    def __init__(self, running: Awaitable[T]) -> None:
        self._running = running
        self.is_awaited = False

    def __await__(self) -> Generator[Any, Any, T]:
        self.is_awaited = True
        return self._running.__await__()


class AsyncRunningJob(JobFacts):
    """A claimed job as its ``async`` handler sees it: a :class:`~jobboard.RunningJob` of which each call is awaited.

    No call blocks the event loop. The calls of one job are made one after the other. What the handler has not awaited
    is awaited when it returns.
    """

    def __init__(self, job: RunningJob) -> None:
        self._job = job
        self._snapshot = job._snapshot
        self._begun: list[Begun[Any]] = []

    @property
    def lost(self) -> bool:
        """Whether the claim is lost: stop, since another owner may run the job now."""
        return self._job.lost

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked for the job's cancel: raise :class:`~jobboard.Cancelled`, or finish."""
        return self._job.cancelled

    @property
    def checkpoint(self) -> Any:
        """The last checkpoint, which this run or an earlier owner wrote; None if there is none."""
        return self._job.checkpoint

    @property
    def board(self) -> AsyncJobBoard:
        """The board that the job is on, for asyncio; all ``async`` handlers of a board share requests.

        Its ``close``, and the end of an ``async with`` block, do nothing: the conductor goes on using it.

        :raises RuntimeError: in a worker process, which has no board.
        :raises MissingExtra: the extra ``aio`` is not installed.
        """
        from jobboard.aio.board import AsyncJobBoard

        return AsyncJobBoard.of(self._job.board)

    def checkpoint_state(self, state: Any) -> Awaitable[None]:
        """Write a checkpoint, as :meth:`RunningJob.checkpoint_state` does."""
        return self._begin(lambda: self._job.checkpoint_state(state))

    def complete(self, result: Any = None, *, connection: Any = None, board: Any = None) -> Awaitable[None]:
        """Complete the job, as :meth:`RunningJob.complete` does.

        :param connection: an ``AsyncSession`` or ``AsyncConnection``, or what their ``run_sync`` lends.
        """
        if connection is None:
            return self._begin(lambda: self._job.complete(result, board=board))
        # Not in another thread: the connection belongs to this one.
        return self._job.complete(result, connection=connection, board=board) or _Done()

    def progress(self, done: float, total: float | None = None, text: str | None = None) -> Awaitable[None]:
        """Report how far the job is, as :meth:`RunningJob.progress` does; makes no request."""
        self._job.progress(done, total, text)
        return _Done()

    @property
    def book(self) -> Awaitable[LogBook | None]:
        """The logbook that the job points at, loaded anew; None if it has none."""
        return self._begin(lambda: self._job.book)

    def save_book(self, book: LogBook) -> Awaitable[None]:
        """Make a logbook durable, as :meth:`RunningJob.save_book` does."""
        return self._begin(lambda: self._job.save_book(book))

    async def finish(self) -> None:
        """Await what the handler has begun and not awaited; raises what that raises."""
        for begun in self._begun:
            if not begun.is_awaited:
                await begun

    def _begin(self, call: Callable[[], T]) -> Begun[T]:
        earlier = self._begun[-1]._running if self._begun else None
        begun = Begun(asyncio.ensure_future(_in_thread(call, earlier)))
        self._begun = [*[one for one in self._begun if not one.is_awaited], begun]
        return begun

    def __repr__(self) -> str:
        return f"<Async{repr(self._job)[1:]}"


async def _in_thread(call: Callable[[], T], earlier: Any) -> T:
    if earlier is not None:
        await asyncio.wait([earlier])
    own: Callable[[], T] = functools.partial(copy_context().run, call)
    return await asyncio.get_running_loop().run_in_executor(_threads(os.getpid()), own)


@functools.cache
def _threads(_pid: int) -> ThreadPoolExecutor:
    """Return this process's threads for the calls of all handlers; those of the loop may be busy with theirs."""
    return ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="jobboard-handlers")


class _Done(Awaitable[None]):
    def __await__(self) -> Generator[Any, Any, None]:
        return
        yield
