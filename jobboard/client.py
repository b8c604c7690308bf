"""The board's link to its backend: open and closed, and a request that is sent until its answer is known."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from jobboard.backends.base import Backend
from jobboard.backends.rows import Migration
from jobboard.backends.timelimit import is_time_over, time_limit
from jobboard.codec import LARGEST, LARGEST_DETAILS
from jobboard.errors import BoardUnavailable, NotFound, ReplyLost
from jobboard.newer import Newer
from jobboard.subscriptions import Subscriptions
from jobboard.tokens import Tokens
from jobboard.validation import check_count, check_delay, check_expiry, check_number, check_text

logger = logging.getLogger("jobboard.board")

P = ParamSpec("P")
T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
#: How many boards an error names.
_MOST_SHOWN = 20
_TIDY_EVERY, _TIDY_AGAIN, _TIDY_AT_ONCE = 5.0, 0.1, 1000


class BackendClient:
    """What all parts of a board stand on.

    :param name: the board's name; boards of two names share nothing.
    :param expiry: seconds that a claim lasts unless it says otherwise; ``math.inf`` for never.
    :param retention: seconds that the record of a consumed job stays readable; 0 for none.
    :param largest_details: bytes that details, a result or a checkpoint may take once encoded; at most 8 MiB.
    :param patience: seconds for which a request is repeated after its reply was lost.
    :param least_interval: seconds of the shortest ``Every`` that a schedule may have to be added or fired.
    :param create: False: ``connect`` refuses a board that nobody has opened or used before, instead of making it.
    """

    def __init__(
        self,
        name: str,
        backend: Backend,
        *,
        expiry: float = 30.0,
        retention: float = 3600.0,
        largest_details: int = LARGEST_DETAILS,
        patience: float = 5.0,
        least_interval: float = 1.0,
        create: bool = True,
    ) -> None:
        self._name = check_text("a board's name", name)
        self._backend = backend
        self._expiry = check_expiry(expiry)
        self._retention = check_delay(retention, "retention")
        self._largest = check_count("largest_details", largest_details)
        if largest_details > LARGEST:
            raise ValueError(f"largest_details must be at most {LARGEST} bytes, since no client reads more")
        self._patience = check_delay(patience, "patience")
        self._least_interval = check_delay(least_interval, "least_interval")
        self._create = create
        self._lock = threading.Lock()
        _all.add(self)
        self._closed = threading.Event()
        self._closed.set()
        self._pid = os.getpid()
        self._tokens = Tokens()
        self._newer = Newer(self._name)
        self._subscriptions = Subscriptions()
        self._tidied = time.monotonic()

    @property
    def name(self) -> str:
        return self._name

    @property
    def store(self) -> str:
        """The kind of store behind the board, such as ``"sqlite"``."""
        return self._backend.scheme

    @property
    def connected(self) -> bool:
        """Whether the store can be reached, as far as this client knows; no request."""
        return self._is_open() and self._backend.connected

    def connect(self, timeout: float = 10.0) -> None:
        """Open the board within ``timeout`` seconds; nothing happens if it is open. Also after a ``close``.

        :raises BoardUnavailable: the store can't be reached or used, and why.
        :raises NotFound: with ``create=False``: there is no such board; says which there are. In memory nobody can
            tell.
        """
        seconds = check_number("timeout", timeout)
        if seconds <= 0:
            raise ValueError(f"timeout must be more than 0 seconds; got {timeout!r}")
        with self._lock:
            if self._is_open():
                return
            with time_limit(seconds):
                if not self._create:
                    self._check_that_it_is_there(seconds)
                self._backend.open(seconds)
            self._pid = os.getpid()
            self._subscriptions = Subscriptions()
            self._closed.clear()

    def _check_that_it_is_there(self, timeout: float) -> None:
        names = self._backend.boards(timeout)
        if names is None or self._name in names:
            return
        shown = ", ".join(repr(name) for name in sorted(names)[:_MOST_SHOWN])
        more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
        raise NotFound(f"there is no board {self._name!r} in this store; there are: {shown or 'none'}{more}")

    def migrate(self, timeout: float = 10.0) -> Migration:
        """Create the store's schema, or bring it to the version that this code reads; the board need not be connected.

        A board does so too when it is connected, unless its option ``migrate=false`` keeps it from that. Harmless to
        repeat, and for many at a time.

        :raises BoardUnavailable: the store can't be reached, lacks a right, or was made by a newer jobboard.
        :raises NotSupported: the store has no schema.
        """
        return self._backend.migrate(check_number("timeout", timeout))

    def close(self) -> None:
        """Let go of the store; claims stay as they are, subscriptions end. Nothing happens if it is closed."""
        with self._lock:
            if not self._is_open():
                return
            self._closed.set()
            self._backend.close()
            self._subscriptions.close()

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin_anew_in_child(self) -> None:
        # A thread of the parent may hold it in a connect, and that thread is not here to let go.
        self._lock = threading.Lock()

    def _is_open(self) -> bool:
        return not self._closed.is_set() and self._pid == os.getpid()

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise BoardUnavailable(f"board {self._name!r} is closed; call connect() first")
        if self._pid != os.getpid():
            raise BoardUnavailable(f"board {self._name!r} was opened by another process; call connect() in this one")

    def _ask(self, primitive: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the answer to a request that may be repeated without a second thought."""
        return self._insist(primitive, *args, **kwargs)[0]

    def _insist(self, primitive: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[T, bool]:
        """Send a request again, for as long as the patience lasts, while its reply gets lost.

        Returns the answer, and whether an earlier try may have had the effect. A failure is certain only if no
        earlier reply was lost; otherwise the outcome stays unknown, whatever the last error says.
        """
        self._check_open()
        pause, deadline, repeated = _FIRST_PAUSE, 0.0, False
        told: BoardUnavailable | None = None
        while True:
            try:
                if not repeated:
                    return primitive(*args, **kwargs), False
                with time_limit(deadline - time.monotonic()):
                    return primitive(*args, **kwargs), True
            except BoardUnavailable as error:
                if not repeated and not isinstance(error, ReplyLost):
                    raise
                now = time.monotonic()
                deadline = deadline if repeated else now + self._patience
                repeated = True
                # A try that the limit cut short says less than the one before.
                told = error if told is None or now < deadline else told
                if now + pause > deadline or is_time_over() or self._closed.wait(pause):
                    raise ReplyLost(
                        f"whether this request took effect is unknown, since its reply was lost: {told}"
                    ) from told
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _backend_within(self, connection: Any) -> Backend:
        """Return the backend, inside a transaction of the user's if there is one."""
        return self._backend if connection is None else self._backend.within(connection)

    def _batches(self, items: Sequence[T]) -> Iterator[Sequence[T]]:
        """Cut what is longer than the store takes at once."""
        size = self._backend.capabilities.largest_batch
        for start in range(0, len(items), size):
            yield items[start : start + size]

    def _tidy_when_due(self) -> None:
        """Every few seconds one of the board's calls pays for what retention has let go of."""
        now = time.monotonic()
        if now - self._tidied < _TIDY_EVERY:
            return
        self._tidied = now
        try:
            if self._backend.tidy(_TIDY_AT_ONCE) >= _TIDY_AT_ONCE:
                # There is more than one go takes; so that no call pays for all of it, the next one goes on.
                self._tidied = now - _TIDY_EVERY + _TIDY_AGAIN
        except BoardUnavailable as error:
            logger.debug("board %s: tidying is put off: %s", self._name, error)


_all: weakref.WeakSet[BackendClient] = weakref.WeakSet()


def _begin_anew_in_child() -> None:
    for link in list(_all):
        link._begin_anew_in_child()


os.register_at_fork(after_in_child=_begin_anew_in_child)
