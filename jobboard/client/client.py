"""The connection of one board object to its backend, and requests that are sent until their answer is known."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar

from jobboard import telemetry
from jobboard.backends.base import NO_UUID, READS, Backend, Waiter
from jobboard.backends.edge_rows import SignalRow, StepRow
from jobboard.backends.errors import after_a_change, named
from jobboard.backends.roles import check_roles
from jobboard.backends.rows import ClaimAnswer, ClaimRequest, Fence, JobRow
from jobboard.backends.timelimit import is_time_over, time_limit
from jobboard.client.book_sweeper import BookSweeper
from jobboard.client.gathering import ItemRequest, RequestGenerator, ThreadGatherer, finish
from jobboard.client.keepers import Keepers, Tokens
from jobboard.client.newer_formats import NewerFormats
from jobboard.client.recording import recorded
from jobboard.client.sharing import Alone, Answer, Primitive, SharedRequests, own_copy
from jobboard.client.subscriptions import Callback, Subscriptions
from jobboard.codec import MAX_DETAILS, MAX_ENCODED, decode, encode
from jobboard.converter import Converter, check_converter
from jobboard.errors import BoardUnavailable, NotFound, ReplyLost, RequestRefused, is_because_of
from jobboard.events import EventKind, JobEvent
from jobboard.forks import watch_forks
from jobboard.types import Seconds
from jobboard.validation import check_count, check_delay, check_expiry, check_text

logger = logging.getLogger("jobboard.board")

P = ParamSpec("P")
T = TypeVar("T")


class _Paged(Protocol):
    @property
    def cursor(self) -> object | None: ...


AnyPage = TypeVar("AnyPage", bound=_Paged)

_FIRST_RETRY_DELAY, _MAX_RETRY_DELAY = 0.02, 1.0
#: For how many seconds a board that is missing looks for the others, to name them.
_LISTING_TIMEOUT = 2.0
#: Seconds within which a store answers that is there.
_LOOK_TIMEOUT = 2.0
#: Seconds between two tidyings, and to the next one if there was more to tidy than one takes.
_TIDY_INTERVAL, _TIDY_AGAIN_INTERVAL = 5.0, 0.1
_TIDY_BATCH = 1000


def _only_asks(primitive: Callable[..., object]) -> bool:
    """Whether a request is one primitive that changes nothing."""
    return hasattr(primitive, "__self__") and getattr(primitive, "__name__", "") in READS


class BackendClient:
    """All parts of a board send their requests through it; thread-safe.

    :param name: the board's name; boards of two names share nothing.
    :param expiry: seconds that a claim lasts unless it says otherwise; ``math.inf`` for never.
    :param retention: seconds that the record of a consumed job stays readable; 0 for none.
    :param largest_details: bytes that details, a result or a checkpoint may take once encoded; at most 8 MiB.
    :param patience: seconds for which a request is repeated after its reply was lost.
    :param least_interval: seconds of the shortest ``Every`` that a schedule may have when it is added.
    :param gather: whether calls of several threads share requests.
    :param create: False: ``connect`` refuses a board that nobody has opened or used before, instead of making it.
    :param converter: for types that msgpack does not carry.
    """

    def __init__(
        self,
        name: str,
        backend: Backend,
        *,
        expiry: Seconds = 30.0,
        retention: Seconds = 3600.0,
        largest_details: int = MAX_DETAILS,
        patience: Seconds = 5.0,
        least_interval: Seconds = 1.0,
        create: bool = True,
        converter: Converter | None = None,
        gather: bool = False,
    ) -> None:
        self.name = check_text("a board's name", name)
        check_roles(backend)
        self.backend = backend
        self.expiry = check_expiry(expiry)
        self.retention = check_delay(retention, "retention")
        self.largest_details = check_count("largest_details", largest_details)
        if largest_details > MAX_ENCODED:
            raise ValueError(f"largest_details must be at most {MAX_ENCODED} bytes, since no client reads more")
        self.patience = check_delay(patience, "patience")
        self.least_interval = check_delay(least_interval, "least_interval")
        self.converter = check_converter(converter)
        self.tokens = Tokens()
        self.keepers = Keepers()
        self.newer_formats = NewerFormats(self.name)
        self.shared = SharedRequests(self.call_until_certain, self.is_away)
        self._create = create
        self._gather = gather
        self._gatherers: defaultdict[Any, ThreadGatherer] = defaultdict(self._new_gatherer)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._closed.set()
        #: The process that has opened the board; None if it is closed.
        self._opened_in: int | None = None
        self._subscriptions = Subscriptions()
        self._tidied_at = time.monotonic()
        #: Whether the last tidying failed.
        self._is_untidy = False
        self._book_sweeper = BookSweeper(backend)
        watch_forks(self)

    # -- open and closed -------------------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        """Whether the store can be reached, as far as this client knows; no request."""
        return self.is_open and self.backend.connected

    def connect(self, timeout: float) -> None:
        """Open the backend within ``timeout`` seconds, unless it is open."""
        with self._lock:
            if self.is_open:
                return
            with time_limit(timeout):
                if not self._create:
                    self._check_that_board_exists(timeout)
                self.backend.open(timeout)
            self._opened_in = os.getpid()
            self._subscriptions = Subscriptions()
            # After a fork, threads of the parent may have been about to send.
            self._gatherers.clear()
            self._closed.clear()

    def _check_that_board_exists(self, timeout: float) -> None:
        if self.backend.exists(timeout) is False:
            raise NotFound(f"there is no board {self.name!r} in this store; {self._what_there_is(timeout)}")

    def _what_there_is(self, timeout: float) -> str:
        seconds = min(timeout, _LISTING_TIMEOUT)
        try:
            with time_limit(seconds):
                boards = self.backend.boards(seconds) or ()
        except BoardUnavailable as error:
            return f"which there are can't be said: {error}"
        return (
            f"there are: {named(boards)}"
            if boards
            else "it has no boards yet: the first post, or the first conductor, makes one"
        )

    def close(self) -> None:
        """Close the backend, and end the subscriptions; idempotent."""
        with self._lock:
            if not self.is_open:
                return
            self._opened_in = None
            self._closed.set()
            self.backend.close()
            self._subscriptions.close()

    def _begin_anew_in_child(self) -> None:
        # A thread of the parent may hold it in a connect, and no thread of the child would release it.
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether this process has opened the board, and not closed it."""
        return self._opened_in == os.getpid()

    def check_open(self) -> None:
        """Raise :class:`BoardUnavailable` unless this process has opened the board, and not closed it."""
        if self._opened_in is None:
            raise BoardUnavailable(f"board {self.name!r} is closed; call connect() first")
        if self._opened_in != os.getpid():
            raise BoardUnavailable(f"board {self.name!r} was opened by another process; call connect() in this one")

    def sleep(self, seconds: float) -> None:
        """Sleep, but no longer than until ``close``."""
        self._closed.wait(seconds)

    # -- requests --------------------------------------------------------------------------------------------------

    def call(self, primitive: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the answer to a request whose repeat does no harm and says the same."""
        return self.call_until_certain(primitive, *args, **kwargs)[0]

    def call_until_certain(self, primitive: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[T, bool]:
        """Send a request again while its reply gets lost, at most for the seconds of ``patience``.

        Returns the answer, and whether an earlier try may have had the effect. A failure is certain only if no
        earlier reply was lost; otherwise the outcome stays unknown, whatever the last error says.
        """
        self.check_open()
        sent = self._recorded(primitive)
        try:
            return sent(*args, **kwargs), False
        except ReplyLost as error:
            if error.is_partial:
                raise
            return self._repeat(lambda: sent(*args, **kwargs), error, _only_asks(primitive)), True

    def claim_until_certain(self, claim: ClaimRequest, names: frozenset[str] | None, size: int) -> list[JobRow]:
        """Claim up to so many jobs; after a lost reply, look for what was claimed before claiming any more."""
        tried = False

        def claim_next() -> list[JobRow]:
            nonlocal tried
            if tried and (found := self.backend.jobs.claimed_under(claim.claim_id)):
                return found
            tried = True
            return self.backend.jobs.claim_next(claim, names, size)

        return self.call(claim_next)

    def _recorded(self, primitive: Callable[P, T]) -> Callable[P, T]:
        """Return a request that is recorded, if a recorder wants that."""
        return recorded(self.name, primitive) if telemetry.is_recorded("requested") else primitive

    def complete(self, generator: RequestGenerator[T]) -> T:
        """Return the result of a call with one request, which is shared with other calls if this client gathers."""
        request = next(generator)
        if self._gather and self.is_shareable(request):
            # A forked child would wait for the threads that its parent had.
            self.check_open()
            reply = self._gatherers[request.primitive].send(request)
            if isinstance(reply, Alone):
                reply = self.shared.alone(request.primitive, request.item, reply)
            return finish(generator, reply)
        answers, repeated = self.call_until_certain(request.primitive, [request.item])
        return finish(generator, (answers[0], repeated))

    def is_shareable(self, request: ItemRequest) -> bool:
        """Whether others may share this request: not if it is part of a transaction of the user's."""
        return request.primitive == getattr(self.backend.jobs, getattr(request.primitive, "__name__", ""), None)

    def _new_gatherer(self) -> ThreadGatherer:
        return ThreadGatherer(self.shared, self.backend.capabilities.largest_batch)

    def is_gone(self, uuid: str) -> bool:
        """Return whether no job has this uuid, for a call whose earlier try may have removed it."""
        with after_a_change():
            return self.call(self.backend.jobs.read, [uuid])[0] is None

    def _repeat(self, request: Callable[[], T], last: BoardUnavailable, only_asks: bool) -> T:
        delay, deadline = _FIRST_RETRY_DELAY, time.monotonic() + self.patience
        while time.monotonic() + delay <= deadline and not is_time_over() and not self._closed.wait(delay):
            try:
                with time_limit(deadline - time.monotonic()):
                    return request()
            except BoardUnavailable as error:
                # A try that the limit cut short says less than the one before.
                last = error if time.monotonic() < deadline else last
            delay = min(delay * 2, _MAX_RETRY_DELAY)
        if only_asks:
            raise BoardUnavailable(f"the store gave no answer: {last}") from last
        raise ReplyLost(f"whether this request took effect is unknown, since its reply was lost: {last}") from last

    def is_away(self, error: BoardUnavailable) -> bool:
        """Whether the store answers nothing at all, after a request failed by this error; asks it if that is not clear.

        If it answers, the request is to blame: others may get through.
        """
        if is_because_of(error, RequestRefused):
            return False
        try:
            with time_limit(_LOOK_TIMEOUT):
                self.backend.jobs.read([NO_UUID])
        except BoardUnavailable:
            return True
        return False

    def within(self, connection: Any) -> Backend:
        """Return the backend, inside a transaction of the user's if there is one."""
        return self.backend if connection is None else self.backend.within(connection)

    def pages(
        self, sizes: Iterable[int], read: Callable[..., AnyPage], *wanted: Any, cursor: object | None = None
    ) -> Iterator[AnyPage]:
        """Read a listing page by page, each when it is asked for.

        :param sizes: of the pages.
        :param read: a primitive, whose arguments are what is ``wanted``, a cursor and a size.
        :param cursor: where the first page begins; None for the beginning.
        """
        for size in sizes:
            page = self.call(read, *wanted, cursor, size)
            yield page
            cursor = page.cursor
            if cursor is None:
                return

    def batches(self, items: Sequence[T], most: int | None = None) -> Iterator[Sequence[T]]:
        """Cut what is longer than the store takes at once, or than ``most`` if that is fewer."""
        largest = self.backend.capabilities.largest_batch
        size = largest if most is None else min(most, largest)
        for start in range(0, len(items), size):
            yield items[start : start + size]

    def replies(self, primitive: Primitive, items: Sequence[Any]) -> list[Answer | BoardUnavailable]:
        """Return the answer to each item, in as few requests as possible; or why it has none, if others have one.

        :raises BoardUnavailable: the store is away, and there is no answer at all.
        """
        self.check_open()
        replies: list[Answer | BoardUnavailable] = []
        for part in self.batches(items):
            try:
                replies += self.shared.each(primitive, part)
            except BoardUnavailable as error:
                if not any(isinstance(reply, tuple) for reply in replies):
                    raise
                replies += [own_copy(error) for _ in part]
        return replies

    def encode(self, what: str, value: Any) -> bytes:
        """Return the value's bytes; raises :class:`InvalidPosting` if they would be more than ``largest_details``."""
        return encode(what, value, largest=self.largest_details, converter=self.converter).data

    def encode_progress(self, value: Any) -> bytes:
        """Return the bytes of a report of progress, whatever ``largest_details`` is: its text has a bound of its own.

        One that is refused would stop the renewal of all claims.
        """
        return encode("progress", value, largest=max(self.largest_details, MAX_DETAILS), converter=self.converter).data

    def decode(self, data: bytes) -> Any:
        """Return what :meth:`encode` was given; raises ``ValueError`` on bytes that it can't have made."""
        return decode(data, converter=self.converter)

    def waiter(self, names: frozenset[str] | None = None) -> Waiter:
        """Begin to wait for claimable jobs of these names (None: of any)."""
        return self.call(self.backend.waiter, names)

    def subscribe(self, callback: Callback, kinds: frozenset[EventKind]) -> Callable[[], None]:
        """Call ``callback`` with later events of these kinds, from one thread; return what ends it, idempotent."""
        self.check_open()
        ended = threading.Event()

        def call_unless_ended(event: JobEvent) -> None:
            if not ended.is_set():
                callback(event)

        unlisten = self.backend.listen(self._subscriptions.queued(call_unless_ended), kinds)

        def unsubscribe() -> None:
            ended.set()
            unlisten()

        return unsubscribe

    def save_step(self, fence: Fence, step: StepRow) -> ClaimAnswer:
        """Record a step of a claimed job; one request."""
        return self.call(self.backend.steps.save, fence, step)

    def load_steps(self, uuid: str, first: int, size: int) -> list[StepRow]:
        """Return up to ``size`` steps of a job in their order, beginning with this number; one request."""
        return self.call(self.backend.steps.load, uuid, first, size)

    def signals(self, uuid: str) -> list[SignalRow]:
        """Return the signals that were sent to a job; one request."""
        return self.call(self.backend.steps.signals, uuid)

    def tidy_when_due(self) -> None:
        """Every few seconds one call deletes the records whose retention is over."""
        now = time.monotonic()
        if now - self._tidied_at < _TIDY_INTERVAL:
            return
        self._tidied_at = now
        try:
            if self._recorded(self.backend.maintenance.tidy)(_TIDY_BATCH) >= _TIDY_BATCH:
                # There is more than one batch; so that no call pays for all of it, a later one goes on.
                self._tidied_at = now - _TIDY_INTERVAL + _TIDY_AGAIN_INTERVAL
            self._book_sweeper.sweep_when_due()
            self._is_untidy = False
        except BoardUnavailable as error:
            # Without a right, say, nothing would ever be deleted, and nobody would know.
            level = logging.DEBUG if self._is_untidy else logging.WARNING
            logger.log(level, "board %s: what is over is not deleted for now: %s", self.name, error)
            self._is_untidy = True

    def sweep_books(self) -> int:
        """Destroy the logbooks of jobs that are gone, among the next page of books; return how many."""
        return self.call(self._book_sweeper.sweep)
