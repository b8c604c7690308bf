"""Calls that ask one item of a primitive that takes many: those that come while a request is under way share the next.

A lone call goes at once.
"""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from jobboard.client.sharing import Alone, Answer, Primitive, SharedRequests, own_copy
from jobboard.errors import BoardUnavailable, ReplyLost

P = ParamSpec("P")
T = TypeVar("T")

#: A shared request carries no more encoded bytes than this; stores limit what one request may have.
_MAX_BYTES = 256 * 1024
#: Seconds for which threads wait at most for others that are expected to ask.
_MAX_PAUSE = 0.001
_UNTIL_WOKEN = -1.0


@dataclass(slots=True)
class Ask:
    """One item for a primitive that takes a sequence of them, of the job ``uuid``; ``size`` counts its large bytes.

    A primitive with further arguments is a ``partial``, and shares no request with others.
    """

    primitive: Primitive
    item: Any
    uuid: str
    size: int = 0


#: The answer to an ask; or why there is none.
Reply = Answer | BaseException

#: A call of the board that asks once: it yields the ask, is sent the answer, and returns what the caller gets.
Steps = Generator[Ask, Answer, T]


class _Client(Protocol):
    def complete(self, steps: Steps[T]) -> T: ...


class _HasClient(Protocol):
    @property
    def _client(self) -> _Client: ...


Owner = TypeVar("Owner", bound=_HasClient)


def asks_once(method: Callable[Concatenate[Owner, P], Steps[T]]) -> Callable[Concatenate[Owner, P], T]:
    """Make a method of its steps; who sends the ask, and with what others, is up to the client."""

    def call(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._client.complete(method(self, *args, **kwargs))

    functools.update_wrapper(call, method)
    returned = method.__annotations__["return"].removeprefix("Steps[").removesuffix("]")
    call.__annotations__ = {**method.__annotations__, "return": returned}
    call.steps = method  # type: ignore[attr-defined]
    call.__signature__ = inspect.signature(method).replace(return_annotation=returned)  # type: ignore[attr-defined]
    return call


def finish(steps: Steps[T], reply: Reply) -> T:
    """Give a call the reply to its ask, and return what it returns."""
    try:
        steps.throw(reply) if isinstance(reply, BaseException) else steps.send(reply)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("a call asks once")


def send_together(shared: SharedRequests, asks: Sequence[Ask], largest: int) -> Iterator[Reply | Alone]:
    """Send asks of one primitive in as few requests as possible; return the reply to each, in their order.

    :param largest: how many items the primitive takes at most.
    """
    for part in _parts(asks, largest):
        yield from _send_part(shared, part)


def _parts(asks: Sequence[Ask], largest: int) -> Iterator[list[Ask]]:
    """Cut what is too long or too large, and asks of another primitive.

    No part has two asks of one job, which some stores would answer as one.
    """
    part: list[Ask] = []
    uuids: set[str] = set()
    size = 0
    for ask in asks:
        size += ask.size
        is_full = len(part) >= largest or size > _MAX_BYTES
        if part and (is_full or ask.uuid in uuids or ask.primitive != part[0].primitive):
            yield part
            part, uuids, size = [], set(), ask.size
        part.append(ask)
        uuids.add(ask.uuid)
    if part:
        yield part


def _send_part(shared: SharedRequests, part: list[Ask]) -> Sequence[Reply | Alone]:
    try:
        return shared.together(part[0].primitive, [ask.item for ask in part])
    except BoardUnavailable as error:
        return [own_copy(error) for _ in part]
    except Exception as error:
        return [error]


class _Waiting:
    """A thread's ask, until it is answered."""

    __slots__ = ("ask", "reply", "signal")

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.reply: Reply | Alone | None = None
        self.signal = threading.Lock()
        self.signal.acquire()

    def wait(self, seconds: float) -> None:
        """Wait until somebody wakes this thread, or has done so since the last time.

        :param seconds: at most; ``_UNTIL_WOKEN`` for no limit.
        """
        self.signal.acquire(timeout=seconds)

    def wake(self) -> None:
        # Only the sender or the lock's holder wakes a thread, so no thread is woken twice.
        if self.signal.locked():
            self.signal.release()


class ThreadGatherer:
    """Gathers the asks of one primitive from many threads: one request is under way at a time.

    Threads that were just answered often ask again at once. So who would be the next to send waits until as many have
    asked as lately did, for as long as the last request took and ``_MAX_PAUSE`` at most. The last one that is expected
    sends the asks of all. If they do not come, the first one does, and fewer are expected then.
    """

    def __init__(self, shared: SharedRequests, largest: int) -> None:
        self._shared = shared
        self._largest = largest
        self._lock = threading.Lock()
        self._queue: deque[_Waiting] = deque()
        self._sender: _Waiting | None = None
        #: How many are to ask before the next request goes, unless this moment comes first.
        self._expected = 1
        self._expected_until = 0.0

    def send(self, ask: Ask) -> Reply | Alone:
        """Return the reply to an ask, or that its caller is to send it alone; blocks until that is known."""
        mine = _Waiting(ask)
        try:
            with self._lock:
                self._queue.append(mine)
            while mine.reply is None:
                if (seconds := self._seconds_to_wait(mine)) is None:
                    self._send_queue()
                else:
                    mine.wait(seconds)
        except BaseException:
            # A signal's handler raised, so this thread will not send when its turn comes.
            self._withdraw(mine)
            raise
        return mine.reply

    def _seconds_to_wait(self, mine: _Waiting) -> float | None:
        """Return for how long a thread has to wait; None if it is the one to send, from now on."""
        with self._lock:
            if self._sender is not None or mine.reply is not None:
                return _UNTIL_WOKEN
            if len(self._queue) < self._expected and (left := self._expected_until - time.monotonic()) > 0:
                return left if mine is self._queue[0] else _UNTIL_WOKEN
            self._sender = mine
            return None

    def _send_queue(self) -> None:
        batch: list[_Waiting] = []
        began = time.monotonic()
        try:
            with self._lock:
                batch += [self._queue.popleft() for _ in range(min(len(self._queue), self._largest))]
            asks = [waiting.ask for waiting in batch]
            for waiting, reply in zip(batch, send_together(self._shared, asks, self._largest), strict=True):
                waiting.reply = reply
        finally:
            for waiting in batch:
                if waiting.reply is None:
                    waiting.reply = ReplyLost("whether this request took effect is unknown: its sender was interrupted")
            # Before they are woken, since they may ask at once, and would be counted twice.
            self._expect(len(batch), time.monotonic() - began)
            for waiting in batch:
                waiting.wake()

    def _expect(self, answered: int, seconds: float) -> None:
        """Expect all who were answered and all who asked meanwhile, after a request that took this many seconds."""
        with self._lock:
            self._expected = min(answered + len(self._queue), self._largest)
            self._expected_until = time.monotonic() + min(seconds, _MAX_PAUSE)
            self._pass_on()

    def _withdraw(self, mine: _Waiting) -> None:
        with self._lock:
            if mine in self._queue:
                self._queue.remove(mine)
            if self._sender in (None, mine):
                self._pass_on()

    def _pass_on(self) -> None:
        """Let others send, of whom the one that has waited longest is to see to it. The lock is held."""
        self._sender = None
        if self._queue:
            self._queue[0].wake()
