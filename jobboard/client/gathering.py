"""Calls that send one item to a primitive that takes many: those made while a request is under way share the next one.

A single call is sent at once.
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
#: Seconds for which threads wait at most for others that are expected to call.
_MAX_PAUSE = 0.001
_UNTIL_WOKEN = -1.0


@dataclass(slots=True)
class ItemRequest:
    """One item for a primitive that takes a sequence of them, of the job ``uuid``; ``size`` counts its large bytes.

    A primitive with further arguments is a ``partial``, and shares no request with others.
    """

    primitive: Primitive
    item: Any
    uuid: str
    size: int = 0


#: The answer to a request of one item, or the error instead of it.
Reply = Answer | BaseException

#: A call of the board with one request: it yields the request, is sent the answer, and returns the result of the call.
RequestGenerator = Generator[ItemRequest, Answer, T]


class _Client(Protocol):
    def complete(self, generator: RequestGenerator[T]) -> T: ...


class _HasClient(Protocol):
    @property
    def _client(self) -> _Client: ...


Owner = TypeVar("Owner", bound=_HasClient)


def sends_one_request(
    method: Callable[Concatenate[Owner, P], RequestGenerator[T]],
) -> Callable[Concatenate[Owner, P], T]:
    """Make a method of its generator; the client decides who sends the request, and together with which others."""

    def call(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._client.complete(method(self, *args, **kwargs))

    functools.update_wrapper(call, method)
    returned = method.__annotations__["return"].removeprefix("RequestGenerator[").removesuffix("]")
    call.__annotations__ = {**method.__annotations__, "return": returned}
    call.generator = method  # type: ignore[attr-defined]
    call.__signature__ = inspect.signature(method).replace(return_annotation=returned)  # type: ignore[attr-defined]
    return call


def finish(generator: RequestGenerator[T], reply: Reply) -> T:
    """Send a call the reply to its request, and return the result of the call."""
    try:
        generator.throw(reply) if isinstance(reply, BaseException) else generator.send(reply)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("a call has one request")


def send_together(shared: SharedRequests, requests: Sequence[ItemRequest], largest: int) -> Iterator[Reply | Alone]:
    """Send the items of one primitive in as few requests as possible; return the reply to each, in their order.

    :param largest: how many items the primitive takes at most.
    """
    for part in _parts(requests, largest):
        yield from _send_part(shared, part)


def _parts(requests: Sequence[ItemRequest], largest: int) -> Iterator[list[ItemRequest]]:
    """Cut what is too long or too large, and items of another primitive.

    No part has two items of one job, which some stores would answer as one.
    """
    part: list[ItemRequest] = []
    uuids: set[str] = set()
    size = 0
    for request in requests:
        size += request.size
        is_full = len(part) >= largest or size > _MAX_BYTES
        if part and (is_full or request.uuid in uuids or request.primitive != part[0].primitive):
            yield part
            part, uuids, size = [], set(), request.size
        part.append(request)
        uuids.add(request.uuid)
    if part:
        yield part


def _send_part(shared: SharedRequests, part: list[ItemRequest]) -> Sequence[Reply | Alone]:
    try:
        return shared.together(part[0].primitive, [request.item for request in part])
    except BoardUnavailable as error:
        return [own_copy(error) for _ in part]
    except Exception as error:
        return [error]


class _Waiting:
    """A thread's request, until it is answered."""

    __slots__ = ("reply", "request", "signal")

    def __init__(self, request: ItemRequest) -> None:
        self.request = request
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
    """Gathers the items of one primitive from many threads: one request is under way at a time.

    Threads that were just answered often call again at once. So the next sender waits until as many threads have called
    as lately did, for as long as the last request took and ``_MAX_PAUSE`` at most. The last expected thread sends the
    items of all. If some do not call in time, the first thread sends, and fewer are expected from then on.
    """

    def __init__(self, shared: SharedRequests, largest: int) -> None:
        self._shared = shared
        self._largest = largest
        self._lock = threading.Lock()
        self._queue: deque[_Waiting] = deque()
        self._sender: _Waiting | None = None
        #: How many threads call before the next request is sent, unless this moment comes first.
        self._expected = 1
        self._expected_until = 0.0

    def send(self, request: ItemRequest) -> Reply | Alone:
        """Return the reply to a request, or that its caller is to send it alone; blocks until that is known."""
        mine = _Waiting(request)
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
            requests = [waiting.request for waiting in batch]
            for waiting, reply in zip(batch, send_together(self._shared, requests, self._largest), strict=True):
                waiting.reply = reply
        finally:
            for waiting in batch:
                if waiting.reply is None:
                    waiting.reply = ReplyLost("whether this request took effect is unknown: its sender was interrupted")
            # Before they are woken, since they may call at once, and would be counted twice.
            self._expect(len(batch), time.monotonic() - began)
            for waiting in batch:
                waiting.wake()

    def _expect(self, answered: int, seconds: float) -> None:
        """Expect the threads that were answered or called meanwhile, after a request that took this many seconds."""
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
