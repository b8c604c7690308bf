"""The store: all that one board name has in this process, and the moves that keep its indexes right."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from jobboard.backends import admission, lifecycle
from jobboard.backends.base import RETRY_WINDOW
from jobboard.backends.book_rows import BookRow
from jobboard.backends.changes import BLOCKED, CLAIMED, COMPLETE, DELAYED, UNCLAIMED
from jobboard.backends.edge_rows import Outcome, SignalRow, StepRow, parent_of_graph
from jobboard.backends.lanes import EXCHANGE_POLL
from jobboard.backends.lifecycle import due_at, expire_or_promote
from jobboard.backends.listeners import Listener
from jobboard.backends.memory.edges import Edges
from jobboard.backends.memory.lanes import Lanes
from jobboard.backends.memory.posting import Batch
from jobboard.backends.memory.stored_job import StoredJob
from jobboard.backends.ordered import PriorityIndex, ScheduleOrder, next_ready
from jobboard.backends.rows import EntityRow, NewJob, Pause, Verdict
from jobboard.backends.schedule_rows import ScheduleRow
from jobboard.backends.transition import Answer, Note, Resolve, Transition
from jobboard.backends.waiter import ConditionWaiter
from jobboard.events import HISTORY_LENGTH, JobEvent
from jobboard.states import JobState
from jobboard.validation import moment

Request = TypeVar("Request")

_FIRST_MOMENT = time.time() - time.monotonic()


def steady_now() -> float:
    """Return the wall clock's time at the start plus what has passed since: seconds since the epoch, without jumps."""
    return _FIRST_MOMENT + time.monotonic()


