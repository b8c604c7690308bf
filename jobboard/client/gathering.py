"""Calls that ask one item of a primitive that takes many: those that come while a request is under way share the next.

There is no timer, so a lone call goes at once.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from jobboard.backends.rows import Posted, PostOutcome
from jobboard.errors import BoardUnavailable, ReplyLost

P = ParamSpec("P")
T = TypeVar("T")

#: A shared request carries no more encoded bytes than this; stores limit what one request may have.
_MAX_BYTES = 256 * 1024


@dataclass(slots=True)
class Ask:
    """One item for a primitive that takes a sequence of them, of the job ``uuid``; ``size`` counts its large bytes."""

    primitive: Callable[[Sequence[Any]], Sequence[Any]]
    item: Any
    uuid: str
    size: int = 0


#: The answer to an ask, and whether an earlier try may have had the effect; or why there is none.
Answer = tuple[Any, bool]
Reply = Answer | BaseException

#: A call of the board that asks once: it yields the ask, is sent the answer, and returns what the caller gets.
Steps = Generator[Ask, Answer, T]

#: Sends a request until its answer is certain: :meth:`BackendClient.call_until_certain`.
Call = Callable[[Callable[[Sequence[Any]], Sequence[Any]], Sequence[Any]], tuple[Sequence[Any], bool]]


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


def send_together(call: Call, asks: Sequence[Ask], largest: int) -> Iterator[Reply]:
    """Send asks of one primitive in as few requests as possible; return the reply to each, in their order.

    :param largest: how many items the primitive takes at most.
    """
    for part in _parts(asks, largest):
        yield from _send_part(call, part)


def _parts(asks: Sequence[Ask], largest: int) -> Iterator[list[Ask]]:
    """Cut what is too long or too large; no part has two asks of one job, which some stores would answer as one."""
    part: list[Ask] = []
    uuids: set[str] = set()
    size = 0
    for ask in asks:
        size += ask.size
        if part and (len(part) >= largest or size > _MAX_BYTES or ask.uuid in uuids):
            yield part
            part, uuids, size = [], set(), ask.size
        part.append(ask)
        uuids.add(ask.uuid)
    if part:
        yield part


def _send_part(call: Call, part: list[Ask]) -> list[Reply]:
    try:
        answers, repeated = call(part[0].primitive, [ask.item for ask in part])
    except BoardUnavailable as error:
        return [_own_copy(error) for _ in part]
    except Exception as error:
        # One item may be to blame, which the others must not pay for.
        return [error] if len(part) == 1 else _send_each(call, part)
    if len(part) > 1 and any(_is_taken(answer) for answer in answers):
        # Nothing of the batch was posted.
        return _send_each(call, part)
    return [(answer, repeated) for answer in answers]


def _send_each(call: Call, part: list[Ask]) -> list[Reply]:
    return [reply for ask in part for reply in _send_part(call, [ask])]


def _is_taken(answer: Any) -> bool:
    return isinstance(answer, Posted) and answer.outcome is PostOutcome.TAKEN


def _own_copy(error: BoardUnavailable) -> BoardUnavailable:
    """Each caller raises an error of its own: raising changes its traceback and its context."""
    own = copy.copy(error)
    own.__cause__ = error
    return own


class _Waiting:
    """A thread's ask, until it is answered or it is this thread's turn to send."""

    __slots__ = ("ask", "is_next", "reply", "turn")

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.reply: Reply | None = None
        self.is_next = False
        self.turn = threading.Lock()
        self.turn.acquire()


class ThreadGatherer:
    """Gathers the asks of one primitive from many threads. The first thread sends its own at once; when the answer is
    there, the next thread sends all that came meanwhile."""

    def __init__(self, call: Call, largest: int) -> None:
        self._call = call
        self._largest = largest
        self._lock = threading.Lock()
        self._queue: deque[_Waiting] = deque()
        self._sending = False

    def send(self, ask: Ask) -> Reply:
        """Return the reply to an ask; blocks until it is there."""
        mine = _Waiting(ask)
        with self._lock:
            self._queue.append(mine)
            is_first, self._sending = not self._sending, True
        if not is_first:
            self._wait(mine)
        if mine.reply is None:
            self._send_queue()
        assert mine.reply is not None
        return mine.reply

    def _wait(self, mine: _Waiting) -> None:
        try:
            mine.turn.acquire()
        except BaseException:
            # A signal's handler raised, so this thread will not send when its turn comes.
            with self._lock:
                if mine in self._queue:
                    self._queue.remove(mine)
            if mine.is_next:
                self._pass_on()
            raise

    def _send_queue(self) -> None:
        with self._lock:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), self._largest))]
        try:
            asks = [waiting.ask for waiting in batch]
            for waiting, reply in zip(batch, send_together(self._call, asks, self._largest), strict=True):
                waiting.reply = reply
        finally:
            for waiting in batch:
                if waiting.reply is None:
                    waiting.reply = ReplyLost("whether this request took effect is unknown: its sender was interrupted")
                waiting.turn.release()
            self._pass_on()

    def _pass_on(self) -> None:
        """Let the thread that has waited longest send next."""
        with self._lock:
            self._sending = bool(self._queue)
            if self._queue:
                self._queue[0].is_next = True
                self._queue[0].turn.release()
