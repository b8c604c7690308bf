"""What becomes of each job of APScheduler 3: a schedule, or the reason why it can't be one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from jobboard.apscheduler.converting import convert_trigger
from jobboard.apscheduler.pickled_names import Refused, State, as_zone
from jobboard.apscheduler.pickles import read_pickle
from jobboard.codec import MAX_DETAILS
from jobboard.errors import JobBoardError
from jobboard.schedules.schedule import Schedule, with_plain_details
from jobboard.schedules.triggers import AllOf, AnyOf, At, Every, Trigger
from jobboard.validation import moment

#: A pickle can name one list many times, so that the whole is larger than any memory.
_MAX_VALUES = 20_000
_MAX_TRIGGERS = 200
_MAX_DEPTH = 16

_DEFAULT_EXECUTOR = "default"
_WITHIN = (
    "an interval within a combined trigger is counted from its own start; "
    "APScheduler counts it anew from each fire time of the whole"
)
_SERIAL = (
    "coalesce=False: of several overdue fire times as many become jobs as max_instances allows, and the others are "
    "skipped; APScheduler ran them all, one after the other. All become jobs after: "
    "jobboard schedule modify ID --max-instances any"
)


@dataclass(slots=True)
class Found:
    """A job of APScheduler's, and what becomes of it.

    :ivar function: its function, as ``module:name``, if that could be read.
    :ivar schedule: what it becomes; None if it can't be one, for which ``reason`` says why.
    :ivar next_run_time: the first fire time of the schedule; None for the first one of its trigger.
    :ivar notes: what differs.
    """

    id: str
    function: str | None = None
    schedule: Schedule | None = None
    next_run_time: datetime | None = None
    reason: str | None = None
    notes: list[str] = field(default_factory=list)


def read_job(id: str, state: bytes, names: Mapping[str, str], now: float) -> Found:
    """Return what becomes of a job.

    :param state: its pickle.
    :param names: the job name of each function, which is ``module:name``.
    :param now: seconds since the epoch; what began earlier needs no start.
    """
    found = Found(id)
    try:
        plain = read_pickle(state)
        if isinstance(plain, dict) and set(plain) == {"next_run_time", "job_state"}:
            # ZooKeeper's, whose znodes hold both.
            plain = plain["job_state"]
        _read(found, plain, names, now)
    except (ValueError, TypeError, ArithmeticError, JobBoardError) as error:
        found.reason = str(error)
    except (LookupError, AttributeError) as error:
        found.reason = f"its state lacks something: {error!r}"
    return found


def _read(found: Found, state: object, names: Mapping[str, str], now: float) -> None:
    if not isinstance(state, dict) or not isinstance(state.get("func"), str):
        raise Refused("its state is not that of a job of APScheduler 3")
    if state.get("version") not in (None, 1):
        raise Refused(f"its state has version {state['version']!r}, which no APScheduler 3 writes")
    found.function = state["func"]
    keywords = _Triggers(now, found.notes).keywords_of(state.get("trigger"), 0)
    fields = {
        "details": _details(state.get("args"), state.get("kwargs")),
        "coalesce": "latest" if state.get("coalesce", True) else "all",
        "misfire_grace": _seconds("misfire_grace_time", state.get("misfire_grace_time")),
        "max_instances": state.get("max_instances", 1),
        "paused": state.get("next_run_time") is None,
    }
    first = state.get("next_run_time")
    if isinstance(keywords["trigger"], Every) and isinstance(first, datetime) and "jitter" not in keywords:
        # APScheduler counts on from a run that was moved.
        keywords["trigger"] = _counted_from(keywords["trigger"], first)
    schedule = Schedule(found.id, job=names.get(found.function, found.function), **fields, **keywords)
    with_plain_details(schedule, MAX_DETAILS, None)
    found.next_run_time = _next_run(schedule, first, now)
    if found.function not in names:
        raise Refused(f"no job name is given for its function: --map {found.function}=NAME")
    found.schedule = schedule
    if schedule.coalesce == "all" and schedule.max_instances is not None and not isinstance(schedule.trigger, At):
        found.notes.append(_SERIAL)
    executor = state.get("executor")
    if executor not in (None, _DEFAULT_EXECUTOR):
        found.notes.append(f"executor {executor!r} is left out: the conductor or the handler says which one runs it")


def _counted_from(trigger: Every, first: datetime) -> Every:
    span = timedelta(seconds=trigger.seconds)
    if trigger.start is not None and not (first - trigger.start) % span:
        return trigger
    return Every(seconds=trigger.seconds, start=first)


def _next_run(schedule: Schedule, value: object, now: float) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise Refused("its next_run_time is no aware datetime")
    # APScheduler's has a random jitter in it, which ours would be added to; one that is overdue is due at once.
    if schedule.jitter and value.timestamp() > now:
        return None
    return moment(value.timestamp())


def _seconds(what: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Refused(f"its {what} is a {type(value).__name__}")
    return float(value)


# -- arguments -------------------------------------------------------------------------------------------------------


def _details(args: object, kwargs: object) -> dict[str, Any] | None:
    values = _Values()
    details = values.plain("kwargs", kwargs or {}, 0)
    positional = values.plain("args", args or [], 0)
    if not isinstance(details, dict) or not isinstance(positional, list):
        raise Refused("its arguments are no list and no dict")
    if positional:
        if "args" in details:
            raise Refused("it has positional arguments, and one that is called args, too")
        details["args"] = positional
    return details or None


class _Values:
    """Counts what it passes on, since a pickle of a few bytes can hold billions of values."""

    def __init__(self) -> None:
        self._count = 0

    def plain(self, what: str, value: object, depth: int) -> Any:
        self._count += 1
        if self._count > _MAX_VALUES or depth > _MAX_DEPTH:
            raise Refused(f"its arguments are more than {_MAX_VALUES} values, or nested deeper than {_MAX_DEPTH}")
        if isinstance(value, dict):
            return {key: self.plain(f"{what}.{key}", item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.plain(f"{what}[{number}]", item, depth + 1) for number, item in enumerate(value)]
        if value is None or isinstance(value, (bool, int, float, str, bytes, datetime)):
            return value
        raise Refused(f"{what} is no plain data but {getattr(value, 'kind', type(value).__name__)}")


# -- triggers --------------------------------------------------------------------------------------------------------


class _Triggers:
    """Reads a trigger and its parts, of which it counts what it has read."""

    def __init__(self, now: float, notes: list[str]) -> None:
        self._now, self._notes = now, notes
        self._count = 0
        self._readers: dict[str, Callable[[dict[str, Any], int], dict[str, Any]]] = {
            "DateTrigger": self._date,
            "IntervalTrigger": self._interval,
            "CalendarIntervalTrigger": self._calendar,
            "CronTrigger": self._cron,
            "OrTrigger": partial(self._combined, AnyOf),
            "AndTrigger": partial(self._combined, AllOf),
        }

    def keywords_of(self, state: object, depth: int) -> dict[str, Any]:
        """Return the keywords ``trigger``, ``start``, ``end`` and ``jitter`` of a Schedule."""
        self._count += 1
        if self._count > _MAX_TRIGGERS or depth > _MAX_DEPTH:
            raise Refused(f"its trigger has more than {_MAX_TRIGGERS} parts, or is nested deeper than {_MAX_DEPTH}")
        if not isinstance(state, State) or state.kind not in self._readers:
            raise Refused("its trigger is none of APScheduler's own")
        return self._readers[state.kind](state.fields, depth)

    def _date(self, fields: dict[str, Any], depth: int) -> dict[str, Any]:
        return convert_trigger("date", run_date=fields["run_date"])

    def _interval(self, fields: dict[str, Any], depth: int) -> dict[str, Any]:
        interval = fields["interval"]
        if not isinstance(interval, timedelta):
            raise Refused("its interval is no time span")
        if depth:
            self._notes.append(_WITHIN)
        return convert_trigger("interval", seconds=interval.total_seconds(), **_bounds(fields))

    def _calendar(self, fields: dict[str, Any], depth: int) -> dict[str, Any]:
        units = zip(("years", "months", "weeks", "days"), fields["interval"], strict=True)
        clock = zip(("hour", "minute", "second"), fields["time"], strict=True)
        return convert_trigger("calendarinterval", **dict(units), **dict(clock), **_bounds(fields), **_zone(fields))

    def _cron(self, fields: dict[str, Any], depth: int) -> dict[str, Any]:
        texts = {
            _text(each, "name"): ",".join(map(_expression, each.fields["expressions"])) for each in fields["fields"]
        }
        return convert_trigger("cron", **texts, **_bounds(fields), **_zone(fields))

    def _combined(self, kind: Callable[..., Trigger], fields: dict[str, Any], depth: int) -> dict[str, Any]:
        parts: list[Trigger] = []
        for reference, state in fields["triggers"]:
            part = self.keywords_of(State(str(reference).rpartition(":")[2], state), depth + 1)
            parts.append(part.pop("trigger"))
            if "start" in part and part["start"].timestamp() <= self._now:
                del part["start"]
            if part:
                raise Refused(
                    f"a part of its combined trigger has its own {', '.join(sorted(part))}; only the whole can"
                )
        jitter = fields.get("jitter")
        return {"trigger": kind(*parts), **({"jitter": float(jitter)} if jitter else {})}


def _bounds(fields: dict[str, Any]) -> dict[str, Any]:
    return {what: fields.get(what) for what in ("start_date", "end_date", "jitter")}


def _zone(fields: dict[str, Any]) -> dict[str, Any]:
    return {"timezone": as_zone(fields["timezone"])}


def _text(state: object, what: str) -> str:
    value = state.fields.get(what) if isinstance(state, State) else None
    if not isinstance(value, str):
        raise Refused(f"a field of its cron trigger has no {what}")
    return value


_POSITIONS = ("1st", "2nd", "3rd", "4th", "5th", "last")
_WEEK = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def _expression(state: object) -> str:
    """Return the text that an expression of a cron field was made of."""
    if not isinstance(state, State):
        raise Refused("an expression of its cron trigger is none")
    fields = state.fields
    if state.kind == "LastDayOfMonthExpression":
        return "last"
    if state.kind == "WeekdayPositionExpression":
        return f"{_POSITIONS[fields['option_num']]} {_WEEK[fields['weekday']]}"
    step = f"/{fields['step']:d}" if fields.get("step") else ""
    if state.kind == "AllExpression":
        return f"*{step}"
    first, last = fields["first"], fields.get("last")
    return (f"{first:d}" if last in (None, first) else f"{first:d}-{last:d}") + step
