"""The board for asyncio and Trio."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Callable, Collection
from functools import cached_property, partial
from typing import Any, Protocol, Self, cast, overload

import anyio

from jobboard.aio.events import EventStream
from jobboard.aio.job import AsyncJob
from jobboard.aio.keeping import AsyncKeeper
from jobboard.aio.limits import AsyncLimits
from jobboard.aio.schedules import AsyncSchedules
from jobboard.aio.threads import Threads
from jobboard.aio.wrapper import AsyncProperty, AsyncWrapper, Iteration, as_async_iterator, as_coroutine
from jobboard.backends.base import Capabilities
from jobboard.board import JobBoard, client_of
from jobboard.client import BackendClient
from jobboard.events import EventKind
from jobboard.job import Job, JobHandle, JobOrUuid
from jobboard.types import Seconds

_GONE = "whoever claimed it was cancelled"


def _abandon(board: JobBoard, token: int, job: JobHandle | str, who: str, expiry: Seconds | None = None) -> None:
    board.abandon(job, who, token=token, reason=_GONE, counted=False)


def _abandon_all(board: JobBoard, jobs: list[Job], who: str, *_: object, **__: object) -> None:
    for job in jobs:
        board.abandon(job, who, reason=_GONE, counted=False)


class _Trash(Protocol):
    """The ways to call ``trash``: of a method's overloads, a type checker makes a coroutine of the first one only."""

    @overload
    async def __call__(
        self,
        job: JobOrUuid,
        who: str,
        *,
        reason: str | None = None,
        error: str | None = None,
        token: int | None = None,
        force: bool = False,
    ) -> None: ...
    @overload
    async def __call__(
        self, job: JobOrUuid, *, by: str | None = None, reason: str | None = None, error: str | None = None
    ) -> None: ...


