"""At: once."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from jobboard.schedules.triggers.instants import datetime_of, instant_of, text_of
from jobboard.schedules.triggers.trigger import Trigger


class At(Trigger):
    """One moment, once: ``At(datetime(2026, 12, 1, 9, tzinfo=UTC))``; an aware datetime."""

    def __init__(self, moment: datetime) -> None:
        self._instant = instant_of("moment", moment)

    @property
    def moment(self) -> datetime:
        """The moment, in UTC."""
        return datetime_of(self._instant)

    def first_after(self, instant: int) -> int | None:
        return self._instant if self._instant > instant else None

    def last_within(self, after: int, until: int) -> int | None:
        return self._instant if after < self._instant <= until else None

    def to_plain(self) -> dict[str, Any]:
        return {"kind": "at", "moment": text_of(self._instant)}

    def __repr__(self) -> str:
        return f"At({text_of(self._instant)!r})"
