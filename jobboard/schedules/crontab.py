"""Crontab files: each command line becomes a trigger and a job that carries the command."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jobboard.schedules.triggers import Cron
from jobboard.schedules.triggers.zones import check_zone
from jobboard.types import Fold, Gap
from jobboard.validation import check_text

_SETTING = re.compile(r"""^(?P<name>[A-Za-z_]\w*|"[^"]*"|'[^']*')\s*=\s*(?P<value>.*)$""")

#: More faults than these are counted, not named.
_MAX_FAULTS = 10


@dataclass(frozen=True, slots=True)
class CrontabItem:
    """One command line of a crontab.

    :ivar line: its number in the file, from 1.
    :ivar trigger: when it is due.
    :ivar name: the job's name.
    :ivar details: the job's details: ``command``; and where there are any ``input`` (what the command reads, from
        behind the first ``%``), ``user`` (of a system's crontab) and ``environment`` (the settings above the line).
    """

    line: int
    trigger: Cron
    name: str
    details: dict[str, Any]

    @property
    def fingerprint(self) -> str:
        """A short text that stays the same as long as the line says the same, wherever in the file it stands."""
        said = json.dumps([self.trigger.to_plain(), self.name, self.details], sort_keys=True)
        return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def parse_crontab(
    text: str, job: str, *, tz: Any = "UTC", system: bool = False, gap: Gap = "shift", fold: Fold = "first"
) -> list[CrontabItem]:
    """Return the command lines of a crontab file.

    :param job: the name of the jobs that run commands.
    :param tz: the zone of lines with no ``CRON_TZ=`` above them; cron itself takes that of its host.
    :param system: whether it is a system's crontab, such as ``/etc/crontab``, with a user before each command.
    :param gap: with ``fold`` the policy of all triggers, as for ``Cron``.
    :raises ValueError: names each line that is wrong, and what is.
    """
    check_text("job", job)
    reader = _Reader(job, check_zone("tz", tz), system, gap, fold)
    Cron("@daily", gap=gap, fold=fold)  # a bad policy is no fault of the file
    items: list[CrontabItem] = []
    faults: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            items += reader.read(number, line.strip())
        except ValueError as error:
            faults.append(f"line {number}: {error}")
    if faults:
        more = f"; and {len(faults) - _MAX_FAULTS} more" if len(faults) > _MAX_FAULTS else ""
        raise ValueError("; ".join(faults[:_MAX_FAULTS]) + more)
    return items


class _Reader:
    """Reads line after line; settings hold for the lines below them."""

    def __init__(self, job: str, zone: str, system: bool, gap: Gap, fold: Fold) -> None:
        self._job = job
        self._default_zone = self._zone = zone
        self._system = system
        self._gap, self._fold = gap, fold
        self._environment: dict[str, str] = {}

    def read(self, number: int, line: str) -> Iterator[CrontabItem]:
        if not line or line.startswith("#"):
            return
        setting = _SETTING.match(line)
        if setting:
            self._set(_unquoted(setting["name"]), _unquoted(setting["value"].strip()))
            return
        expression, rest = _split(line, 1 if line.startswith("@") else 5)
        details: dict[str, Any] = {}
        if self._system:
            details["user"], rest = _split(rest, 1)
        if not rest:
            wanted = "a user and a command" if self._system else "a command"
            raise ValueError(f"there is no command; a line is {_shape(line)} and {wanted}: {line!r}")
        details |= _command_of(rest)
        if self._environment:
            details["environment"] = dict(self._environment)
        trigger = Cron(expression, self._zone, gap=self._gap, fold=self._fold)
        yield CrontabItem(number, trigger, self._job, details)

    def _set(self, name: str, value: str) -> None:
        if name == "CRON_TZ":
            self._zone = check_zone("CRON_TZ", value) if value else self._default_zone
        else:
            self._environment[name] = value


def _shape(line: str) -> str:
    return "a name such as @daily" if line.startswith("@") else "five fields"


def _split(text: str, count: int) -> tuple[str, str]:
    """Split the first words off, however wide the spaces between them are."""
    words = text.split(maxsplit=count)
    return " ".join(words[:count]), words[count] if len(words) > count else ""


def _command_of(text: str) -> dict[str, str]:
    """Part the command from its input: the first ``%`` ends the command, the others are new lines; ``\\%`` is one."""
    command, *lines = (part.replace("\\%", "%") for part in re.split(r"(?<!\\)%", text))
    return {"command": command.strip()} | ({"input": "\n".join(lines) + "\n"} if lines else {})


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"" else text