class AsyncJobBoard(AsyncWrapper):
    """A board of which all that asks the store is awaited: a :class:`~jobboard.JobBoard` for asyncio and Trio.

    Get one from :func:`jobboard.aio.fetch` or :func:`jobboard.aio.backend`; or make one of a board that is there, which
    it shares with other users of that board. Names, arguments, results and errors are those of
    :class:`~jobboard.JobBoard`; its handles are :class:`AsyncJob`. No call blocks the event loop.

    What many tasks post, extend, consume, abandon, trash and cancel while such a request is under way goes together
    into the next one. Cancelling a task withdraws what was not sent. What was sent takes effect all the same, but
    claims are abandoned.

    :param board: the board below.
    """

    _of = JobBoard

    def __init__(self, board: JobBoard) -> None:
        self._sync: JobBoard = board
        self._threads = Threads(client_of(board))
        self._streams: weakref.WeakSet[EventStream] = weakref.WeakSet()

    @classmethod
    def of(cls, board: JobBoard) -> Self:
        """Return the one that all users of a plain board share, so that they share requests too."""
        shared: Self = vars(board).setdefault("_async_board", cls(board))
        return shared

    @property
    def name(self) -> str:
        """The board's name."""
        return self._sync.name

    @property
    def store(self) -> str:
        """The kind of store behind the board, such as ``"sqlite"``."""
        return self._sync.store

    @property
    def capabilities(self) -> Capabilities:
        """What the store behind the board can do, as data."""
        return self._sync.capabilities

    @property
    def connected(self) -> bool:
        """Whether the store can be reached, as far as this client knows; no request."""
        return self._sync.connected

    @cached_property
    def schedules(self) -> AsyncSchedules:
        """The schedules that live on this board."""
        return AsyncSchedules(self, self._sync.schedules, self._threads)

    @cached_property
    def limits(self) -> AsyncLimits:
        """How many jobs of a name or a lane may run, how often, and in which order."""
        return AsyncLimits(self, self._sync.limits, self._threads)

    @property
    def client(self) -> BackendClient:
        return client_of(self._sync)

    connect = as_coroutine(JobBoard.connect, lambda board, *_: board.close())
    migrate = as_coroutine(JobBoard.migrate)
    statements_of_migration = as_coroutine(JobBoard.statements_of_migration)

    post = as_coroutine(JobBoard.post)
    post_many = as_coroutine(JobBoard.post_many)
    cancel = as_coroutine(JobBoard.cancel)
    cancel_by_key = as_coroutine(JobBoard.cancel_by_key)
    cancel_by_lane = as_coroutine(JobBoard.cancel_by_lane)
    save_book = as_coroutine(JobBoard.save_book)

    claim = as_coroutine(JobBoard.claim, _abandon)
    claim_next = as_coroutine(JobBoard.claim_next, _abandon_all)
    extend = as_coroutine(JobBoard.extend)
    extend_many = as_coroutine(JobBoard.extend_many)
    consume = as_coroutine(JobBoard.consume)
    consume_many = as_coroutine(JobBoard.consume_many)
    abandon = as_coroutine(JobBoard.abandon)
    trash = cast(_Trash, as_coroutine(JobBoard.trash))
    checkpoint = as_coroutine(JobBoard.checkpoint)

    get = as_coroutine(JobBoard.get)
    find = as_coroutine(JobBoard.find)
    graph = as_coroutine(JobBoard.graph)
    find_owner = as_coroutine(JobBoard.find_owner)
    job_count = AsyncProperty[int]()
    stats = as_coroutine(JobBoard.stats)
    iterjobs = as_async_iterator(JobBoard.iterjobs)
    load_book = as_coroutine(JobBoard.load_book)
    books = as_async_iterator(JobBoard.books)

    signal = as_coroutine(JobBoard.signal)
    release = as_coroutine(JobBoard.release)
    run_now = as_coroutine(JobBoard.run_now)
    reprioritize = as_coroutine(JobBoard.reprioritize)
    trashed = as_async_iterator(JobBoard.trashed)
    restore = as_coroutine(JobBoard.restore)
    purge = as_coroutine(JobBoard.purge)
    pause = as_coroutine(JobBoard.pause)
    resume = as_coroutine(JobBoard.resume)
    paused = as_coroutine(JobBoard.paused)
    pauses = as_coroutine(JobBoard.pauses)
    audit = as_coroutine(JobBoard.audit)
    register_entity = as_coroutine(JobBoard.register_entity)
    remove_entity = as_coroutine(JobBoard.remove_entity)
    entities = as_coroutine(JobBoard.entities)
    destroy_book = as_coroutine(JobBoard.destroy_book)

    def wait(self, timeout: Seconds | None = None, names: Collection[str] | None = None) -> AsyncIterator[AsyncJob]:
        """Wait until a job can be claimed, for ``async for``; arguments and errors as for :meth:`JobBoard.wait`.

        It takes a thread meanwhile; a board has 64 for that.
        """
        return Iteration(self, partial(self._sync._wait, timeout, names), waits=True)

    def keep(
        self, who: str, expiry: Seconds | None = None, on_lost: Callable[[AsyncJob], object] | None = None
    ) -> AsyncKeeper:
        """Renew all claims of one owner that are made through this board, for the time of an ``async with`` block.

        :param who: the owner's name.
        :param expiry: as for :meth:`JobBoard.keep`.
        :param on_lost: is called in the event loop with a job whose claim is lost, once; a plain function.
        """
        return AsyncKeeper(self, self._sync, self._threads, who, expiry, on_lost)

    def subscribe(self, kinds: Collection[EventKind] | None = None) -> EventStream:
        """Return later events, whichever client made them, for ``async with`` and ``async for``.

        Events are hints: each arrives at most once, in order per job; a reader that is 10,000 behind misses some.

        :param kinds: only events of these kinds; None for all.
        """
        stream = EventStream(self._sync, self._threads, kinds)
        self._streams.add(stream)
        return stream

    async def close(self) -> None:
        """Release the store; claims stay as they are, subscriptions end. Idempotent.

        Of a board that a conductor lends to its handlers it does nothing.
        """
        with anyio.CancelScope(shield=True):
            await self._threads.run(self._sync.close)
        if self.client.is_open:
            # It is lent to handlers, and others use it.
            return
        self._threads.close()
        for stream in list(self._streams):
            stream.end()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _shown(self, value: Any) -> Any:
        if isinstance(value, Job):
            return AsyncJob(self, value, self._threads)
        if isinstance(value, list):
            return [self._shown(item) for item in value]
        return value

    def __repr__(self) -> str:
        state = "connected" if self.connected else "closed"
        return f"<AsyncJobBoard {self.name!r} on {self.store}, {state}>"
