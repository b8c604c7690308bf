"""Handlers in threads: cheap, and right for work that waits; but a thread can't be killed."""

from __future__ import annotations

import contextvars
import itertools
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence

from jobboard.conductor.calling import FreshContexts
from jobboard.conductor.execution import Execution
from jobboard.conductor.executors.base import Executor, go_on_until_done
from jobboard.conductor.executors.handoff import HandoffQueue
from jobboard.conductor.outcome import Failed, Returned, outcome_of_call
from jobboard.text import line_of

#: How many of the innermost calls a stack shows.
_MAX_FRAMES = 30


class ThreadExecutor(Executor):
    """One thread for each slot, all on one queue. An ``async`` handler gets an event loop of its own.

    A handler that timed out or lost its claim sees ``job.lost``. If it does not return, another thread replaces its
    thread. The threads are daemons, so a handler that never returns does not keep the process alive.

    One thread more takes the claimer's turns. When a turn has claimed a single job after a wait, its thread runs the
    handler, and wakes another one for the next turn: so no wake-up lies between the claim and the handler.
    """

    def start(self) -> None:
        self._queue: HandoffQueue[Execution | Iterator[bool] | None] = HandoffQueue()
        self._lock = threading.Lock()
        self._contexts = FreshContexts()
        self._numbers = itertools.count()
        self._threads: dict[threading.Thread, Execution | None] = {}
        self._replaced: set[Execution] = set()
        self._claiming: threading.Thread | None = None
        try:
            for _ in range(self._slots):
                self._start_thread()
        except BaseException:
            self.stop(0.0)
            raise

    def run_claimer(self, turns: Iterator[bool]) -> None:
        # The turns of one claimer are taken in several threads.
        self._claimer_context = contextvars.copy_context()
        self._start_thread()
        self._queue.put([turns])

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, name=f"jobboard-slot-{next(self._numbers)}", daemon=True)
        self._threads[thread] = None
        try:
            thread.start()
        except BaseException:
            del self._threads[thread]
            raise

    def submit(self, executions: Sequence[Execution]) -> None:
        # A thread of a slot, which submits the next execution when one has ended, comes for it by itself.
        self._queue.put(executions, wake=threading.current_thread() not in self._threads)

    def request_cancel(self, execution: Execution) -> None:
        """The handler sees ``job.cancelled``."""

    def interrupt(self, execution: Execution) -> None:
        """The handler sees ``job.lost``."""

    def replace(self, execution: Execution) -> bool:
        with self._lock:
            if execution in self._replaced or execution not in self._threads.values():
                return False
            try:
                self._start_thread()
            except RuntimeError:
                return False
            self._replaced.add(execution)
            return True

    def stack_of(self, execution: Execution) -> str:
        with self._lock:
            thread = next((thread for thread, running in self._threads.items() if running is execution), None)
        return "(not begun)" if thread is None else stack_of_thread(thread)

    def stop(self, timeout: float) -> None:
        with self._lock:
            threads = dict(self._threads)
        self._queue.put([None] * len(threads))
        deadline = time.monotonic() + timeout
        for thread, execution in threads.items():
            # The conductor has waited for the claimer before, as long as it may.
            if thread is not self._claiming and (execution is None or not execution.stuck):
                thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        thread = threading.current_thread()
        taken: list[Execution | Iterator[bool] | None] = []
        go_on_until_done(lambda: self._serve(thread, taken), lambda error: self._recover(thread, taken, error))
        with self._lock:
            del self._threads[thread]
        self._queue.wake_one()

    def _serve(self, thread: threading.Thread, taken: list[Execution | Iterator[bool] | None]) -> None:
        while (execution := self._queue.take(taken)) is not None:
            if not isinstance(execution, Execution):
                self._take_turns(execution)
                taken.clear()
                continue
            with self._lock:
                self._threads[thread] = execution
            self._finish(execution, execution.refusal() or self._contexts.new().run(outcome_of_call, execution.call))
            is_wanted = self._is_wanted_after(thread, execution)
            taken.clear()
            if not is_wanted:
                return

    def _is_wanted_after(self, thread: threading.Thread, execution: Execution) -> bool:
        """Note that the thread is idle again; return whether no other one has replaced it meanwhile."""
        with self._lock:
            self._threads[thread] = None
            is_wanted = execution not in self._replaced
            self._replaced.discard(execution)
        return is_wanted

    def _recover(
        self, thread: threading.Thread, taken: list[Execution | Iterator[bool] | None], error: BaseException
    ) -> None:
        """Do with what this thread has taken what it was about to do when something was raised in it."""
        for each in taken:
            if isinstance(each, Execution):
                # If its handler had returned, its outcome stays.
                reason = line_of(error)
                self._finish(each, Returned(reason) if each.began_at is None else Failed(reason))
                if not self._is_wanted_after(thread, each):
                    self._queue.put([None], wake=False)
            elif each not in self._queue and self._claiming in (None, thread):
                self._queue.put([each], wake=False)
        self._claiming = None if self._claiming is thread else self._claiming
        taken.clear()

    def _take_turns(self, turns: Iterator[bool]) -> None:
        """Take the claimer's turns until there are no more, or one has claimed what this thread comes for."""
        self._claiming = threading.current_thread()
        is_single = self._claimer_context.run(self._claim_until_single, turns)
        self._claiming = None
        if is_single:
            self._queue.put([turns], wake=False)

    def _claim_until_single(self, turns: Iterator[bool]) -> bool:
        for is_single in turns:
            if is_single:
                return True
            self._queue.wake_for_rest()
        return False


def stack_of_thread(thread: threading.Thread) -> str:
    """Return the stack of a thread, without any variables."""
    frame = sys._current_frames().get(thread.ident or 0)
    return "".join(traceback.format_stack(frame)[-_MAX_FRAMES:]).rstrip() if frame else "(no frame)"
