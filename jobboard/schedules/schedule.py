"""A schedule: when to post which job, what to do about missed times, and how it is stored as bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

import msgpack

from jobboard.codec import DECODING_ERRORS, MAX_ENCODED, NewerFormat, check_format, decode, encode
from jobboard.errors import MissingExtra
from jobboard.schedules.pausing import PAUSE_ID
from jobboard.schedules.progress import Progress
from jobboard.schedules.triggers import Trigger, trigger_from_plain
from jobboard.states import JobPriority
from jobboard.validation import check_count, check_delay, check_moment, check_text, moment

#: Raise it with every change, also a new field or kind of trigger: an older reader leaves a newer format alone, and
#: sets aside what it can't make sense of.
_FORMAT = 1

#: The longest id, in bytes of UTF-8: with a fire time it makes the key of the jobs that are posted.
MAX_ID = 200

COALESCE = ("latest", "earliest", "all")
OVERLAP = ("skip", "buffer_one")


@dataclass(frozen=True, slots=True)
class Schedule:
    """A trigger with a job template. Immutable; :meth:`Schedules.modify` changes the one on a board.

    :param id: unique on its board, at most 200 bytes.
    :param trigger: when; such as ``Cron("0 3 * * *", tz="Europe/Berlin")``.
    :param job: the name of the jobs that are posted; ``details``, ``priority`` and ``max_attempts`` are theirs too.
    :param coalesce: of several fire times that are overdue post the ``"latest"``, the ``"earliest"``, or ``"all"`` (of
        more than a thousand the last thousand).
    :param misfire_grace: a fire time that is later than this many seconds is not posted, and told as MISSED; None: a
        late run is better than none.
    :param max_instances: how many jobs of this schedule may be live at a time; None for any number.
    :param overlap: what becomes of a fire time beyond that: ``"skip"``, or ``"buffer_one"``: one waits for room.
    :param jitter: every fire is put off by 0 to this many seconds, which depend on the id and the fire time only.
    :param start: there is no fire time before it, and none after ``end``; aware datetimes.
    :param max_runs: it is finished after this many posted fire times.
    :param paused: nothing is due until it is resumed.
    :raises TypeError, ValueError: names the argument at fault.
    """

    id: str
    trigger: Trigger
    job: str
    details: dict[str, Any] | None = field(default=None, repr=False)
    _: KW_ONLY
    priority: JobPriority | str = JobPriority.NORMAL
    coalesce: Literal["latest", "earliest", "all"] = "latest"
    misfire_grace: float | None = None
    max_instances: int | None = 1
    overlap: Literal["skip", "buffer_one"] = "skip"
    jitter: float = 0.0
    start: datetime | None = None
    end: datetime | None = None
    max_runs: int | None = None
    paused: bool = False
    max_attempts: int | None = None
    #: How far the schedule had come when it was read; None on one that was never on a board.
    progress: Progress | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_schedule_id(self.id)
        if not isinstance(self.trigger, Trigger):
            kind = type(self.trigger).__name__
            raise TypeError(f"trigger must be a trigger, such as Every(minutes=5), not {kind}")
        check_text("job", self.job)
        if self.details is not None and not isinstance(self.details, dict):
            raise TypeError(f"details must be a dict, not {type(self.details).__name__}")
        object.__setattr__(self, "priority", JobPriority.convert(self.priority))
        self._check_policies()
        for what, value in (("start", self.start), ("end", self.end)):
            if value is not None:
                object.__setattr__(self, what, moment(check_moment(what, value)))
        if self.start is not None and self.end is not None and self.end < self.start:
            raise ValueError(f"end {self.end} is before start {self.start}")

    def _check_policies(self) -> None:
        _check_one_of("coalesce", self.coalesce, COALESCE)
        _check_one_of("overlap", self.overlap, OVERLAP)
        if self.misfire_grace is not None:
            object.__setattr__(self, "misfire_grace", check_delay(self.misfire_grace, "misfire_grace"))
        object.__setattr__(self, "jitter", check_delay(self.jitter, "jitter"))
        for what in ("max_instances", "max_runs", "max_attempts"):
            if getattr(self, what) is not None:
                check_count(what, getattr(self, what))
        if self.overlap == "buffer_one" and self.max_instances is None:
            raise ValueError('overlap="buffer_one" needs max_instances: with any number allowed, nothing has to wait')
        if not isinstance(self.paused, bool):
            raise TypeError(f"paused must be True or False, not {type(self.paused).__name__}")

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


_FIELDS = set(Schedule.__dataclass_fields__) - {"progress", "_"}


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


def check_details(schedule: Schedule, largest: int) -> None:
    """Raise :class:`InvalidPosting` if the details can't be stored."""
    encode("details", schedule.details or {}, largest=largest)


def _check_one_of(what: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{what} must be one of {', '.join(known)}, not {value!r}")


def pack_schedule(schedule: Schedule, progress: Progress) -> bytes:
    """Return the bytes of a schedule and how far it has come."""
    return bytes(msgpack.packb([_FORMAT, schedule.to_plain(), progress.to_plain()], datetime=True))


def unpack_schedule(id: str, data: bytes) -> Schedule:
    """Return the schedule of this id with its progress.

    ``MissingExtra`` is raised as such: nothing is wrong with a schedule of which this host lacks the trigger's package.

    :raises NewerFormat: a newer jobboard packed it.
    :raises ValueError: :func:`pack_schedule` can't have made it.
    """
    try:
        # Its progress may take about as much as the largest details.
        content = decode(data, largest=2 * MAX_ENCODED)
        check_format("a schedule", content[0], _FORMAT)
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


def job_name_in(data: bytes) -> str | None:
    """Return the name of the jobs of a packed schedule, without making its trigger; None if it can't be decoded."""
    try:
        name = decode(data, largest=2 * MAX_ENCODED)[1]["job"]
    except DECODING_ERRORS:
        return None
    return name if isinstance(name, str) else None


def _trigger_of(plain: object) -> Trigger:
    return _known_trigger(msgpack.packb(plain))


@lru_cache(maxsize=1000)
def _known_trigger(packed: bytes) -> Trigger:
    """Return a trigger, which is immutable: many schedules have the same one, and each is read again and again."""
    return trigger_from_plain(msgpack.unpackb(packed))
