"""The threads behind one board for asyncio and Trio: some that gather, and a bounded pool for everything else."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar

from jobboard.aio.pending import Pending, Undo, deliver
from jobboard.client import BackendClient
from jobboard.client.gathering import ItemRequest, Reply, RequestGenerator, finish, send_together
from jobboard.client.sharing import Alone
from jobboard.client.subscriptions import Interruption
from jobboard.errors import BoardUnavailable

P = ParamSpec("P")
T = TypeVar("T")

#: Threads for what is not gathered, and for calls that block until something happens.
MAX_THREADS, MAX_WAITS = 8, 64
#: One for each primitive that is gathered.
_MAX_GATHERERS = 8
#: For calls that shared a request in vain; some of them may wait for what others have locked.
_MAX_ALONE = 8
#: Seconds that a call may wait for those before it, where the board's patience is less.
_MIN_WAIT = 1.0


class Threads:
    """Makes blocking calls for tasks. Threads begin when they are needed, and end with :meth:`close`."""

    def __init__(self, client: BackendClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._executors: dict[str, ThreadPoolExecutor] = {}
        self._gatherers: dict[str, _Gatherer] = {}

    async def request(self, function: Callable[[], T], undo: Undo[T] | None = None) -> T:
        """Return what a function returns that asks the store.

        :raises BoardUnavailable: it was not begun, since those before it were not answered within the patience.
        """
        begins = _Deadline(self._client.patience)

        def in_time() -> T:
            begins.check()
            return function()

        return await self.run(in_time, undo)

    async def run(self, function: Callable[[], T], undo: Undo[T] | None = None) -> T:
        """Return what a function returns that may block for as long as one request takes; it is always called."""
        return await self._run("calls", MAX_THREADS, function, undo)

    async def wait(self, function: Callable[[Interruption], T]) -> T:
        """Return what a function returns that blocks until something happens, or it is interrupted."""
        interruption = Interruption()
        try:
            return await self._run("waits", MAX_WAITS, partial(function, interruption), None)
        finally:
            interruption.come()

    async def gather(self, name: str, generator: RequestGenerator[T]) -> T:
        """Return the result of a call with one request, which is shared with the calls of other tasks.

        :param name: that of the method; all its calls have the same primitive.
        """
        self._client.check_open()
        pending: Pending[T] = Pending(self.later, None)
        self._check_process()
        gatherer = self._gatherers.get(name)
        if gatherer is None:
            gatherer = self._gatherers[name] = _Gatherer(
                self._client,
                partial(self._submit, "gather", _MAX_GATHERERS),
                partial(self._submit, "alone", _MAX_ALONE),
            )
        gatherer.put(_Call(pending, generator, copy_context(), _Deadline(self._client.patience)))
        return await pending.wait()

    def close(self) -> None:
        """Let the threads end when they have done what they have begun."""
        with self._lock:
            executors, self._executors = self._executors, {}
            self._gatherers = {}
        for executor in executors.values():
            executor.shutdown(wait=False)

    async def _run(self, kind: str, most: int, function: Callable[[], T], undo: Undo[T] | None) -> T:
        pending: Pending[T] = Pending(self.later, undo)
        context = copy_context()

        def call() -> None:
            if not pending.is_withdrawn:
                pending.answer(partial(context.run, function))
                deliver([pending])

        self._submit(kind, most, call)
        return await pending.wait()

    def later(self, function: Callable[[], object]) -> None:
        """Call a function in a thread of the pool; returns at once."""
        self._submit("calls", MAX_THREADS, function)

    def _submit(self, kind: str, most: int, function: Callable[[], object]) -> None:
        with self._lock:
            self._check_process()
            executor = self._executors.get(kind)
            if executor is None:
                executor = ThreadPoolExecutor(most, thread_name_prefix=f"jobboard-aio-{kind}")
                self._executors[kind] = executor
            executor.submit(function)

    def _check_process(self) -> None:
        """After a fork, the parent's threads are not here."""
        if self._pid != os.getpid():
            self._lock, self._pid, self._executors, self._gatherers = threading.Lock(), os.getpid(), {}, {}


class _Deadline:
    """Until when a call must begin: a store that answers nobody would let each wait for all before it."""

    __slots__ = ("_at", "_seconds")

    def __init__(self, patience: float) -> None:
        self._seconds = max(patience, _MIN_WAIT)
        self._at = time.monotonic() + self._seconds

    def check(self) -> None:
        if time.monotonic() > self._at:
            raise BoardUnavailable(
                f"it was not sent, since the calls before it were not answered within {self._seconds:g} seconds"
            )


@dataclass(slots=True)
class _Call:
    pending: Pending[Any]
    generator: RequestGenerator[Any]
    context: Context
    begins: _Deadline
    request: ItemRequest | None = None

    def begin(self) -> ItemRequest | None:
        """Return the request of the call; None if it has failed before, as for a bad argument."""
        try:
            self.begins.check()
            self.request = self.context.run(next, self.generator)
        except BaseException as error:
            self.pending.answer(partial(_raise, error))
        return self.request

    def finish(self, reply: Reply) -> None:
        self.pending.answer(partial(self.context.run, finish, self.generator, reply))


#: Calls a function in some thread.
Submit = Callable[[Callable[[], object]], object]


class _Gatherer:
    """Gathers the calls of one method: one request is under way at a time, and the next one has all that came since."""

    def __init__(self, client: BackendClient, submit: Submit, submit_alone: Submit) -> None:
        self._shared = client.shared
        self._largest = client.backend.capabilities.largest_batch
        self._submit, self._submit_alone = submit, submit_alone
        self._lock = threading.Lock()
        self._calls: deque[_Call] = deque()
        self._sending = False

    def put(self, call: _Call) -> None:
        with self._lock:
            self._calls.append(call)
            is_first, self._sending = not self._sending, True
        if not is_first:
            return
        try:
            self._submit(self._send_all)
        except BaseException as error:
            # No thread could be started: neither for those that have come meanwhile.
            with self._lock:
                calls, self._calls, self._sending = self._calls, deque(), False
            for each in calls:
                each.pending.answer(partial(_raise, error))
            deliver(each.pending for each in calls)
            raise

    def _send_all(self) -> None:
        while calls := self._take():
            try:
                self._send(calls)
            except BaseException as error:
                for call in calls:
                    if not call.pending.is_answered:
                        call.pending.answer(partial(_raise, error))
            deliver(call.pending for call in calls if call.pending.is_answered)

    def _take(self) -> list[_Call]:
        with self._lock:
            taken = [self._calls.popleft() for _ in range(min(len(self._calls), self._largest))]
            self._sending = bool(taken)
        return taken

    def _send(self, calls: list[_Call]) -> None:
        begun = [call for call in calls if not call.pending.is_withdrawn and call.begin() is not None]
        requests = [call.request for call in begun if call.request is not None]
        for call, reply in zip(begun, send_together(self._shared, requests, self._largest), strict=True):
            if isinstance(reply, Alone):
                self._submit_alone(partial(self._send_alone, call, reply))
            else:
                call.finish(reply)

    def _send_alone(self, call: _Call, sent: Alone) -> None:
        assert call.request is not None
        try:
            reply: Reply = self._shared.alone(call.request.primitive, call.request.item, sent)
        except BaseException as error:
            reply = error
        call.finish(reply)
        deliver([call.pending])


def _raise(error: BaseException) -> Any:
    raise error
