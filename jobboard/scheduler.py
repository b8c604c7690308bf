"""The scheduler: a thread that posts due jobs, beside any number of other schedulers."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Self

from jobboard.backends.timelimit import lock_wait
from jobboard.board import JobBoard, client_of
from jobboard.client.reader import END_EVENTS
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, JobEvent
from jobboard.forks import watch_forks
from jobboard.heartbeat import Heartbeat, worker_id
from jobboard.interrupts import SIGNAL_POLL
from jobboard.own_process import OwnProcess
from jobboard.schedules.firing import Firing, Round
from jobboard.types import Seconds
from jobboard.unhandled_names import UnhandledNames
from jobboard.validation import check_text, check_timeout

logger = logging.getLogger("jobboard.scheduler")

#: The events of schedules.
SCHEDULE_EVENTS = frozenset(
    {
        EventKind.SCHEDULED,
        EventKind.UNSCHEDULED,
        EventKind.FIRED,
        EventKind.MISSED,
        EventKind.SKIPPED,
        EventKind.FAILED,
    }
)

#: Events may get lost, so a scheduler looks for itself this often, in seconds, whatever is due when.
_MAX_SLEEP = 5.0
_FIRST_RETRY_DELAY, _MAX_RETRY_DELAY = 0.05, 5.0
_MAX_DUE = 500
_HEARTBEAT_INTERVAL = 10.0
#: Seconds in which a round has certainly begun: each ends earlier, even if the store answers none of its requests.
_MAX_SILENCE = 60.0


class Scheduler:
    """Posts the jobs of a board's schedules when they are due; any number may run beside each other.

    No two of them post the same fire time: the post and the schedule's step forward are one atomic step in the store.
    So any of them may die at any moment, and none is a leader. A scheduler survives an outage of the store, catches up
    by each schedule's own policies, and can be started again after a stop. As a context manager it works for the time
    of the block.

    :param board: connected, and stays so.
    :param who: what operators see; host, pid and a random part are added.
    """

    def __init__(self, board: JobBoard, who: str | None = None) -> None:
        if not isinstance(board, JobBoard):
            raise TypeError(f"board must be a JobBoard, not {type(board).__name__}")
        self._board = board
        self._firing = Firing(client_of(board))
        self._name = check_text("who", "scheduler" if who is None else who)
        self._unhandled = UnhandledNames(board, logger)
        self._thread: threading.Thread | None = None
        self._round_began_at = time.monotonic()
        self._begin_anew()
        watch_forks(self)

    def _begin_anew(self) -> None:
        self._who = worker_id(self._name)
        self._heartbeat = Heartbeat(self._board, "scheduler", self._who, OwnProcess().facts, _HEARTBEAT_INTERVAL)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._waiting: dict[str, str] = {}
        self._ended: deque[str] = deque()
        self._room_for: set[str] = set()
        self._left = 0
        self._unsubscribe: Callable[[], None] | None = None
        self._unsubscribe_ends: Callable[[], None] | None = None

    def _begin_anew_in_child(self) -> None:
        """In a forked child: it does not work here until it is started, and then under a name of its own."""
        if self._stopping.is_set():
            self._thread = None
        self._round_began_at = -math.inf
        self._begin_anew()

    @property
    def who(self) -> str:
        """The name under which operators see it among the entities."""
        return self._who

    @property
    def healthy(self) -> bool:
        """False if it was started and not stopped, and no round began for a minute: its thread hangs or has died.

        In a forked child it is False until the child starts it, if it worked in the parent.
        """
        if self._thread is None or self._stopping.is_set():
            return True
        return time.monotonic() - self._round_began_at < _MAX_SILENCE

    def start(self) -> None:
        """Begin to post, in a thread of its own. Idempotent; waits for the end of a stop that is under way.

        In a forked child it does not work until it is started there; connect the board first.
        """
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                if not self._stopping.is_set():
                    return
                self._thread.join()
            self._round_began_at = time.monotonic()
            self._stopping.clear()
            thread = threading.Thread(target=self._work_without_locks, name="jobboard-scheduler", daemon=True)
            thread.start()
            self._thread = thread

    def run(self) -> None:
        """Post due jobs, and block until somebody calls :meth:`stop`."""
        try:
            self.start()
            self.wait()
        finally:
            self.stop()

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Block until it has stopped.

        :param timeout: seconds; None to wait without end.
        :returns: False if it has not stopped by then.
        """
        seconds, thread = check_timeout(timeout), self._thread
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        # In short steps, since a signal's handler runs only once the main thread does something.
        while thread is not None and thread.is_alive() and (left := deadline - time.monotonic()) > 0:
            thread.join(min(left, SIGNAL_POLL))
        return thread is None or not thread.is_alive()

    def stop(self, timeout: Seconds | None = None) -> bool:
        """Stop posting. Idempotent, from any thread.

        :param timeout: seconds to wait for the end; None to wait without end.
        :returns: False if it has not stopped by then.
        """
        self._stopping.set()
        self._woken.set()
        return threading.current_thread() is not self._thread and self.wait(timeout)

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it, whatever ended the block."""
        self.stop()

    def subscribe(
        self, callback: Callable[[JobEvent], None], kinds: Collection[EventKind] | None = None
    ) -> Callable[[], None]:
        """Call ``callback`` with later events of the board's schedules, as :meth:`JobBoard.subscribe` does.

        What it raises is logged, and disturbs neither the scheduler nor other callbacks.

        :param kinds: only events of these kinds, such as ``MISSED``, also those of jobs, such as ``TRASHED``; None for
            all events of schedules.
        :returns: a function that ends the subscription; idempotent.
        """
        return self._board.subscribe(callback, SCHEDULE_EVENTS if kinds is None else kinds)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _work_without_locks(self) -> None:
        # What somebody else has locked, such as its own entity, delays no schedule.
        with lock_wait(0.0):
            self._work()

    def _work(self) -> None:
        pause, is_away = _FIRST_RETRY_DELAY, False
        try:
            while not self._stopping.is_set():
                self._round_began_at = time.monotonic()
                try:
                    self._listen()
                    next_in = self._round()
                    if is_away:
                        is_away = False
                        logger.info("scheduler %s goes on: the store is back", self._who)
                    self._sleep(next_in)
                    pause = _FIRST_RETRY_DELAY
                except BoardUnavailable as error:
                    # Once for each outage.
                    level = logging.DEBUG if is_away else logging.WARNING
                    is_away = True
                    logger.log(level, "scheduler %s waits for the store: %s", self._who, error)
                    self._stopping.wait(pause * random.uniform(0.5, 1.5))
                    pause = min(pause * 2, _MAX_RETRY_DELAY)
                except Exception:
                    logger.exception("scheduler %s goes on after a fault", self._who)
                    self._stopping.wait(_MAX_RETRY_DELAY)
        finally:
            self._leave()

    def _round(self) -> float | None:
        """Post what is due, and return the seconds until there is more to do."""
        self._woken.clear()
        self._heartbeat.register_when_due()
        if room_for := self._take_room():
            fired = self._firing.fire_waiting(sorted(room_for))
            self._note_waiting(fired)
            self._unhandled.note(fired.names)
        # What is left to others stays due, and must not hide what comes after it.
        made = self._firing.fire_due(_MAX_DUE + self._left)
        self._left = made.left
        self._note_waiting(made)
        self._unhandled.note(made.names)
        self._unhandled.look_when_due()
        if made.lost:
            # Other schedulers take steps as well: after a short pause this one finds schedules that are left.
            self._stopping.wait(random.uniform(0.0, 0.02))
        return made.next_in

    def _sleep(self, seconds: float | None) -> None:
        longest = _MAX_SLEEP if seconds is None else min(seconds, _MAX_SLEEP)
        # A stop may have come before this round began, which then took back its wake-up.
        if longest > 0 and not self._stopping.is_set():
            self._woken.wait(longest)

    def _listen(self) -> None:
        """Subscribe to other clients' changes of schedules."""
        if self._unsubscribe is None:
            self._unsubscribe = self._board.subscribe(self._wake, {EventKind.SCHEDULED})

    def _wake(self, event: JobEvent) -> None:
        self._woken.set()

    def _note_waiting(self, made: Round) -> None:
        """Follow the ends of jobs only while a schedule waits for one: a busy board tells of many."""
        kept = {uuid: id for uuid, id in self._waiting.items() if id not in made.looked_at}
        self._waiting = kept | made.waiting
        if not self._waiting and self._unsubscribe_ends is not None:
            self._unsubscribe_ends()
            self._unsubscribe_ends = None
        if self._waiting and self._unsubscribe_ends is None:
            self._unsubscribe_ends = self._board.subscribe(self._note_end, END_EVENTS)
            # One that ended just before is found by the look that comes next.
            self._room_for.update(self._waiting.values())
            self._woken.set()

    def _note_end(self, event: JobEvent) -> None:
        # In the thread of the events: all else is changed by the scheduler's own.
        if event.uuid in self._waiting:
            self._ended.append(event.uuid)
            self._woken.set()

    def _take_room(self) -> set[str]:
        """Return the schedules for which a job may have ended since this was last asked."""
        ended = [self._ended.popleft() for _ in range(len(self._ended))]
        room_for = self._room_for | {self._waiting[uuid] for uuid in ended if uuid in self._waiting}
        self._room_for = set()
        return room_for

    def _leave(self) -> None:
        for unsubscribe in filter(None, (self._unsubscribe, self._unsubscribe_ends)):
            unsubscribe()
        self._unsubscribe = self._unsubscribe_ends = None
        self._heartbeat.leave()

    def __repr__(self) -> str:
        state = "working" if self._thread is not None and self._thread.is_alive() else "stopped"
        return f"<Scheduler {self._who!r} on {self._board.name!r}, {state}>"
