"""Posting due jobs: schedules are read in the order of their due times, and stepped one version at a time."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from jobboard import telemetry
from jobboard.backends.base import PAUSE_ID
from jobboard.backends.cutting import parts_by_size
from jobboard.backends.rows import Verdict
from jobboard.backends.schedule_rows import ScheduleRow, ScheduleStep
from jobboard.backends.timelimit import lock_wait
from jobboard.client import BackendClient
from jobboard.codec import NewerFormat
from jobboard.errors import BoardUnavailable, MissingExtra
from jobboard.interrupts import is_of_signal_handler
from jobboard.schedules.operators import Operator
from jobboard.schedules.pausing import pause_in
from jobboard.schedules.planning import Plan, plan
from jobboard.schedules.progress import Progress
from jobboard.schedules.schedule import Schedule, unpack_schedule
from jobboard.schedules.transitions import (
    Stored,
    most_postings,
    quarantine,
    quarantine_unreadable,
    step_of,
    step_of_resume,
)
from jobboard.states import LIVE
from jobboard.text import in_one_line, line_of

logger = logging.getLogger("jobboard.schedules")

#: Most schedules in one request. Small, so that a scheduler that loses the race learns it early.
_MAX_STEPS = 100

#: If a schedule has more jobs than this, only its next step drops those that have ended.
_MAX_READ_LIVE = 1000


@dataclass(slots=True)
class Round:
    """What one round of firing did.

    ``posted``: jobs posted; ``taken``: steps that were this client's; ``lost``: those that another one took first;
    ``left``: schedules that are due and left to others, of a newer format or with a trigger that this host lacks, or
    whose steps the store refuses.
    ``next_in``: seconds until something is due; None if nothing is in sight. ``looked_at``: the schedules' ids;
    ``waiting``: job uuid -> id of the one among them that waits for this job's end; ``late``: id -> seconds since due;
    ``names``: job name -> id of one that has posted it.
    """

    posted: int = 0
    taken: int = 0
    lost: int = 0
    left: int = 0
    next_in: float | None = None
    looked_at: set[str] = field(default_factory=set)
    waiting: dict[str, str] = field(default_factory=dict)
    late: dict[str, float] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Planned:
    """A schedule's plan, or the step that sets it aside."""

    id: str
    what: tuple[Stored, Plan] | ScheduleStep

    def place(self) -> tuple[float, str]:
        """Return the first fire time that it posts and its id, by which steps are taken; those without one are last."""
        fires = [] if isinstance(self.what, ScheduleStep) else self.what[1].fires
        return (fires[0] if fires else math.inf, self.id)


