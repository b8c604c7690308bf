"""The schedules of a board in its store: read, and changed as soon as nobody else changes them in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat

from jobboard.backends.base import PAUSE_ID
from jobboard.backends.cutting import parts_by_size
from jobboard.backends.rows import Verdict
from jobboard.backends.schedule_rows import ScheduleRow, ScheduleStep
from jobboard.client import BackendClient
from jobboard.codec import NewerFormat
from jobboard.errors import BoardUnavailable, MissingExtra, NotFound, UnreadableSchedule
from jobboard.schedules.operators import Operator
from jobboard.schedules.pausing import pause_in
from jobboard.schedules.planning import MAX_CAUGHT_UP
from jobboard.schedules.schedule import Schedule, check_schedule_id, unpack_schedule
from jobboard.schedules.transitions import Stored, readable_of, removal_of

_PAGE = 500

#: How many schedules one request changes at most, and how many bytes of them unless one alone has more.
_MAX_STEPS, _MAX_BYTES = 100, 500_000

#: How often a change is tried that loses its race to a scheduler.
_MAX_TRIES = 100

#: Given what is stored and the present moment, the step to take; None if nothing is to change.
Change = Callable[[Stored, float], ScheduleStep | None]
#: The same where there may be none yet.
ChangeOrAdd = Callable[[Stored | None, float], ScheduleStep | None]


class StoredSchedules:
    """Each schedule is a row with a version, which its next step must find.

    ``id`` is a schedule's id in all these calls. They raise BoardUnavailable if the store can't be reached.
    """

    def __init__(self, client: BackendClient) -> None:
        self._client = client
        self._backend = client.backend

    def get(self, id: str) -> ScheduleRow:
        """Return the row of a schedule.

        :raises NotFound: there is none of this id.
        """
        row = self._find(id)
        if row is None:
            raise self._missing(id)
        return row

    def __iter__(self) -> Iterator[ScheduleRow]:
        for page in self._client.pages(repeat(_PAGE), self._backend.schedules.page):
            yield from (row for row in page.rows if row.id != PAUSE_ID)

    def readable(self) -> Iterator[Schedule]:
        """Iterate over the schedules that this client can decode, in the same order."""
        return (schedule for row in self if (schedule := _readable_of(row)) is not None)

    def pause(self) -> ScheduleRow | None:
        """Return the row that pauses all schedulers, if there is one."""
        return pause_in(self._client.call(self._backend.schedules.read, [PAUSE_ID]))

    def change(self, id: str, decide: Change) -> Schedule:
        """Change a schedule, and return it as it is then.

        :raises NotFound: there is none of this id.
        """

        def decide_on_it(old: Stored | None, now: float) -> ScheduleStep | None:
            if old is None:
                raise self._missing(id)
            return decide(old, now)

        return self.change_or_add(id, decide_on_it)

    def change_until_resumed(self, id: str, decide: Change) -> Schedule:
        """End a schedule's pause by steps, each of which decides about one fire time or more.

        :raises NotFound: there is none of this id.
        """
        for _ in range(MAX_CAUGHT_UP):
            seen = self.change(id, decide)
            if not seen.paused:
                break
        return seen

    def change_or_add(self, id: str, decide: ChangeOrAdd) -> Schedule:
        """Change a schedule, or add one of this id, and return it as it is then."""

        def decide_anew() -> ScheduleStep | None:
            row = self._find(id)
            stored = None if row is None else Stored(readable_of(row), row.version)
            return decide(stored, self._client.call(self._backend.now))

        step = self._take(id, decide_anew)
        return readable_of(self.get(id) if step is None or step.row is None else step.row)

    def try_all(self, decisions: Mapping[str, ChangeOrAdd]) -> dict[str, Schedule]:
        """Decide about many schedules, and take all these steps in as few requests as the store allows.

        :returns: the schedules that were added or changed, as they are then, by id. The rest has nothing to change,
            can't be decoded, or was changed by another client in between: :meth:`change_or_add` decides anew.
        """
        made: dict[str, Schedule] = {}
        for ids in self._client.batches(list(decisions), _MAX_STEPS):
            rows = self._client.call(self._backend.schedules.read, ids)
            now = self._client.call(self._backend.now)
            steps = []
            for id, row in zip(ids, rows, strict=True):
                schedule = None if row is None else _readable_of(row)
                if row is not None and schedule is None:
                    continue
                stored = None if row is None or schedule is None else Stored(schedule, row.version)
                if (step := decisions[id](stored, now)) is not None:
                    steps.append(step)
            for part in parts_by_size(steps, _bytes_of, _MAX_BYTES):
                for step, verdict in zip(part, self._step(part), strict=True):
                    if verdict is not Verdict.LOST and step.row is not None:
                        made[step.id] = readable_of(step.row)
        return made

    def change_pause(self, decide: Callable[[ScheduleRow | None, float], ScheduleStep | None]) -> None:
        """Change the row that pauses all schedulers."""
        self._take(PAUSE_ID, lambda: decide(self.pause(), self._client.call(self._backend.now)))

    def remove(self, id: str, operator: Operator) -> None:
        """Delete a schedule, also one that can't be decoded.

        :raises NotFound: there is none of this id.
        """
        self._take(id, lambda: removal_of(self.get(id), operator))

    def remove_if(self, id: str, fits: Callable[[Schedule], bool], operator: Operator) -> Schedule | None:
        """Delete a schedule if it fits in that moment, and return it; None if nothing was deleted."""
        found: list[Schedule] = []

        def decide() -> ScheduleStep | None:
            found.clear()
            row = self._find(id)
            schedule = None if row is None else _readable_of(row)
            if row is None or schedule is None or not fits(schedule):
                return None
            found.append(schedule)
            return removal_of(row, operator)

        self._take(id, decide)
        return found[0] if found else None

    def remove_unreadable(self, id: str) -> None:
        """Delete a schedule if it can't be decoded.

        :raises UnreadableSchedule: it is of a newer format, and stays.
        """
        row = self._find(id)
        if row is not None:
            try:
                unpack_schedule(id, row.body)
            except NewerFormat as error:
                raise UnreadableSchedule(
                    f"schedule {id!r} is left as it is, upgrade this client or remove() the schedule: {error}"
                ) from None
            except ValueError:
                self._step([removal_of(row)])

    def remove_all(self, operator: Operator) -> int:
        """Delete every schedule, and return how many were deleted."""
        removed = 0
        for _ in range(_MAX_TRIES):
            steps = [removal_of(row, operator) for row in self]
            if not steps:
                return removed
            for part in self._client.batches(steps):
                removed += sum(verdict is not Verdict.LOST for verdict in self._step(part))
        raise BoardUnavailable(f"schedules are added and changed faster than they can be removed; {removed} are")

    def _find(self, id: str) -> ScheduleRow | None:
        return self._client.call(self._backend.schedules.read, [check_schedule_id(id)])[0]

    def _missing(self, id: str) -> NotFound:
        return NotFound(f"no schedule {id!r} on board {self._client.name!r}")

    def _step(self, steps: Sequence[ScheduleStep]) -> list[Verdict]:
        return self._client.call(self._backend.schedules.step, steps)

    def _take(self, id: str, decide: Callable[[], ScheduleStep | None]) -> ScheduleStep | None:
        """Take the step that was decided on; decide again if another client changed the schedule in between."""
        for _ in range(_MAX_TRIES):
            step = decide()
            if step is None or self._step([step]) != [Verdict.LOST]:
                return step
        raise BoardUnavailable(f"schedule {id!r} changed {_MAX_TRIES} times while this change was made; try again")


def _readable_of(row: ScheduleRow) -> Schedule | None:
    try:
        return readable_of(row)
    except (UnreadableSchedule, MissingExtra):
        return None


def _bytes_of(step: ScheduleStep) -> int:
    return 0 if step.row is None else len(step.row.body)
