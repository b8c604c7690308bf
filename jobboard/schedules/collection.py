"""The schedules of a board: added, changed, read, and fired by hand."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from datetime import datetime
from itertools import chain, islice, takewhile
from typing import Any

from jobboard.backends.errors import after_a_change
from jobboard.backends.rows import IfExists, JobRow, NewJob
from jobboard.backends.schedule_rows import ScheduleStep
from jobboard.client import BackendClient
from jobboard.errors import AlreadyScheduled, MissingExtra, UnreadableSchedule
from jobboard.job import Job
from jobboard.schedules import pausing
from jobboard.schedules.adding import Adding
from jobboard.schedules.applying import Applying
from jobboard.schedules.changes import ScheduleChange
from jobboard.schedules.firing import Firing
from jobboard.schedules.operators import Operator
from jobboard.schedules.planning import due_at, fire_times
from jobboard.schedules.progress import FireRecord
from jobboard.schedules.schedule import Schedule, Unreadable, changed_schedule, schedule_from_plain
from jobboard.schedules.stored_schedules import StoredSchedules
from jobboard.schedules.transitions import (
    Stored,
    begin_pause,
    change_of,
    check_next_run_time,
    has_other_times,
    kept_progress,
    posting_of,
    readable_of,
    step_by_hand,
    step_of_backfill,
)
from jobboard.schedules.triggers.every import check_interval
from jobboard.text import in_one_line
from jobboard.types import IfExistsName
from jobboard.validation import check_count, check_moment, check_reason, check_text, moment

logger = logging.getLogger("jobboard.schedules")

#: A backfill of more fire times is more likely a slip than a wish.
MAX_BACKFILLED = 10_000

_CHANGEABLE = frozenset(field.name for field in fields(Schedule)) - {"id", "progress"}


class Schedules:
    """The schedules that live on a board, as :attr:`JobBoard.schedules`; thread-safe, shared by all clients.

    Every change is atomic; it is made again if a scheduler changed the schedule meanwhile. In all these calls ``id`` is
    a schedule's id, and :class:`~jobboard.BoardUnavailable` is raised if the store can't be reached. ``by`` is the
    operator, and ``reason`` a text that says why: the event tells both, and if ``by`` is given, :meth:`history` too.

    :param handle_of: makes the handle on a job that was posted.
    """

    def __init__(self, client: BackendClient, handle_of: Callable[[JobRow], Job]) -> None:
        self._client = client
        self._backend = client.backend
        self._stored = StoredSchedules(client)
        self._adding = Adding(client, self._stored)
        self._firing = Firing(client)
        self._handle_of = handle_of

    def __repr__(self) -> str:
        return f"<Schedules of board {self._client.name!r}>"

    def add(
        self,
        schedule: Schedule,
        if_exists: IfExistsName = "raise",
        *,
        next_run_time: datetime | None = None,
    ) -> Schedule:
        """Put a schedule on the board; its first fire time is the first one after this moment. Atomic.

        An ``At`` that has passed is due at once, or missed if that is later than ``misfire_grace``.

        :param schedule: its ``progress`` is ignored.
        :param if_exists: if there is one of this id: ``"raise"``, ``"keep"`` it as it is, or ``"replace"`` it. A
            replacement keeps the progress of the old one, unless its trigger, start or end is another one; a paused
            schedule stays paused.
        :returns: the schedule as it is on the board now.
        :raises AlreadyScheduled: there is one.
        :raises UnreadableSchedule: with ``"keep"``: it can't be decoded; with ``"replace"``: it is of a newer format.
        :raises ValueError: it would never fire, or more often than the board's option ``least_interval`` allows.
        :raises InvalidPosting: the details can't be stored.
        :raises NotSupported: it has a lane, on a board of shards: its jobs would be on another shard than the lane's.
        """
        mode = IfExists.convert(if_exists)
        fresh = replace(self._adding.checked(schedule), progress=None)
        first = None if next_run_time is None else check_next_run_time(fresh, next_run_time)

        def replaces(old: Schedule, _fresh: Schedule) -> bool:
            if mode is IfExists.RAISE:
                raise AlreadyScheduled(
                    f"there is a schedule {old.id!r} on board {self._client.name!r}; "
                    'if_exists (--if-exists) can be "keep" or "replace"'
                )
            return mode is IfExists.REPLACE

        if mode is IfExists.REPLACE:
            self._stored.remove_unreadable(fresh.id)
        return self._adding.put(fresh, replaces, first)[0]

    def modify(self, /, id: str, *, by: str | None = None, reason: str | None = None, **changes: Any) -> Schedule:
        """Change some of a schedule's arguments in one step; it keeps its progress. Atomic.

        With another trigger, start or end its next fire time is the first one after this moment. A schedule that was
        set aside is tried again.

        :param changes: arguments of :class:`~jobboard.Schedule` but ``id``, by name; with a task as ``job``, its
            ``details`` too, and the lane and priority that it declares unless they are given.
        :param by: the operator; with ``paused=True`` the note names them, as that of :meth:`pause`.
        :returns: the schedule as it is on the board now.
        :raises NotFound: there is no such schedule.
        """
        operator = Operator.named(by, reason)
        unknown = sorted(set(changes) - _CHANGEABLE)
        if unknown:
            raise TypeError(
                f"a schedule has no {', '.join(unknown)} to modify; there are {', '.join(sorted(_CHANGEABLE))}"
            )

        def decide(stored: Stored, now: float) -> ScheduleStep:
            schedule = changed_schedule(stored.schedule, changes)
            # The board's options judge what is given here, not what another board has stored.
            if "details" in changes:
                schedule = self._adding.kept(schedule)
            self._adding.check_lane(schedule)
            if "trigger" in changes:
                check_interval(schedule.trigger, self._client.least_interval)
            is_resumed = stored.schedule.paused and not schedule.paused and stored.progress.fault is None
            if is_resumed and not has_other_times(stored.schedule, schedule):
                return self._firing.step_of_resume(stored, schedule, now, "modified", operator)
            progress = kept_progress(stored.schedule, schedule, now)
            if schedule.paused and not stored.schedule.paused:
                progress.note = operator.note_of_pause(now)
            return change_of(schedule, stored.version, progress, now, "modified", operator)

        return (
            self._stored.change_until_resumed(id, decide)
            if changes.get("paused") is False
            else self._stored.change(id, decide)
        )

    def pause(self, id: str, note: str | None = None, *, by: str | None = None) -> Schedule:
        """Let the schedule not be due until :meth:`resume`. Atomic and idempotent.

        :param note: why; of a paused schedule the last one stays.
        :param by: the operator; the note then says too by whom and since when it is paused.
        :raises NotFound: there is no such schedule.
        """
        operator = Operator.named(by, check_reason(note, "note"))

        def decide(stored: Stored, now: float) -> ScheduleStep | None:
            progress = stored.progress.copy()
            if not stored.schedule.paused:
                begin_pause(progress, now)
            elif operator.has_paused(progress.note):
                return None
            progress.note = operator.note_of_pause(now)
            return change_of(replace(stored.schedule, paused=True), stored.version, progress, now, "paused", operator)

        return self._stored.change(id, decide)

    def resume(self, id: str, *, by: str | None = None, reason: str | None = None) -> Schedule:
        """End a pause, or try again a schedule that was set aside. Atomic and idempotent.

        Fire times that passed meanwhile are left out. Those that were due before the pause are posted now, or missed,
        by the schedule's policies; more than one step of the store can post are posted in parts.

        :raises NotFound: there is no such schedule.
        """
        operator = Operator.named(by, reason)

        def decide(stored: Stored, now: float) -> ScheduleStep | None:
            if not stored.schedule.paused and stored.progress.fault is None:
                return None
            resumed = replace(stored.schedule, paused=False)
            return self._firing.step_of_resume(stored, resumed, now, "resumed", operator)

        return self._stored.change_until_resumed(id, decide)

    def pause_all(self, note: str | None = None, *, by: str | None = None) -> None:
        """Let no scheduler post anything for this board, wherever it runs, until :meth:`resume_all`. Idempotent.

        A step that is under way is completed. Firing by hand goes on. Fire times that pass meanwhile are due
        afterwards, by each schedule's own policies.

        :param note: why.
        :param by: the operator; the note then names them, too.
        """
        operator = Operator.named(by, check_reason(note, "note"))
        self._stored.change_pause(lambda before, now: pausing.step_to_pause(before, operator, now))

    def resume_all(self, *, by: str | None = None, reason: str | None = None) -> None:
        """End the pause of all schedulers; single schedules stay paused. Idempotent."""
        operator = Operator.named(by, reason)
        self._stored.change_pause(
            lambda before, now: None if before is None else pausing.step_to_resume(before, operator)
        )

    def all_paused(self) -> pausing.SchedulersPaused | None:
        """Return since when all schedulers are paused, and why; None if they are not."""
        row = self._stored.pause()
        return None if row is None else pausing.unpack_pause(row)

    def remove(self, id: str, *, by: str | None = None, reason: str | None = None) -> None:
        """Delete a schedule, also one that can't be decoded; the jobs that it posted stay. Atomic.

        :param by: the operator; it is logged, and kept nowhere, as is ``reason``.
        :raises NotFound: there is no such schedule.
        """
        operator = Operator.named(by, reason)
        self._stored.remove(id, operator)
        self._log(operator.told(f"schedule {id!r} is removed"))

    def remove_all(self, *, by: str | None = None, reason: str | None = None) -> int:
        """Delete every schedule, also those that can't be decoded; the jobs that they posted stay. Atomic in parts.

        :param by: as for :meth:`remove`.
        :returns: how many were removed; one that is added meanwhile may stay.
        """
        operator = Operator.named(by, reason)
        removed = self._stored.remove_all(operator)
        self._log(operator.told(f"all schedules are removed, {removed} of them"))
        return removed

    def _log(self, told: str) -> None:
        logger.info("board %s: %s", self._client.name, in_one_line(told))

    # -- reading ---------------------------------------------------------------------------------------------------

    def get(self, id: str) -> Schedule:
        """Return a schedule with its progress as it is now.

        :raises NotFound: there is none of this id.
        :raises UnreadableSchedule: it can't be decoded.
        """
        return readable_of(self._stored.get(id))

    def __iter__(self) -> Iterator[Schedule]:
        """Iterate over the schedules by next fire time, those without one last; 500 a request.

        Schedules that can't be decoded are left out; see :meth:`unreadable`.
        """
        return self._stored.readable()

    def unreadable(self) -> list[Unreadable]:
        """Return the schedules that can't be decoded."""
        found = []
        for row in self._stored:
            try:
                readable_of(row)
            except (UnreadableSchedule, MissingExtra) as error:
                found.append(Unreadable(row.id, str(error)))
        return found

    def upcoming(self, id: str, count: int) -> list[datetime]:
        """Return the next ``count`` fire times, or fewer if there are no more; without jitter.

        Of a paused schedule these are the fire times that it would have if it were resumed now.

        :raises NotFound: there is no such schedule.
        """
        check_count("count", count)
        schedule = self.get(id)
        progress = schedule.progress
        assert progress is not None
        if schedule.max_runs is not None:
            count = min(count, max(0, schedule.max_runs - progress.runs))
        if schedule.paused:
            times = fire_times(schedule, self._client.call(self._backend.now))
        elif progress.upcoming is not None:
            times = chain([progress.upcoming], fire_times(schedule, progress.upcoming))
        else:
            times = iter(())
        return [moment(time) for time in islice(times, count)]

    def due_at(self, id: str) -> datetime | None:
        """Return when the schedule is due next, its jitter included; None if it is not.

        :raises NotFound: there is no such schedule.
        """
        schedule = self.get(id)
        upcoming = schedule.next_fire_time
        return None if upcoming is None else moment(due_at(schedule, upcoming.timestamp()))

    def history(self, id: str) -> list[FireRecord]:
        """Return what became of the last fire times, and who changed the schedule, oldest first; 20 entries are kept.

        :raises NotFound: there is no such schedule.
        """
        progress = self.get(id).progress
        assert progress is not None
        return list(progress.history)

    # -- firing by hand --------------------------------------------------------------------------------------------

    def fire_now(self, id: str, *, by: str | None = None, reason: str | None = None) -> Job:
        """Post a job of the schedule for this moment; its next fire time, runs and pause stay as they are. Atomic.

        The job counts as live. It is posted in any case, also beyond ``max_instances``.

        :raises NotFound: there is no such schedule.
        """
        operator = Operator.named(by, reason)
        fire_time = self._client.call(self._backend.now)

        def decide(stored: Stored, postings: list[NewJob], now: float) -> ScheduleStep:
            return step_by_hand(stored, self._firing.progress_now(stored), postings[0], fire_time, now, operator)

        return self._post_for(id, [fire_time], decide)[0]

    def backfill(
        self, id: str, start: datetime, end: datetime, *, by: str | None = None, reason: str | None = None
    ) -> list[Job]:
        """Post the jobs of all fire times from ``start`` to ``end`` now.

        A job that is live already is not posted again. The jobs don't count towards ``max_instances``: the schedule
        goes on meanwhile. Atomic in parts of as many jobs as one step of the store can post; the last one writes the
        one line of history for all.

        :param start: an aware datetime; included, as is ``end``.
        :returns: handles on all of these jobs, in the order of their fire times.
        :raises NotFound: there is no such schedule.
        :raises ValueError: these are more than ten thousand fire times.
        """
        operator = Operator.named(by, reason)
        first, last = check_moment("start", start), check_moment("end", end)
        if last < first:
            raise ValueError(f"end {end} is before start {start}")
        schedule = self.get(id)
        found = takewhile(lambda time: time <= last, fire_times(replace(schedule, start=None, end=None), first - 1e-6))
        times = list(islice(found, MAX_BACKFILLED + 1))
        if len(times) > MAX_BACKFILLED:
            raise ValueError(f"more than {MAX_BACKFILLED} fire times are from {start} to {end}; take a shorter time")
        size = self._firing.most_of(schedule)
        starts = range(0, len(times), size)
        return [job for at in starts for job in self._backfill_part(id, times, at, at + size, operator)]

    def _backfill_part(self, id: str, times: list[float], start: int, end: int, operator: Operator) -> list[Job]:
        count = len(times) if end >= len(times) else 0

        def decide(stored: Stored, postings: list[NewJob], now: float) -> ScheduleStep:
            progress = self._firing.progress_now(stored)
            return step_of_backfill(stored, progress, postings, times[-1], count, now, operator)

        return self._post_for(id, times[start:end], decide)

    def _post_for(
        self, id: str, times: list[float], step_of: Callable[[Stored, list[NewJob], float], ScheduleStep]
    ) -> list[Job]:
        postings: list[NewJob] = []

        def decide(stored: Stored, now: float) -> ScheduleStep:
            postings[:] = [posting_of(stored.schedule, time) for time in times]
            return step_of(stored, postings, now)

        self._stored.change(id, decide)
        with after_a_change():
            return [self._job_of(posting) for posting in postings]

    def _job_of(self, posting: NewJob) -> Job:
        """Return a handle on what was posted, or on the live job that has its key; it may have ended by now."""
        row = self._client.call(self._backend.jobs.read, [posting.uuid])[0]
        if row is None and posting.key is not None:
            row = self._client.call(self._backend.jobs.find, posting.name, posting.key)
        if row is None:
            now = self._client.call(self._backend.now)
            row = JobRow(posting.uuid, posting.name, posting.priority, 0, now, posting.body, posting.key)
        return self._handle_of(row)

    # -- in and out ------------------------------------------------------------------------------------------------

    def export(self) -> list[dict[str, Any]]:
        """Return all schedules that can be decoded as plain data, without their progress."""
        return [schedule.to_plain() for schedule in self]

    def load(self, plain: list[dict[str, Any]], if_exists: IfExistsName = "raise") -> list[Schedule]:
        """Add what :meth:`export` returned, one after the other; all are checked before the first is added.

        :param if_exists: as for :meth:`add`.
        :returns: the schedules as they are on the board now.
        :raises ValueError: one of them is wrong, and in which field; none is added.
        """
        schedules = [schedule_from_plain(item) for item in plain]
        return [self.add(schedule, if_exists) for schedule in schedules]

    def apply(
        self, schedules: Iterable[Schedule], source: str, *, by: str | None = None, reason: str | None = None
    ) -> list[ScheduleChange]:
        """Let the board have these schedules of a source; remove those that only an earlier apply of it has.

        Idempotent, also if several programs do it at once. All are checked before the first is changed. Each is changed
        in one step, as by :meth:`add` with ``"replace"``: one that is paused stays paused. What others added stays, but
        for one of the same id, which is of this source from then on.

        :param source: names the program or the file, such as ``"shop"``: another one for each that applies to the
            board. It is kept with each schedule until somebody replaces that by other means.
        :returns: what was changed; [] if nothing was.
        :raises ValueError: one is wrong, would never fire, or is there twice.
        :raises UnreadableSchedule: the board has one of these ids of a newer format.
        """
        return self._applying(source).apply(schedules, Operator.named(by, reason))

    def changes_to(self, schedules: Iterable[Schedule], source: str) -> list[ScheduleChange]:
        """Return what :meth:`apply` would change; errors are the same."""
        return self._applying(source).changes_to(schedules)

    def _applying(self, source: str) -> Applying:
        name = check_text("source", source)
        return Applying(self._client, name, lambda schedule: schedule.source == name)
