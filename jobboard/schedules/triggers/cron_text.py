"""Crontab strings: their fields, and what is wrong with them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

from jobboard.errors import MissingExtra

if TYPE_CHECKING:
    from cronsim import CronSim

_FIELDS = (
    ("second", "0-59"),
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day of month", "1-31, L (the last) or LW (the last from Monday to Friday)"),
    ("month", "1-12 or jan-dec"),
    (
        "day of week",
        "0-7 (0, 7: Sunday) or sun-sat, with # for the nth of a month (mon#1) or L for its last (5L)",
    ),
)
#: The largest step that makes sense in a field: beyond it only the first value is left.
_MAX_STEPS = (59, 59, 23, 30, 11, 6)

_SOME_DAY = datetime(2000, 1, 1)  # noqa: DTZ001 - a wall time

_BY_NAME = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def check_expression(value: object) -> str:
    """Return a crontab string with one space between its fields."""
    if not isinstance(value, str):
        raise TypeError(f"a cron expression must be a str, such as '0 3 * * mon-fri', not {type(value).__name__}")
    text = " ".join(value.split())
    if text.startswith("@"):
        _check_name(text)
    return text


def fields_of(expression: str) -> list[str]:
    """Return the six fields of a checked expression, seconds first, with ``-sun`` made the end of the week."""
    fields = _BY_NAME.get(expression.lower(), expression).upper().split()
    if len(fields) not in (5, 6):
        raise ValueError(
            f"a cron expression has 5 fields (minute, hour, day of month, month, day of week), or 6 with the second "
            f"first; {expression!r} has {len(fields)}"
        )
    week = re.sub(r"-SUN\b", "-7", fields[-1])
    return ["0"] * (6 - len(fields)) + [*fields[:-1], week]


def parse(fields: list[str], expression: str) -> CronSim:
    """Return cronsim's reading of six fields.

    :param expression: where they come from, for errors.
    :raises ValueError: says which field is wrong.
    """
    try:
        from cronsim import CronSim, CronSimError
        from cronsim.cronsim import Field
    except ModuleNotFoundError as error:
        raise MissingExtra(f"Cron needs the Python package {error.name!r}: pip install 'jobboard[scheduler]'") from None

    for number, text in enumerate(fields):
        if "/" in text:
            _check_steps(expression, number, text)
    try:
        return CronSim(" ".join(fields), _SOME_DAY)
    except (CronSimError, AssertionError):
        pass
    for number, text in enumerate(fields):
        try:
            Field(number).parse(text)
        except (CronSimError, AssertionError):
            raise _fault(expression, number, text) from None
    raise never_due(expression)


def never_due(expression: str) -> ValueError:
    return ValueError(
        f"cron {expression!r} is never due: no date of fifty years has its day of month, month and day of week"
    )


def _check_name(text: str) -> None:
    if text.lower() in _BY_NAME:
        return
    if text.lower() == "@reboot":
        raise ValueError("@reboot names no time, and a board has no boot: post the job when your service starts")
    if text.lower().startswith("@every"):
        raise ValueError(f"{text!r} is no crontab: write Every(minutes=...) instead")
    raise ValueError(f"unknown name {text!r}; there are {', '.join(_BY_NAME)}")


def _check_steps(expression: str, number: int, text: str) -> None:
    for term in text.split(","):
        step = term.partition("/")[2]
        if step.isdecimal() and int(step) > _MAX_STEPS[number]:
            name = _FIELDS[number][0]
            raise ValueError(
                f"cron {expression!r}, {name} {term.lower()!r}: a step of {step} leads out of the field, and would "
                "leave its first value alone; write that value, or use Every(...) or Calendar(...) for what is longer"
            )


def _fault(expression: str, number: int, text: str) -> ValueError:
    name, known = _FIELDS[number]
    advice = f"its values are {known}, alone, in lists (1,2), ranges (1-5) and steps (*/2)"
    if "?" in text:
        advice = "'?' is of Quartz; write *"
    elif re.search(r"\b(\d+-\d+|[A-Z]{3}-[A-Z]{3})\b", text):
        advice += "; a range goes upwards (write sat,sun,mon instead of sat-mon)"
    return ValueError(f"cron {expression!r}, {name} {text.lower()!r}: {advice}")