class Firing:
    """Posts due jobs; any number of clients may do so at the same time.

    The version of a schedule in the store fences its next step: of all clients that decide about the same step exactly
    one takes it. The step and its posts are one atomic change.
    """

    def __init__(self, client: BackendClient) -> None:
        self._client = client
        self._backend = client.backend
        #: The ids of schedules whose last steps the store refused while it answered others.
        self._refused: set[str] = set()

    def fire_due(self, limit: int) -> Round:
        """Post the jobs of up to ``limit`` schedules that are due."""
        due = self._client.call(self._backend.schedules.due, limit)
        if pause_in(due.rows) is not None:
            return Round()
        made = self._fire(due.rows, due.now)
        # What was just stepped on may be the next one again, which a new look tells; what this host must leave to
        # others stays due, and is no reason to look at once.
        made.next_in = 0.0 if made.taken or made.lost else due.next_in
        return made

    def fire_waiting(self, ids: Sequence[str]) -> Round:
        """Look again at schedules that wait for room; some of their jobs have ended."""
        rows = self._client.call(self._backend.schedules.read, [*ids, PAUSE_ID])
        if pause_in(rows) is not None:
            return Round()
        # Those that have been paused, set aside or finished meanwhile are due no more.
        waiting = [row for row in rows if row is not None and row.next_at is not None]
        made = self._fire(waiting, self._client.call(self._backend.now))
        made.looked_at.update(ids)
        return made

    def _fire(self, rows: list[ScheduleRow], now: float) -> Round:
        made = Round()
        made.late = {row.id: max(0.0, now - row.next_at) for row in rows if row.next_at is not None}
        # All are planned before the first is posted: the order of what is posted follows from the plans.
        planned = sorted(self._plan(rows, now, made), key=_Planned.place)
        parts = [planned[start : start + _MAX_STEPS] for start in range(0, len(planned), _MAX_STEPS)]
        if len(parts) > 1 and self._backend.capabilities.processes:
            self._fire_ahead(parts, now, made)
            return made
        for part in parts:
            if not self._take(self._steps(part, now, made), made):
                break
        return made

    def _fire_ahead(self, parts: Sequence[Sequence[_Planned]], now: float, made: Round) -> None:
        """Make the steps of the next part while the store takes those of the one before.

        A store within this process has no time of its own, in which something else could be done.
        """
        sent: Future[bool] | None = None
        with ThreadPoolExecutor(1, "jobboard-steps") as sender:
            for part in parts:
                steps = self._steps(part, now, made)
                if sent is not None and not sent.result():
                    return
                sent = sender.submit(self._take, steps, made)
            if sent is not None:
                sent.result()

    def _take(self, steps: Sequence[ScheduleStep], made: Round) -> bool:
        """Take steps; False if most of them were somebody else's by then, so that a new look tells more."""
        lost = made.lost
        usual = [step for step in steps if step.id not in self._refused]
        # By themselves, so that none of the others waits for them.
        alone = [[step] for step in steps if step.id in self._refused]
        # No request posts more jobs than one step may.
        groups = parts_by_size(usual, lambda step: max(1, len(step.postings)), self._backend.capabilities.largest_step)
        for group in (*groups, *alone):
            with lock_wait(0.0):
                replies = self._client.replies(self._backend.schedules.step, group)
            for step, reply in zip(group, replies, strict=True):
                if isinstance(reply, BoardUnavailable):
                    self._leave(step, reply, made)
                else:
                    self._refused.discard(step.id)
                    self._count(step, reply[0], made)
        return made.lost - lost <= len(steps) // 2

    def _leave(self, step: ScheduleStep, error: BoardUnavailable, made: Round) -> None:
        """The store refuses this step while it answers others; it stays due."""
        made.left += 1
        if step.id not in self._refused:
            logger.warning("schedule %r can't be stepped on for now, and is tried again: %s", step.id, error)
            self._refused.add(step.id)

    def _count(self, step: ScheduleStep, verdict: Verdict, made: Round) -> None:
        if verdict is Verdict.LOST:
            made.lost += 1
            return
        made.taken += 1
        made.posted += len(step.postings)
        made.names.update((posting.name, step.id) for posting in step.postings)
        if telemetry.is_on():
            telemetry.emit("fired", self._client.name, step.id, len(step.postings), made.late.get(step.id, 0.0))

    def _plan(self, rows: Sequence[ScheduleRow], now: float, made: Round) -> list[_Planned]:
        planned: list[_Planned] = []
        readable: list[Stored] = []
        for row in rows:
            try:
                readable.append(Stored(unpack_schedule(row.id, row.body), row.version))
            except MissingExtra as error:
                # A scheduler that has the package posts these jobs; after a quarantine none could.
                logger.error("schedule %r is left to other schedulers: %s", row.id, error)
                made.left += 1
            except NewerFormat as error:
                self._client.newer_formats.meet("schedule", row.id, str(error))
                made.left += 1
            except ValueError as error:
                fault = in_one_line(f"it can't be decoded: {error}")
                logger.warning("schedule %r is set aside: %s", row.id, fault)
                planned.append(_Planned(row.id, quarantine_unreadable(row, fault)))
        live = self.live_among(uuid for stored in readable for uuid in stored.progress.live)
        for stored in readable:
            stored.progress.live = [uuid for uuid in stored.progress.live if uuid in live]
            made.looked_at.add(stored.schedule.id)
            planned.append(self._planned(stored, now))
        return planned

    def _planned(self, stored: Stored, now: float) -> _Planned:
        schedule = stored.schedule
        try:
            # Otherwise it posts one or two.
            most = self.most_of(schedule) if schedule.coalesce == "all" else 2
            return _Planned(schedule.id, (stored, plan(schedule, stored.progress, now, most)))
        except Exception as error:
            if is_of_signal_handler(error):
                raise
            # A trigger may be anybody's code: whatever it raises must not stop the other schedules.
            return _Planned(schedule.id, _set_aside(stored, error, now))

    def _steps(self, planned: Sequence[_Planned], now: float, made: Round) -> list[ScheduleStep]:
        return [
            found.what if isinstance(found.what, ScheduleStep) else self._step(*found.what, now, made)
            for found in planned
        ]

    def _step(self, stored: Stored, planned: Plan, now: float, made: Round) -> ScheduleStep:
        try:
            step = step_of(stored, planned, now)
        except Exception as error:
            if is_of_signal_handler(error):
                raise
            return _set_aside(stored, error, now)
        if planned.progress.buffered is not None:
            made.waiting.update(dict.fromkeys(planned.progress.live, step.id))
        return step

    def most_of(self, schedule: Schedule) -> int:
        """Return how many jobs of a schedule one step may post."""
        return most_postings(schedule, self._backend.capabilities.largest_step)

    def step_of_resume(
        self, stored: Stored, resumed: Schedule, now: float, what: str, operator: Operator
    ) -> ScheduleStep:
        """Return the step that ends a schedule's pause, and posts what was due before it."""
        progress = self.progress_now(stored)
        return step_of_resume(stored, resumed, progress, now, self.most_of(resumed), what, operator)

    def progress_now(self, stored: Stored) -> Progress:
        """Return the progress without jobs that have ended: a paused schedule fired by hand has nobody else to look."""
        progress = stored.progress.copy()
        if len(progress.live) <= _MAX_READ_LIVE:
            live = self.live_among(progress.live)
            progress.live = [uuid for uuid in progress.live if uuid in live]
        return progress

    def live_among(self, uuids: Iterable[str]) -> set[str]:
        """Return those of these jobs that are still on the board.

        A job that ends just after this look only makes its schedule wait for the next one.
        """
        wanted = list(uuids)
        found: set[str] = set()
        for part in self._client.batches(wanted):
            rows = self._client.call(self._backend.jobs.read, part)
            found.update(row.uuid for row in rows if row is not None and row.state in LIVE)
        return found


def _set_aside(stored: Stored, error: Exception, now: float) -> ScheduleStep:
    logger.error("schedule %r is set aside", stored.schedule.id, exc_info=error)
    return quarantine(stored, in_one_line(f"its next step can't be made: {line_of(error)}"), now)