class MemoryStore:
    """Everything here is called, and every attribute is touched, under :attr:`lock`.

    The lock can be taken again by its holder: a signal handler may interrupt a waiter while its thread is in here.
    """

    def __init__(self) -> None:
        self.clock = steady_now
        self.lock = threading.RLock()
        self.listeners: list[Listener] = []
        self.waiters: set[ConditionWaiter] = set()
        self.last_sequence = 0
        #: Of all jobs: a job may be posted again under the uuid of one that was forgotten.
        self.last_token = 0
        self.clear()

    def clear(self) -> None:
        """Forget all jobs, schedules, books and entities, and who is paused; clients, waiters and listeners stay."""
        self.rows: dict[str, StoredJob] = {}
        self.by_sequence: dict[int, StoredJob] = {}
        #: (name, key) -> the live row that has it.
        self.keys: dict[tuple[str, str], StoredJob] = {}
        #: The uuid of a posting that replaced the content of a row -> that row.
        self.aliases: dict[str, StoredJob] = {}
        self.delayed, self.blocked, self.unclaimed, self.claimed, self.complete, self.trashed = (
            PriorityIndex[int]() for _ in range(6)
        )
        self.lanes = Lanes(self)
        self.edges = Edges(self)
        self.steps: dict[str, list[StepRow]] = {}
        self.signals: dict[str, dict[str, SignalRow]] = {}
        #: (name, key) -> the row that keeps the key until a moment, also after its end.
        self.windows: dict[tuple[str, str], tuple[StoredJob, float]] = {}
        #: (moment, sequence) of every row that is due some time: delayed, or under a claim that ends.
        self.timers: PriorityIndex[tuple[float, int]] = PriorityIndex()
        #: Heaps of (moment, sequence): when a completed record is hidden, and when what is hidden is forgotten.
        self.retained: list[tuple[float, int]] = []
        self.remembered: list[tuple[float, int]] = []
        self.paused: dict[str | None, Pause] = {}
        self.entities: dict[tuple[str, str], EntityRow] = {}
        self.books: dict[str, BookRow] = {}
        self.book_entries: dict[str, dict[str, bytes]] = {}
        self.schedules: dict[str, ScheduleRow] = {}
        #: (next due time, id) of every schedule.
        self.schedule_order = ScheduleOrder()

    def indexes(self) -> Iterator[tuple[JobState, PriorityIndex[int]]]:
        """Iterate over the states and where the rows of each stand."""
        yield JobState.DELAYED, self.delayed
        yield JobState.BLOCKED, self.blocked
        yield JobState.UNCLAIMED, self.unclaimed
        yield JobState.CLAIMED, self.claimed
        yield JobState.COMPLETE, self.complete
        yield JobState.TRASHED, self.trashed

    def find(self, uuid: str) -> StoredJob | None:
        """Return the row that was posted under this uuid, or whose content was replaced under it."""
        return self.rows.get(uuid) or self.aliases.get(uuid)

    # -- moves -----------------------------------------------------------------------------------------------------

    def enter(self, row: StoredJob) -> None:
        """Give a new row its sequence, so that it can be found."""
        self.last_sequence += 1
        row.sequence = self.last_sequence
        self.rows[row.uuid] = self.by_sequence[row.sequence] = row

    def post_alone(self, row: StoredJob, new: NewJob, now: float) -> None:
        """Put a new row on the board, in a step of its own; one whose lane has room joins nobody who waits."""
        change = lifecycle.post(row, new, now)
        if row.state is BLOCKED and row.joined_lane is not None and self.lanes.has_room(row):
            admission.admit_at_once(row)
        self.enter(row)
        self.carry_out(row, change, now)
        self.lanes.look_all(now)

    def carry_out(self, row: StoredJob, change: Transition[Answer], now: float, *, was_blocked: bool = False) -> Answer:
        """Let a row that was changed stand where its state says, write its history, tell of it, and return the answer.

        A row that is COMPLETE stays readable for its retention, and is remembered for a while after that. What follows
        for lanes is done at the end of the step (``lanes.look_all``).

        :param was_blocked: whether it was BLOCKED before, if it stands nowhere now.
        """
        if change.told:
            state, was_blocked = row.state, was_blocked or row.index is self.blocked
            if state is COMPLETE:
                self._complete(row, change.retention, now)
            elif (index := self.index_of(state)) is not row.index:
                self.move(row, index)
            elif row.due != self.due_of(row):
                self.reschedule(row)
            notes = row.notes
            notes += change.history
            if len(notes) > HISTORY_LENGTH:
                del notes[:-HISTORY_LENGTH]
            if self.listeners:
                self.tell_of(row, change.told)
            for following in change.follow:
                self.lanes.follow(following.lane, row, was_blocked)
            if change.resolve is not None:
                self.edges.mark(change.resolve, now)
            if change.posts:
                self.post_following(change.posts, now)
        return change.answer

    def carry_out_anew(self, row: StoredJob, change: Transition[Answer], now: float) -> Answer:
        """Carry out a change after which a row may stand elsewhere in the index where it stands now."""
        self.move(row, None)
        return self.carry_out(row, change, now)

    def post_following(self, posts: Sequence[NewJob], now: float) -> None:
        """Post what follows the end of a job, which nothing refuses."""
        Batch(self, posts, now).post()

    def seal(self, graph: str, now: float) -> Verdict:
        """Let the jobs of a graph wait for it no longer."""
        parent = parent_of_graph(graph)
        mark = self.edges.marks.get(parent)
        if mark is None:
            # It was worked off: the edges say what it said.
            first = self.edges.children_of(parent).first()
            is_done = first is not None and self.edges.by_child[first].edges[parent].outcome is Outcome.DONE
            return Verdict.REPEATED if is_done else Verdict.LOST
        if mark.step.outcome is Outcome.DONE:
            return Verdict.REPEATED
        if mark.due <= now:
            return Verdict.LOST
        self.edges.mark(Resolve(parent, Outcome.DONE), now)
        return Verdict.DONE

    def finish(self, now: float) -> None:
        """End a step: do what follows from it for lanes and children, as far as one step goes."""
        self.lanes.look_all(now)
        if self.edges.marks:
            self.edges.work_off(now)
            self.lanes.look_all(now)

    def change(
        self,
        uuid: str,
        rule: Callable[[StoredJob | None, Request, float], Transition[Answer]],
        request: Request,
        now: float,
    ) -> Answer:
        """Let a rule of the lifecycle decide on a request about a job, and carry out what it decides."""
        row = self.rows.get(uuid)
        change = rule(row, request, now)
        if row is None:
            return change.answer
        self.carry_out(row, change, now)
        if change.told:
            self.finish(now)
        return change.answer

    def index_of(self, state: JobState) -> PriorityIndex[int]:
        """Return where the rows of this state stand."""
        if state is CLAIMED:
            return self.claimed
        if state is UNCLAIMED:
            return self.unclaimed
        if state is DELAYED:
            return self.delayed
        if state is BLOCKED:
            return self.blocked
        return self.complete if state is COMPLETE else self.trashed

    def move(self, row: StoredJob, index: PriorityIndex[int] | None) -> None:
        """Let a row stand in another index; the others follow, and waiters are notified."""
        if row.index is not None:
            row.index.remove(row.position, row.name)
            if row.ties is not None:
                self.lanes.leave(row)
            if row.index is self.claimed and self.lanes.rules.of_name(row.name) is not None:
                self.notify(row.name, 0.0)
        if row.due is not None:
            self.timers.remove((row.due, row.sequence), row.name)
        row.index = index
        row.due = due = self.due_of(row)
        if index is not None:
            row.rank()
            index.add(row.position, row.name)
            if row.ties is not None:
                self.lanes.enter(row)
        if due is not None:
            self.timers.add((due, row.sequence), row.name)
        if row.key is not None:
            self._hold_key(row, row.key)
        if self.waiters:
            self._notify_of(row)

    def _notify_of(self, row: StoredJob) -> None:
        """Notify waiters of a row that stands elsewhere now."""
        if row.due is not None or row.index is self.unclaimed:
            self.notify(row.name, row.due or 0.0)
        elif row.index is self.blocked and row.ties is not None:
            for waiter in tuple(self.waiters):
                waiter.notify_of_blocked(row.name)

    def reschedule(self, row: StoredJob) -> None:
        """Follow a row whose moment has changed."""
        if row.due is not None:
            self.timers.remove((row.due, row.sequence), row.name)
        row.due = due = self.due_of(row)
        if due is not None:
            self.timers.add((due, row.sequence), row.name)
            self.notify(row.name, due)

    def due_of(self, row: StoredJob) -> float | None:
        """Return the moment at which a row that stands where it does must be looked at."""
        return None if row.index is None else due_at(row)

    def is_live(self, row: StoredJob) -> bool:
        return row.index in (self.unclaimed, self.claimed, self.delayed, self.blocked)

    def _hold_key(self, row: StoredJob, key: str) -> None:
        place = (row.name, key)
        if self.is_live(row):
            self.keys[place] = row
        elif self.keys.get(place) is row:
            del self.keys[place]

    def _complete(self, row: StoredJob, retention: float, now: float) -> None:
        retention = max(retention, self._keeps_key(row, now))
        if retention > 0:
            self.move(row, self.complete)
            heapq.heappush(self.retained, (now + retention, row.sequence))
        else:
            self.hide(row, now)

    def _keeps_key(self, row: StoredJob, now: float) -> float:
        """Return for how many seconds a job that has ended keeps its key; a cancelled one gives it back."""
        place = (row.name, row.key or "")
        window = self.windows.get(place)
        if window is None or window[0] is not row:
            return 0.0
        if row.owner is None:
            del self.windows[place]
            return 0.0
        return window[1] - now

    def hide(self, row: StoredJob, since: float) -> None:
        """Show a row to nobody any more, and remember it for the retry window."""
        self.move(row, None)
        heapq.heappush(self.remembered, (since + RETRY_WINDOW, row.sequence))

    def forget(self, limit: int, now: float) -> int:
        """Delete up to ``limit`` rows whose time to be remembered is over, and return how many."""
        count = 0
        while count < limit and self.remembered and self.remembered[0][0] <= now:
            self.drop(self.by_sequence[heapq.heappop(self.remembered)[1]])
            count += 1
        return count

    def drop(self, row: StoredJob) -> None:
        """Delete a row without a trace."""
        self.move(row, None)
        del self.rows[row.uuid], self.by_sequence[row.sequence]
        for alias in row.aliases:
            self.aliases.pop(alias, None)
        self.edges.forget(row.uuid)
        self.steps.pop(row.uuid, None)
        self.signals.pop(row.uuid, None)
        if row.key is not None and self.windows.get((row.name, row.key), (None,))[0] is row:
            del self.windows[row.name, row.key]

    # -- time ------------------------------------------------------------------------------------------------------

    def expire_and_promote(self) -> float:
        """Expire claims, promote delayed jobs and hide old records up to this moment, which is returned."""
        now = self.clock()
        timers = self.timers.whole
        while (first := timers.first()) is not None and first[0] <= now:
            row = self.by_sequence[first[1]]
            # One whose wait for a signal is over may wait for its lane, BLOCKED as before.
            carry_out = self.carry_out_anew if row.index is self.blocked else self.carry_out
            carry_out(row, expire_or_promote(row, now, self.lanes.limit_of(row)), now)
        self.finish(now)
        self.lanes.look_at_due(now)
        while self.retained and self.retained[0][0] <= now:
            over, sequence = heapq.heappop(self.retained)
            self.hide(self.by_sequence[sequence], over)
        return now

    def refused(self) -> Collection[str | None]:
        """Return the names of which no job is granted now: the paused ones, and those whose limit is reached."""
        limits, claimed = self.lanes.rules.names, self.claimed.by_name
        if not limits:
            return self.paused
        return {*self.paused, *(name for name, running in limits.items() if len(claimed.get(name, ())) >= running)}

    def room_of(self, name: str) -> int:
        """Return how many more jobs of a name that has a limit may be claimed."""
        return max(0, self.lanes.rules.names[name] - len(self.claimed.by_name.get(name, ())))

    def next_ready(self, names: frozenset[str] | None, now: float) -> float | None:
        """Return the moment at which a job of these names can be claimed, or may be; None if none is in sight."""
        refused = self.refused()
        at = next_ready(self.unclaimed, self.timers, names, refused, now)
        if at == now or None in refused:
            return at
        moments = [at, *(due for due, _ in islice(self.edges.timers, 1))]
        if len(refused) > len(self.paused):
            # The claim of a full name that expires makes room for another.
            moments += [timer[0] for timer in (self.timers.first(names, self.paused),) if timer is not None]
        if self.lanes.by_name:
            moments += [timer[0] for timer in islice(self.lanes.timers, 1)]
            if self._may_exchange(names, refused):
                # Whoever holds the slots of its lane may end, and then a job be admitted that can't be claimed.
                moments.append(now + EXCHANGE_POLL)
        return min((at for at in moments if at is not None), default=None)

    def outlook(self, names: frozenset[str] | None) -> JobState | None:
        """Return UNCLAIMED if a job of these names can be claimed, BLOCKED if one waits that is in a lane perhaps."""
        refused = self.refused()
        if None in refused:
            return None
        if self.unclaimed.first(names, refused) is not None:
            return UNCLAIMED
        return BLOCKED if self._may_exchange(names, refused) else None

    def _may_exchange(self, names: frozenset[str] | None, refused: Collection[str | None]) -> bool:
        return bool(self.lanes.by_name) and self.blocked.first(names, refused) is not None

    # -- telling ---------------------------------------------------------------------------------------------------

    def tell_of(self, row: StoredJob, told: Sequence[Note]) -> None:
        """Tell everybody who listens of what happened to a job."""
        for kind, who, at, token, reason in told:
            self.tell(JobEvent(kind, row.uuid, row.name, who, token, moment(at), reason))

    def tell(self, event: JobEvent) -> None:
        """Tell everybody who listens; under the lock, which keeps the order of each job."""
        for listener in list(self.listeners):
            listener.hear(event)

    def notify(self, name: str | None, at: float) -> None:
        """Tell those who wait that a job of this name (None: any) may be ready at that moment."""
        # A signal handler may open a waiter, or close one, between two of them.
        for waiter in tuple(self.waiters):
            waiter.notify(name, at)
