"""A schedule: when to post which job, what to do about missed times, and how it is stored as bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, TypedDict, TypeVar, Unpack, get_args, overload

import msgpack

from jobboard.backends.base import PAUSE_ID
from jobboard.codec import DECODING_ERRORS, MAX_ENCODED, NewerFormat, check_format, decode, encode
from jobboard.converter import Converter
from jobboard.errors import MissingExtra
from jobboard.limit import check_lane
from jobboard.schedules.progress import Progress
from jobboard.schedules.triggers import Trigger, trigger_from_plain
from jobboard.states import JobPriority
from jobboard.task_protocol import FromTask, TaskProtocol, check_task, is_task, schedule_options
from jobboard.types import Coalesce, Overlap, Priority, Seconds
from jobboard.validation import check_count, check_delay, check_moment, check_text, moment

#: Raise it with every change, also a new field or kind of trigger: an older reader leaves a newer format alone, and
#: sets aside what it can't make sense of. A schedule is packed in the first format that has all of it.
_FORMAT = 2
_FORMAT_WITHOUT_LANES = 1

#: The longest id, in bytes of UTF-8: with a fire time it makes the key of the jobs that are posted.
MAX_ID = 200

COALESCE = get_args(Coalesce)
OVERLAP = get_args(Overlap)

Details = TypeVar("Details")


class ScheduleOptions(TypedDict, total=False):
    """The arguments of :class:`Schedule` by keyword."""

    priority: Priority
    coalesce: Coalesce
    misfire_grace: Seconds | None
    max_instances: int | None
    overlap: Overlap
    jitter: Seconds
    start: datetime | None
    end: datetime | None
    max_runs: int | None
    paused: bool
    max_attempts: int | None
    lane: str | None
    progress: Progress | None


@dataclass(frozen=True, init=False, slots=True)
class Schedule:
    """A trigger with a job template. Immutable; :meth:`Schedules.modify` changes the one on a board.

    :param id: unique on its board, at most 200 bytes.
    :param trigger: when; such as ``Cron("0 3 * * *", tz="Europe/Berlin")``.
    :param job: the name of the jobs that are posted, or their :class:`~jobboard.Task`, of which the name is kept.
        ``details``, ``priority``, ``max_attempts`` and ``lane`` are theirs too; with a task, the details are of its
        type, and the others are what it declares unless they are given (a None, too).
    :param coalesce: of several fire times that are overdue post the ``"latest"``, the ``"earliest"``, or ``"all"`` (of
        more than a thousand the last thousand).
    :param misfire_grace: a fire time that is later than this many seconds is not posted, and told as MISSED; None: a
        late run is better than none.
    :param max_instances: how many jobs of this schedule may be live at a time; None for any number. Those of a backfill
        don't count.
    :param overlap: what becomes of a fire time beyond that: ``"skip"``, or ``"buffer_one"``: one waits for room.
    :param jitter: every fire is put off by 0 to this many seconds, which depend on the id and the fire time only.
    :param start: there is no fire time before it, and none after ``end``; aware datetimes.
    :param max_runs: it is finished after this many posted fire times.
    :param paused: nothing is due until it is resumed.
    :raises TypeError, ValueError: names the argument at fault; :class:`~jobboard.InvalidPosting` the field of details.
    """

    id: str
    trigger: Trigger
    job: str
    details: dict[str, Any] | None = field(repr=False)
    priority: JobPriority
    coalesce: Coalesce
    misfire_grace: float | None
    max_instances: int | None
    overlap: Overlap
    jitter: float
    start: datetime | None
    end: datetime | None
    max_runs: int | None
    paused: bool
    max_attempts: int | None
    lane: str | None
    #: How far the schedule had come when it was read; None on one that was never on a board.
    progress: Progress | None = field(compare=False, repr=False)

    @overload
    def __init__(
        self,
        id: str,
        trigger: Trigger,
        job: str,
        details: dict[str, Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        id: str,
        trigger: Trigger,
        job: TaskProtocol[None],
        details: None = None,
        **options: Unpack[ScheduleOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        id: str,
        trigger: Trigger,
        job: TaskProtocol[Details],
        details: Details,
        **options: Unpack[ScheduleOptions],
    ) -> None: ...
    def __init__(
        self,
        id: str,
        trigger: Trigger,
        job: str | TaskProtocol[Any],
        details: Any = None,
        *,
        priority: Priority | FromTask = FromTask.DEFAULT,
        coalesce: Coalesce = "latest",
        misfire_grace: Seconds | None = None,
        max_instances: int | None = 1,
        overlap: Overlap = "skip",
        jitter: Seconds = 0.0,
        start: datetime | None = None,
        end: datetime | None = None,
        max_runs: int | None = None,
        paused: bool = False,
        max_attempts: int | FromTask | None = FromTask.DEFAULT,
        lane: str | FromTask | None = FromTask.DEFAULT,
        progress: Progress | None = None,
    ) -> None:
        set_field = partial(object.__setattr__, self)
        set_field("id", check_schedule_id(id))
        set_field("trigger", _check_kind("trigger", trigger, Trigger, "a trigger, such as Every(minutes=5)"))
        of_job: dict[str, Any] = {"priority": priority, "max_attempts": max_attempts, "lane": lane}
        given = {name: value for name, value in of_job.items() if value is not FromTask.DEFAULT}
        if not isinstance(job, str):
            task = check_task(job, "job must be a name or a Task")
            plain = task.encode(details) or None
            given = {**schedule_options(task, details, given), **given}
            job, details = task.name, plain
        set_field("job", check_text("job", job))
        set_field(
            "details",
            None if details is None else _check_kind("details", details, dict, "a dict, unless job is a Task"),
        )
        set_field("priority", JobPriority.convert(given.get("priority", JobPriority.NORMAL)))
        set_field("coalesce", _check_one_of("coalesce", coalesce, COALESCE))
        set_field("misfire_grace", None if misfire_grace is None else check_delay(misfire_grace, "misfire_grace"))
        set_field("overlap", _check_one_of("overlap", overlap, OVERLAP))
        set_field("jitter", check_delay(jitter, "jitter"))
        attempts, lane = given.get("max_attempts"), given.get("lane")
        for what, number in (("max_instances", max_instances), ("max_runs", max_runs), ("max_attempts", attempts)):
            set_field(what, None if number is None else check_count(what, number))
        for what, at in (("start", start), ("end", end)):
            set_field(what, None if at is None else moment(check_moment(what, at)))
        set_field("lane", None if lane is None else check_lane(lane))
        set_field("paused", _check_kind("paused", paused, bool, "True or False"))
        set_field("progress", progress)
        if self.start is not None and self.end is not None and self.end < self.start:
            raise ValueError(f"end {self.end} is before start {self.start}")
        if overlap == "buffer_one" and max_instances is None:
            raise ValueError('overlap="buffer_one" needs max_instances: with any number allowed, nothing has to wait')

    @property
    def next_fire_time(self) -> datetime | None:
        """When it is due next, without its jitter, as the read saw it; None if it is paused, finished or set aside."""
        progress = self.progress
        if progress is None or progress.upcoming is None or self.paused or progress.fault is not None:
            return None
        return moment(progress.upcoming)

    @property
    def state(self) -> str:
        """``"active"``, ``"paused"``, ``"finished"`` or ``"set aside"``; ``"new"`` if it was never on a board."""
        if self.progress is None:
            return "new"
        if self.progress.fault is not None:
            return "set aside"
        if self.paused:
            return "paused"
        return "finished" if self.progress.upcoming is None and self.progress.buffered is None else "active"

    @property
    def source(self) -> str | None:
        """Of which source :meth:`Schedules.apply` has put it on the board; None if it was added otherwise."""
        return None if self.progress is None else self.progress.source

    def to_plain(self) -> dict[str, Any]:
        """Return what :func:`schedule_from_plain` makes an equal schedule of: text, numbers, lists and dicts.

        Details go along as they are, so what JSON can't carry (bytes, datetimes) stays in them.
        """
        return {
            "id": self.id,
            "trigger": self.trigger.to_plain(),
            "job": self.job,
            "details": self.details,
            "priority": str(self.priority),
            "coalesce": self.coalesce,
            "misfire_grace": self.misfire_grace,
            "max_instances": self.max_instances,
            "overlap": self.overlap,
            "jitter": self.jitter,
            "start": None if self.start is None else self.start.isoformat(),
            "end": None if self.end is None else self.end.isoformat(),
            "max_runs": self.max_runs,
            "paused": self.paused,
            "max_attempts": self.max_attempts,
            "lane": self.lane,
        }


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A schedule whose bytes can't be decoded, and why; it can be removed or replaced.

    It is never due, but for one of a newer format, which newer schedulers fire.
    """

    id: str
    fault: str


