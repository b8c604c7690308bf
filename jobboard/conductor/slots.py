"""The slots of a conductor: how many handlers may run at a time, and which jobs wait for one."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Sequence

from jobboard.conductor.execution import Execution

#: Seconds within which a slot should be free for a job that is claimed ahead.
_SOON = 0.05
#: Seconds after which a job that was claimed ahead and has not begun is given back.
MAX_WAIT = 0.5
#: How much of a name's duration the next, shorter run leaves.
_DECAY = 0.9


class RunningHandlers:
    """What runs now, and how long the handlers of each name have taken; its caller holds a lock.

    A long run counts at once, and is forgotten slowly: a name of which one job in fifty is long is not a quick one.
    """

    def __init__(self) -> None:
        self._durations: dict[str, float] = {}
        self._since: dict[Execution, float] = {}

    def add(self, executions: Sequence[Execution]) -> None:
        self._since.update(dict.fromkeys(executions, time.monotonic()))

    def remove(self, execution: Execution) -> bool:
        """Return whether it was one of them."""
        since = self._since.pop(execution, None)
        if since is None:
            return False
        name, took = execution.job.name, time.monotonic() - since
        self._durations[name] = max(took, _DECAY * self._durations.get(name, 0.0))
        return True

    def ending_soon(self) -> int:
        """Return how many will probably end within 50 ms; none of those that have already run for longer."""
        since_when = time.monotonic() - _SOON
        return sum(
            since >= since_when and self._durations.get(execution.job.name, math.inf) <= _SOON
            for execution, since in self._since.items()
        )


class Slots:
    """Counts running handlers and claims that have not ended; one thread claims, any thread may free.

    A slot is free as soon as its handler has ended, so that the next handler runs while the end of the claim is sent.
    When too many ends wait to be sent, no slot counts as free. A job that was claimed ahead waits here for a slot; it
    gets the first that is free, in the order of the claims.
    """

    def __init__(self, number: int) -> None:
        self._lock = threading.RLock()
        # Handlers end in threads that must not wake another one for each of them.
        self._freed, self._filled, self._emptied = (threading.Condition(self._lock) for _ in range(3))
        self._claimer_waits = self._completer_waits = False
        self._number = number
        self._max_claims = max(2 * number + 16, 3 * number)
        self._running = RunningHandlers()
        self._waiting: deque[Execution] = deque()
        self._taken = 0
        self._claims = 0
        #: How many of the claims are of jobs that go with another one, in its slot.
        self._members = 0
        #: How many of the claims have ends that were sent in vain, and are sent again by themselves.
        self._unsent = 0
        #: How many handlers have ended.
        self.ended = 0
        self._stuck = 0
        self._lost = 0
        self._closed = False
        self._idle = False
        self._drain_until = math.inf

    @property
    def taken(self) -> int:
        """How many slots run a handler that is not stuck."""
        return self._taken - self._stuck

    def set_stuck(self, number: int, replaced: int) -> None:
        """Note how many handlers are stuck, and how many of their slots are replaced by new ones."""
        with self._lock:
            self._stuck = number
            self._lost = number - replaced
            self._notify_all()

    def set_unsent(self, number: int) -> None:
        """Note how many ends were sent in vain."""
        with self._lock:
            self._unsent = number
            self._emptied.notify_all()

    def wait_for_free(self, *, ahead: bool = False) -> int:
        """Block until a slot is free, and return how many are; 0 once closed.

        :param ahead: while none is free, those count that soon will be, and for which no job waits yet.
        """
        with self._lock:
            self._claimer_waits = True
            # What will be free soon depends on the time, so it is asked once.
            while not self._closed and (wanted := self._wanted(ahead)) <= 0:
                self._freed.wait()
            self._claimer_waits = False
            return 0 if self._closed else wanted

    def has_free(self) -> bool:
        with self._lock:
            return self._free() > 0

    def _wanted(self, ahead: bool) -> int:
        free = self._free()
        if free > 0 or not ahead or not self._may_claim_ahead():
            return free
        return min(self._running.ending_soon() - len(self._waiting), self._max_claims - self._claims + self._members)

    def _may_claim_ahead(self) -> bool:
        """Whether few enough jobs wait that a claim is worth a request."""
        return 2 * len(self._waiting) <= self._number

    def _free(self) -> int:
        return min(self._number - self._lost - self.taken, self._max_claims - self._claims + self._members)

    def set_idle(self, idle: bool) -> None:
        """Note whether the claimer waits, since there is nothing to claim."""
        with self._lock:
            self._idle = idle
            if idle:
                self._filled.notify_all()

    def yield_to_claimer(self, timeout: float) -> None:
        """Block while the claimer has a slot to fill; the ends that come in meanwhile make a larger batch."""
        with self._lock:
            self._completer_waits = True
            self._filled.wait_for(
                lambda: self._idle or self._closed or self._free() <= 0 or self._has_many_ends(), timeout
            )
            self._completer_waits = False

    def _has_many_ends(self) -> bool:
        """Whether the ends make a batch that is worth a request of its own, beside the claimer's."""
        others = self._members + self._unsent + self._taken + len(self._waiting)
        return self._claims - others > self._number // 2 + 1

    def add(self, executions: Sequence[Execution]) -> list[Execution]:
        """Count the claims, and return the executions that have a slot now; the others wait for one."""
        with self._lock:
            self._claims += len(executions)
            self._waiting.extend(executions)
            started = self._start_waiting()
            if self._waiting:
                start_by = time.monotonic() + MAX_WAIT
                for execution in self._waiting:
                    execution.start_by = min(execution.start_by, start_by)
            return started

    def start_waiting(self) -> list[Execution]:
        """Return the waiting executions that have a slot now."""
        with self._lock:
            return self._start_waiting()

    def _start_waiting(self) -> list[Execution]:
        number = min(self._number - self._lost - self.taken, len(self._waiting))
        if number <= 0:
            return []
        started: list[Execution] = []
        for _ in range(number):
            execution = self._waiting.popleft()
            execution.start_by = math.inf
            started.append(execution)
        self._taken += number
        self._running.add(started)
        if self._free() <= 0:
            self._filled.notify_all()
        return started

    def withdraw(self, execution: Execution) -> bool:
        """Return whether the execution waited for a slot; it does no longer."""
        with self._lock:
            try:
                self._waiting.remove(execution)
            except ValueError:
                return False
            execution.start_by = math.inf
            return True

    def withdraw_all(self) -> list[Execution]:
        """Return the executions that waited for a slot; they do no longer."""
        with self._lock:
            withdrawn = list(self._waiting)
            self._waiting.clear()
            for execution in withdrawn:
                execution.start_by = math.inf
            return withdrawn

    def add_claim(self) -> None:
        """Count a claim that ends without a run of its handler."""
        with self._lock:
            self._claims += 1

    def add_members(self, number: int) -> None:
        """Count claims of jobs that need no slot, since they go with another one."""
        with self._lock:
            self._claims += number
            self._members += number

    def withdraw_members(self, number: int) -> None:
        """Some of these need a slot of their own, for which they are counted anew."""
        with self._lock:
            self._claims -= number
            self._members -= number

    def free_members(self, number: int) -> None:
        """The handler has ended that served jobs without a slot."""
        with self._lock:
            self._members -= number
            self.ended += number

    def free(self, execution: Execution) -> list[Execution]:
        """A handler has ended; return the waiting executions that have a slot now. Idempotent."""
        with self._lock:
            if not self._running.remove(execution):
                return []
            self._taken -= 1
            self.ended += 1
            started = self._start_waiting() if self._waiting else []
            self._notify_freed()
            if self._completer_waits and self._has_many_ends():
                self._filled.notify_all()
            return started

    def remove_claims(self, number: int) -> None:
        """Claims have ended."""
        with self._lock:
            self._claims -= number
            self._notify_freed()

    def _notify_freed(self) -> None:
        if self._claimer_waits and self._may_claim_ahead():
            self._freed.notify_all()
        if self.taken <= 0 or self._claims <= 0:
            self._emptied.notify_all()

    def close(self) -> None:
        """Hand out no more slots."""
        with self._lock:
            self._closed = True
            self._notify_all()

    def drain_until(self, deadline: float) -> None:
        """Wait for running handlers until this moment of the monotonic clock at most; the earliest one counts."""
        with self._lock:
            self._drain_until = min(self._drain_until, deadline)
            self._notify_all()

    def _notify_all(self) -> None:
        for condition in (self._freed, self._filled, self._emptied):
            condition.notify_all()

    def wait_until_free(self) -> bool:
        """Block until all slots are free but for stuck ones; False when the time of :meth:`drain_until` is over."""
        with self._lock:
            while self.taken > 0 and (left := self._drain_until - time.monotonic()) > 0:
                self._emptied.wait(min(left, threading.TIMEOUT_MAX))
            return self.taken == 0

    def wait_until_returned(self, timeout: float) -> None:
        """Block until all slots are free but for stuck ones, or for this many seconds."""
        with self._lock:
            self._emptied.wait_for(lambda: self.taken == 0, timeout)

    def wait_until_no_claims(self, timeout: float) -> bool:
        """Block until every claim has ended; False after ``timeout`` seconds.

        Ends that were sent in vain are waited for until the time of :meth:`drain_until` only.
        """
        until = time.monotonic() + timeout
        with self._lock:
            drain_until = min(self._drain_until, until)
            if not self._emptied.wait_for(lambda: self._claims == 0, max(0.0, drain_until - time.monotonic())):
                self._emptied.wait_for(lambda: self._claims <= self._unsent, max(0.0, until - time.monotonic()))
            return self._claims == 0
