"""Cron: crontab strings on the clocks of a zone."""

from __future__ import annotations

from typing import Any

from jobboard.schedules.triggers.cron_pattern import pattern_of
from jobboard.schedules.triggers.cron_text import check_expression, fields_of
from jobboard.schedules.triggers.instants import SECOND
from jobboard.schedules.triggers.trigger import Trigger
from jobboard.schedules.triggers.walltimes import FOLDS, GAPS, WallTimes, check_policy
from jobboard.schedules.triggers.zones import check_zone
from jobboard.types import Fold, Gap


class Cron(Trigger):
    """A crontab string: ``Cron("0 3 * * mon-fri", tz="Europe/Berlin")``.

    A *fixed time* has neither ``*`` nor a step (``/``) in its minute and hour, as in ``30 2 * * *``; ``gap`` and
    ``fold`` are for these. What recurs within the day, as in ``*/15 * * * *``, follows elapsed time instead: it is due
    whenever clocks show a time of it, so through a gap it goes on, and in a fold it is due in both hours.

    :param expression: 5 fields (minute, hour, day of month, month, day of week), or 6 with the second first; or
        ``@hourly``, ``@daily``, ``@weekly``, ``@monthly``, ``@yearly``. Weekdays are 0 to 7, 0 and 7 are Sunday.
    :param tz: the zone whose clocks are meant, UTC by default.
    :param gap: what becomes of a fixed time that clocks skip in spring: ``"shift"``, it is at the first moment after
        the gap, or ``"skip"``, it is not.
    :param fold: which is meant of a fixed time that clocks show twice in autumn: ``"first"``, ``"second"``, ``"both"``.
    :raises ValueError: says which field is wrong, or that no date will ever match.
    :raises MissingExtra: the package cronsim is not installed.
    """

    def __init__(self, expression: str, tz: Any = "UTC", *, gap: Gap = "shift", fold: Fold = "first") -> None:
        self.expression = check_expression(expression)
        self.tz = check_zone("tz", tz)
        self.gap = check_policy("gap", gap, GAPS)
        self.fold = check_policy("fold", fold, FOLDS)
        pattern = pattern_of(self.expression)
        policy = (self.gap, self.fold) if self.is_fixed else ("skip", "both")
        self._times = WallTimes(pattern, self.tz, *policy)

    @property
    def is_fixed(self) -> bool:
        """Whether it names fixed times, for which ``gap`` and ``fold`` are; otherwise it follows elapsed time."""
        _, minute, hour, *_ = fields_of(self.expression)
        return not any(sign in field for sign in "*/" for field in (minute, hour))

    def first_after(self, instant: int) -> int | None:
        found = self._times.first_after(instant // SECOND)
        return None if found is None else found * SECOND

    def last_within(self, after: int, until: int) -> int | None:
        found = self._times.last_within(after // SECOND, until // SECOND)
        return None if found is None else found * SECOND

    def to_plain(self) -> dict[str, Any]:
        return {
            "kind": "cron",
            "expression": self.expression,
            "tz": self.tz,
            "gap": self.gap,
            "fold": self.fold,
        }

    def __repr__(self) -> str:
        return f"Cron({self.expression!r}, tz={self.tz!r}, gap={self.gap!r}, fold={self.fold!r})"