def schedule_from_plain(
    plain: object, progress: Progress | None = None, trigger_of: Callable[[object], Trigger] = trigger_from_plain
) -> Schedule:
    """Return the schedule; raises ``ValueError`` or ``TypeError`` that says which field is wrong."""
    if not isinstance(plain, dict):
        raise TypeError(f"a schedule must be a dict, not {type(plain).__name__}")
    fields = dict(plain)
    missing = {"id", "trigger", "job"} - set(fields)
    unknown = set(fields) - _FIELDS
    if missing or unknown:
        fault = "lacks" if missing else "has unknown"
        raise ValueError(f"a schedule {fault} {', '.join(sorted(missing or unknown))}")
    fields["trigger"] = trigger_of(fields["trigger"])
    for what in ("start", "end"):
        if fields.get(what) is not None:
            fields[what] = _datetime_of(what, fields[what])
    return Schedule(**fields, progress=progress)


_FIELDS = set(Schedule.__dataclass_fields__) - {"progress"}


def _datetime_of(what: str, text: object) -> datetime:
    if not isinstance(text, str):
        raise TypeError(f"{what} must be text such as 2027-01-31T09:00:00+00:00, not {type(text).__name__}")
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{what} must be such as 2027-01-31T09:00:00+00:00, not {text!r}") from None


