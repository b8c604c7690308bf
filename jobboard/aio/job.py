"""The handle on a job for asyncio and Trio."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from jobboard.aio.pending import current_notify
from jobboard.aio.threads import Threads
from jobboard.aio.wrapper import AsyncProperty, AsyncWrapper, as_async_iterator, as_coroutine
from jobboard.backends.base import Backend
from jobboard.backends.rows import JobRow
from jobboard.client.gathering import ItemRequest, RequestGenerator
from jobboard.client.reader import END_EVENTS, LAST_ANSWER_TIMEOUT, EndWait, JobEnd
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, HistoryEntry
from jobboard.job import Job, JobHandle, result_of, row_of
from jobboard.logbook import BookRef, LogBook
from jobboard.record import Record
from jobboard.states import JobState
from jobboard.types import Seconds
from jobboard.validation import check_timeout

if TYPE_CHECKING:
    from jobboard.aio.board import AsyncJobBoard


class AsyncJob(JobHandle, AsyncWrapper):
    """A light handle on one job: a :class:`~jobboard.Job` of which all that asks the store is awaited.

    The posting's fields, ``record`` and ``token`` are plain attributes, as on a :class:`~jobboard.Job`. ``await
    job.state``, ``await job.wait()`` and their like ask the store each time.
    """

    __slots__ = ("_sync", "_threads", "board")

    details: dict[str, Any] | None
    key: str | None
    max_attempts: int | None
    lane: str | None
    book_uuid: str | None
    book_name: str | None
    book_ref: BookRef | None
    schedule_id: str | None
    fire_time: datetime | None
    trace: dict[str, str]
    created_on: datetime
    run_at: datetime | None
    raw: bytes
    store: str
    record: Record

    _of = Job

    def __init__(self, board: AsyncJobBoard, job: Job, threads: Threads) -> None:
        self.board = board
        self._sync = job
        self._threads = threads

    def __getattr__(self, name: str) -> Any:
        if name in FACTS:
            return getattr(self._sync, name)
        raise AttributeError(f"an AsyncJob has no attribute {name!r}")

    @property
    def _order(self) -> tuple[int, float, int]:
        order: tuple[int, float, int] = self._sync._order
        return order

    def _take_claim(self, row: JobRow) -> None:
        self._sync._take_claim(row)

    def _shown(self, value: Any) -> Any:
        return value

    state = AsyncProperty[JobState]()
    owner = AsyncProperty[str | None]()
    last_modified = AsyncProperty[datetime]()
    attempts = AsyncProperty[int]()
    last_error = AsyncProperty[str | None]()
    result = AsyncProperty[Any]()
    checkpoint = AsyncProperty[Any]()
    history = AsyncProperty[tuple[HistoryEntry, ...]]()
    cancelled = AsyncProperty[bool]()
    book = AsyncProperty[LogBook | None]()

    parents = as_async_iterator(Job.parents)
    children = as_async_iterator(Job.children)
    steps = as_async_iterator(Job.steps)
    signals = as_coroutine(Job.signals)

    expires_in = as_coroutine(Job.expires_in)
    extend_expiry = as_coroutine(Job.extend_expiry)
    checkpoint_state = as_coroutine(Job.checkpoint_state)

    async def wait(self, timeout: Seconds | None = None) -> bool:
        """Wait until the job has ended, as :meth:`Job.wait() <jobboard.Job.wait>` does; takes no thread meanwhile.

        :param timeout: seconds; None to wait without end.
        :returns: True if it is complete; :attr:`record` is fresh then.
        :raises BoardUnavailable: the store does not answer, 3 seconds after the timeout at most.
        """
        return (await self._wait_for_end(timeout)).kind is EventKind.CONSUMED

    async def get_result(self, timeout: Seconds | None = None) -> Any:
        """Wait for the job's end, and return what its handler returned, or raise what
        :meth:`Job.get_result() <jobboard.Job.get_result>` raises.

        :param timeout: seconds; None to wait without end.
        """
        return result_of(self._sync, await self._wait_for_end(timeout))

    async def _wait_for_end(self, timeout: Seconds | None) -> JobEnd:
        seconds = check_timeout(timeout)
        wait, client = EndWait(row_of(self._sync), seconds), self.board.client
        client.check_open()
        try:
            with anyio.fail_after(None if seconds is None else seconds + LAST_ANSWER_TIMEOUT):
                end = await self._look_until_it_ends(wait, client.backend)
        except TimeoutError:
            raise BoardUnavailable(f"the store did not answer whether job {self.uuid} has ended") from None
        self._sync._update(end.row)
        return end

    async def _look_until_it_ends(self, wait: EndWait, backend: Backend) -> JobEnd:
        notify, changed = current_notify(), [anyio.Event()]
        note = wait.noting(lambda: notify(changed[0].set))
        unlisten = await self._threads.run(partial(backend.listen, note, END_EVENTS), lambda end: end())
        try:
            while wait.result is None:
                changed[0] = anyio.Event()
                pause = wait.look(await self._threads.gather("read", _read(backend, self.uuid)))
                with anyio.move_on_after(pause):
                    await changed[0].wait()
            return wait.result
        finally:
            self._threads.later(unlisten)


#: What a handle knows without asking the store.
FACTS = frozenset({*JobHandle.__annotations__, *AsyncJob.__annotations__} - {"board"})


def _read(backend: Backend, uuid: str) -> RequestGenerator[JobRow | None]:
    row, _ = yield ItemRequest(backend.jobs.read, uuid, uuid)
    return row  # type: ignore[no-any-return]
