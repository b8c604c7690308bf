"""The board itself: opened and closed."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from jobboard.backends.base import Backend, Capabilities
from jobboard.backends.findings import Migration
from jobboard.backends.rows import Verdict
from jobboard.board.books import Books
from jobboard.board.consuming import Consuming
from jobboard.board.fences import Fences
from jobboard.board.handles import JobHandles
from jobboard.board.keeping import Keeper
from jobboard.board.operating import Operating
from jobboard.board.postings import Postings
from jobboard.board.producing import Producing
from jobboard.board.watching import Watching
from jobboard.client import BackendClient
from jobboard.errors import BoardUnavailable
from jobboard.job import Job, JobHandle
from jobboard.participants import Entity
from jobboard.types import Seconds
from jobboard.validation import check_expiry, check_seconds, check_text

if TYPE_CHECKING:
    from jobboard.schedules.collection import Schedules


class JobBoard(Producing, Consuming, Watching, Operating):
    """A board where jobs are posted, claimed by exactly one owner, and consumed.

    Get one from :func:`jobboard.fetch` or :func:`jobboard.backend`. Thread-safe; a context manager that connects and
    closes. After ``close`` every call but ``connect`` raises :class:`~jobboard.BoardUnavailable`, as does every call
    while the store can't be reached.

    :param name: the board's name; boards of two names share nothing.
    :param options: those of every board; :func:`jobboard.fetch` says which.
    """

    def __init__(self, name: str, backend: Backend, **options: Any) -> None:
        self._use(BackendClient(name, backend, **options), backend)

    def _use(self, client: BackendClient, backend: Backend) -> None:
        self._client = client
        self._backend = backend
        self._handles = JobHandles(self, client)
        self._fences = Fences(client, self._handles)
        self._books = Books(client, backend, self._handles)
        self._postings = Postings(client, backend)

    @property
    def name(self) -> str:
        """The board's name."""
        return self._client.name

    @property
    def store(self) -> str:
        """The kind of store behind the board, such as ``"sqlite"``."""
        return self._backend.scheme

    @property
    def capabilities(self) -> Capabilities:
        """What the store behind the board can do, as data."""
        return self._backend.capabilities

    @property
    def connected(self) -> bool:
        """Whether the store can be reached, as far as this client knows; no request."""
        return self._client.connected

    @cached_property
    def schedules(self) -> Schedules:
        """The schedules that live on this board."""
        # Here, because a program without schedules should not wait for the import of triggers and time zones.
        from jobboard.schedules.collection import Schedules

        return Schedules(self._client, self._handles.any)

    def keep(self, who: str, expiry: Seconds | None = None, on_lost: Callable[[Job], object] | None = None) -> Keeper:
        """Renew all claims of one owner that are made through this board, for the time of a ``with`` block.

        One thread renews them, all in one request, three times within their expiry and every 10 seconds at least. A
        claim that ends is renewed no more, and neither is any after the block.

        :param who: the owner's name, under which the jobs are claimed.
        :param expiry: seconds that a claim lasts after a renewal; None for the board's default.
        :param on_lost: is called with a job whose claim is lost, once, from that thread: stop the work on it, and
            return at once. Also if the store can't be reached until the claim's time is over; not if an end of the
            claim was sent, which raises :class:`~jobboard.ClaimLost` by itself.
        """
        seconds = self._client.expiry if expiry is None else check_expiry(expiry)
        return Keeper(self, self._client, self._handles, check_text("who", who), seconds, on_lost)

    def connect(self, timeout: Seconds = 10.0) -> None:
        """Open the board; nothing happens if it is open. Also after a ``close``, and in a child after a fork.

        :param timeout: seconds, more than 0, for all of it.
        :raises BoardUnavailable: the store can't be reached or used, and why.
        :raises NotFound: with ``create=False``: there is no such board; says which there are. In memory nobody can
            tell.
        """
        self._client.connect(_check_timeout(timeout))

    def close(self) -> None:
        """Release the store; claims stay as they are, subscriptions end. Idempotent."""
        self._client.close()

    def migrate(self, timeout: Seconds = 10.0) -> Migration:
        """Make the tables of an SQL store, or bring the board to the layout that this code uses; it need not be open.

        Stop all programs that use the board first, if it has an earlier layout. Idempotent: a call goes on where an
        interrupted one ended, and calls of other clients at the same time do no harm.

        :param timeout: seconds for the connection, and for each wait for others; the work itself takes as long as the
            board is large.
        :returns: the layout or version that was found, and the one that it has now.
        :raises BoardUnavailable: the store can't be reached, lacks a right, or was made by a newer jobboard.
        :raises NotSupported: the store keeps nothing, as memory does.
        """
        return self._backend.migrate(_check_timeout(timeout))

    def statements_of_migration(self, timeout: Seconds = 10.0) -> list[str]:
        """Return the SQL that :meth:`migrate` would execute now, in order; changes nothing.

        :param timeout: seconds.
        :raises BoardUnavailable: the store can't be reached, or was made by a newer jobboard.
        :raises NotSupported: the store has no SQL.
        """
        return self._backend.statements_of_migration(_check_timeout(timeout))

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "connected" if self.connected else "closed"
        return f"<JobBoard {self.name!r} on {self.store}, {state}>"