def check_schedule_id(value: object) -> str:
    """Return ``value`` if it can be a schedule's id in every store."""
    text = check_text("a schedule's id", value)
    if text == PAUSE_ID:
        raise ValueError(f"a schedule's id can't be {PAUSE_ID!r}, by which a board remembers that all are paused")
    if len(text.encode()) > MAX_ID:
        raise ValueError(f"a schedule's id must be at most {MAX_ID} bytes of UTF-8: {text!r}")
    return text


def changed_schedule(schedule: Schedule, changes: Mapping[str, Any]) -> Schedule:
    """Return the schedule with other arguments; with a task as its job, also with what that declares beside them."""
    declared: dict[str, Any] = {}
    if is_task(job := changes.get("job")):
        task, details = check_task(job, ""), changes.get("details", schedule.details)
        task.encode(details)
        declared = schedule_options(task, details, changes)
    return replace(schedule, progress=None, **declared, **changes)


def with_plain_details(schedule: Schedule, largest: int, converter: Converter | None) -> Schedule:
    """Return the schedule with its details as it keeps them, which is what its converter makes of them.

    :raises InvalidPosting: they can't be stored.
    """
    data = encode("details", schedule.details or {}, largest=largest, converter=converter).data
    return schedule if converter is None else replace(schedule, details=decode(data, largest=largest) or None)


def _check_kind(what: str, value: object, kind: type, shown: str) -> object:
    if not isinstance(value, kind):
        raise TypeError(f"{what} must be {shown}, not {type(value).__name__}")
    return value


def _check_one_of(what: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ValueError(f"{what} must be one of {', '.join(known)}, not {value!r}")
    return value


def pack_schedule(schedule: Schedule, progress: Progress) -> bytes:
    """Return the bytes of a schedule and how far it has come."""
    form, plain = _FORMAT, schedule.to_plain()
    if schedule.lane is None:
        form = _FORMAT_WITHOUT_LANES
        del plain["lane"]
    return bytes(msgpack.packb([form, plain, progress.to_plain()], datetime=True))


def unpack_schedule(id: str, data: bytes) -> Schedule:
    """Return the schedule of this id with its progress.

    ``MissingExtra`` is raised as such: nothing is wrong with a schedule of which this host lacks the trigger's package.

    :raises NewerFormat: a newer jobboard packed it.
    :raises ValueError: :func:`pack_schedule` can't have made it.
    """
    try:
        # Its progress may take about as much as the largest details.
        content = decode(data, largest=2 * MAX_ENCODED)
        known = _FORMAT_WITHOUT_LANES if content[0] == _FORMAT_WITHOUT_LANES else _FORMAT
        check_format("a schedule", content[0], known)
        _, plain, progress = content
        schedule = schedule_from_plain(plain, Progress.from_plain(progress), _trigger_of)
    except (NewerFormat, MissingExtra):
        raise
    except DECODING_ERRORS as error:
        # Whatever bytes do to a decoder, a bad entry must harm nobody.
        fault = str(error) if isinstance(error, ValueError) else repr(error)
        raise ValueError(f"not a schedule: {fault}") from None
    if schedule.id != id:
        raise ValueError("not a schedule: it has another one's id")
    return schedule


def outline_of(data: bytes) -> tuple[str, Progress] | None:
    """Return the name of the jobs of a packed schedule and how far it has come, without making its trigger.

    None if it can't be decoded.
    """
    try:
        _, plain, progress = decode(data, largest=2 * MAX_ENCODED)
        name, known = plain["job"], Progress.from_plain(progress)
    except DECODING_ERRORS:
        return None
    return (name, known) if isinstance(name, str) else None


def _trigger_of(plain: object) -> Trigger:
    return _known_trigger(msgpack.packb(plain))


@lru_cache(maxsize=1000)
def _known_trigger(packed: bytes) -> Trigger:
    """Return a trigger, which is immutable: many schedules have the same one, and each is read again and again."""
    return trigger_from_plain(msgpack.unpackb(packed))
