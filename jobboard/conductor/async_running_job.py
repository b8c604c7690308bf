"""What an ``async`` handler gets: its job, of which no call blocks the event loop."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from jobboard.conductor.job_facts import JobFacts
from jobboard.conductor.running_job import Made, RunningJob
from jobboard.conductor.steps import inside_step, is_inside_step
from jobboard.family import Parent
from jobboard.job import JobOrUuid, Posting
from jobboard.logbook import LogBook
from jobboard.types import Seconds

if TYPE_CHECKING:
    from jobboard.aio import AsyncJobBoard

T = TypeVar("T")
P = ParamSpec("P")

_MAX_THREADS = 8


class Begun(Generic[T], Awaitable[T]):
    """A call that has begun, whether or not it is awaited."""

    def __init__(self, running: Awaitable[T]) -> None:
        self._running = running
        self.is_awaited = False

    def __await__(self) -> Generator[Any, Any, T]:
        self.is_awaited = True
        return self._running.__await__()


class AsyncRunningJob(JobFacts, Generic[Made]):
    """A claimed job as its ``async`` handler sees it: a :class:`~jobboard.RunningJob` of which each call is awaited.

    No call blocks the event loop. The calls of one job are made one after the other. What the handler has not awaited
    is awaited when it returns. ``AsyncRunningJob[Pools]`` tells type checkers the type of its ``resources``.
    """

    def __init__(self, job: RunningJob[Made]) -> None:
        self._job = job
        self._snapshot = job._snapshot
        self._begun: list[Begun[Any]] = []
        #: The last call in a thread: it goes on there if the task that awaits it is cancelled.
        self._in_thread: Future[Any] | None = None

    @property
    def lost(self) -> bool:
        """Whether the claim is lost: stop, since another owner may run the job now."""
        return self._job.lost

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked for the job's cancel: raise :class:`~jobboard.Cancelled`, or finish."""
        return self._job.cancelled

    @property
    def resources(self) -> Made:
        """What the lifespan of its handler's collection has made, as for :attr:`RunningJob.resources`."""
        return self._job.resources

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

    async def parents(self) -> AsyncIterator[Parent]:
        """Iterate over the jobs that this one has waited for, as :meth:`RunningJob.parents` does."""
        job = await self.board.get(self._job.uuid)
        async for parent in job.parents():
            yield parent

    def checkpoint_state(self, state: Any) -> Awaitable[None]:
        """Write a checkpoint, as :meth:`RunningJob.checkpoint_state` does."""
        return self._begin(lambda: self._job.checkpoint_state(state))

    @overload
    def step(self, name: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...
    @overload
    def step(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...
    def step(self, name: str, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[Any]:
        """Call a function once for this job, as :meth:`RunningJob.step` does; a plain one runs in a thread."""
        return self._begin_task(self._step(name, functools.partial(fn, *args, **kwargs), self._earlier()))

    async def _step(self, name: str, call: Callable[[], Any], earlier: Any) -> Any:
        if earlier is not None:
            await asyncio.wait([earlier])
        steps = self._job._steps_now()
        with steps.alone(name):
            row = await self._call_in_thread(lambda: steps.begin(name))
            if row is not None:
                return steps.result_of(row)
            began = time.perf_counter()
            with inside_step():
                value = call() if inspect.iscoroutinefunction(call) else await asyncio.to_thread(call)
                if inspect.isawaitable(value):
                    value = await value
            return await self._call_in_thread(lambda: steps.save(name, value, time.perf_counter() - began))

    def sleep(self, seconds: Seconds) -> Awaitable[None]:
        """End the run, and go on here in another one after so many seconds, as :meth:`RunningJob.sleep` does."""
        return self._begin(lambda: self._job.sleep(seconds))

    def wait_for(self, name: str, timeout: Seconds | None = None) -> Awaitable[Any]:
        """Return the value of a signal, or end the run until it is sent, as :meth:`RunningJob.wait_for` does."""
        return self._begin(lambda: self._job.wait_for(name, timeout))

    def wait_for_jobs(self, name: str, jobs: Iterable[Posting | JobOrUuid]) -> Awaitable[list[Parent]]:
        """Return how several jobs have ended, or end the run until they have; as :meth:`RunningJob.wait_for_jobs`."""
        return self._begin(lambda: self._job.wait_for_jobs(name, jobs))

    async def end_with(self, result: Any) -> Any:
        """Return what the handler has returned, or what its steps make of it."""
        return await self._call_in_thread(lambda: self._job._steps_now().returned(result))

    def complete(
        self, result: Any = None, *, post: Iterable[Posting] = (), connection: Any = None, board: Any = None
    ) -> Awaitable[None]:
        """Complete the job, as :meth:`RunningJob.complete` does.

        :param connection: an ``AsyncSession`` or ``AsyncConnection``, or what their ``run_sync`` lends.
        """
        if connection is None:
            return self._begin(lambda: self._job.complete(result, post=post, board=board))
        # Not in another thread: the connection belongs to this one.
        return self._job.complete(result, post=post, connection=connection, board=board) or _Done()

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
        return self._begin_task(self._call_in_thread(call, self._earlier()))

    def _earlier(self) -> Any:
        """Return the call after which the next one is made; what a step calls does not wait for that step."""
        return self._begun[-1]._running if self._begun and not is_inside_step() else None

    def _begin_task(self, call: Coroutine[Any, Any, T]) -> Begun[T]:
        begun = Begun(asyncio.ensure_future(call))
        self._begun = [*[one for one in self._begun if not one.is_awaited], begun]
        return begun

    async def _call_in_thread(self, call: Callable[[], T], earlier: Any = None) -> T:
        if earlier is not None:
            await asyncio.wait([earlier])
        # Also for one whose task was cancelled: two steps would get the same number, and the older of two checkpoints
        # could be written last.
        while (last := self._in_thread) is not None and not last.done():
            await asyncio.shield(asyncio.gather(asyncio.wrap_future(last), return_exceptions=True))
        own: Callable[[], T] = functools.partial(copy_context().run, call)
        running = self._in_thread = _threads(os.getpid()).submit(own)
        return await asyncio.wrap_future(running)

    def __repr__(self) -> str:
        return f"<Async{repr(self._job)[1:]}"


@functools.cache
def _threads(_pid: int) -> ThreadPoolExecutor:
    """Return this process's threads for the calls of all handlers; those of the loop may be busy with theirs."""
    return ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="jobboard-handlers")


class _Done(Awaitable[None]):
    def __await__(self) -> Generator[Any, Any, None]:
        return
        yield