def _own_methods_of_parts(board: type) -> None:
    """Let Python's own errors say ``JobBoard.post() got ...``, whichever part of the board has the method."""
    for part in board.__mro__[1:-1]:
        for name, method in vars(part).items():
            if inspect.isfunction(method):
                for function in (method, getattr(method, "generator", method)):
                    function.__qualname__ = f"{board.__name__}.{name}"


_own_methods_of_parts(JobBoard)
# A board hands its options on.
BackendClient.__init__.__qualname__ = "JobBoard.__init__"


def _check_timeout(value: object) -> float:
    seconds = check_seconds("timeout", value)
    if seconds <= 0:
        raise ValueError(f"timeout must be more than 0 seconds; got {value!r}")
    return seconds


def client_of(board: JobBoard) -> BackendClient:
    """Return the client of a board, for the parts of jobboard that need more than users do."""
    return board._client


def handles_of(board: JobBoard) -> JobHandles:
    """Return what makes handles of a board's rows, likewise."""
    return board._handles


def register(board: JobBoard, entity: Entity, orders: str | None) -> bool:
    """Register an entity, likewise; return whether the board may have the logbook ``orders``."""
    return board._register(entity, orders)


def extend_each(
    board: JobBoard, jobs: Sequence[JobHandle], who: str, expiry: float
) -> list[Verdict | BoardUnavailable]:
    """Extend as ``extend_many`` does, likewise; return why the store refuses those that it refuses.

    :raises BoardUnavailable: the store is away.
    """
    return board._extend_each(jobs, who, expiry, None)


def claims_for(
    board: JobBoard, who: str, names: Collection[str] | None, expiry: Seconds | None
) -> Callable[[int], list[Job]]:
    """Return a board's ``claim_next`` for one owner, likewise: its argument is the limit, and the rest is checked."""
    return board._claims_for(who, names, expiry)


class LentBoard(JobBoard):
    """A board whose connection belongs to somebody else, who goes on using it; one for all handlers.

    All calls do what they do on that board. But ``close`` and the end of a ``with`` block do nothing, however often.
    """

    def __init__(self, board: JobBoard) -> None:
        self._use(board._client, board._backend)
        self._pid = os.getpid()

    def close(self) -> None:
        """Do nothing: whoever opened the board closes it. In a child after a fork, release what that has opened."""
        if os.getpid() != self._pid:
            super().close()


def lend(board: JobBoard) -> JobBoard:
    """Return a board that works like this one and can't be closed; always the same one."""
    if isinstance(board, LentBoard):
        return board
    lent: LentBoard | None = vars(board).get("_lent")
    return vars(board).setdefault("_lent", LentBoard(board)) if lent is None else lent
