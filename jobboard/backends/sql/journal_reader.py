"""Reading a journal whose lines are numbered when they are written, and visible when they are committed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from jobboard.backends.sql import event_statements
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement

#: For so many seconds a missing number may still become that of an event.
MISSED_TTL = 10.0
#: So many missing numbers are read at a time.
MAX_MISSED = 500


class JournalReader:
    """Remembers missing numbers: their lines may be committed after those of larger numbers.

    Of two lines of one job the later one is never committed first, so the order within a job holds.
    """

    def __init__(self, rows: Callable[..., list[Row]], list_of: Callable[[Any], Any]) -> None:
        self._rows = rows
        self._list_of = list_of
        self._last: int | None = None
        #: Number -> since when it is missing.
        self._missed: dict[int, float] = {}

    def read(self, after: int) -> list[Row]:
        """Return the lines after the number ``after``, and earlier ones that were missing."""
        last = after if self._last is None else max(after, self._last)
        late = self._late()
        rows = self._ask(event_statements.EVENTS, last=last)
        now = time.monotonic()
        for row in rows:
            for number in range(max(last + 1, row[0] - MAX_MISSED), row[0]):
                self._missed[number] = now
            last = row[0]
        self._last = last
        return [*late, *rows]

    def _late(self) -> list[Row]:
        if not self._missed:
            return []
        long_ago = time.monotonic() - MISSED_TTL
        wanted = [number for number, since in self._missed.items() if since > long_ago][-MAX_MISSED:]
        rows = self._ask(event_statements.EVENTS_OF, ids=self._list_of(wanted))
        found = {row[0] for row in rows}
        self._missed = {number: self._missed[number] for number in wanted if number not in found}
        return rows

    def _ask(self, statement: Statement, **parameters: Any) -> list[Row]:
        return self._rows(statement, **parameters)
