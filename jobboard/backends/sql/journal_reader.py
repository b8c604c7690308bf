"""Reading the journal, also where lines are numbered when they are written, and visible when they are committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jobboard.backends.sql.journal_statements import EVENTS, EVENTS_OF, LAST_EVENT, MAX_EVENTS, MAX_SKIMMED, SKIM
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement

#: For how many seconds a missing number may still become that of an event.
MISSED_TTL = 10.0
#: How many missing numbers are read at a time.
MAX_MISSED = 500


class Lines(NamedTuple):
    """Some lines of the journal, the number up to which it was read, and whether that is its end."""

    rows: list[Row]
    last: int
    is_end: bool


def lines_after(rows: Callable[..., list[Row]], last: int) -> Lines:
    """Return the lines after the number ``last``, up to a number before it if the journal's end is there.

    :param rows: runs a statement.
    """
    found = rows(EVENTS, last=last)
    new = [row for row in found if row[0] != last]
    if new:
        return Lines(new, new[-1][0], len(new) < MAX_EVENTS)
    # Once the line that was read last is gone, the journal may end before it.
    return Lines([], last if found or not last else min(last, rows(LAST_EVENT)[0][0]), True)


class JournalReader:
    """Remembers missing numbers: their lines may be committed after those of larger numbers.

    Of two lines of one job the later one is never committed first. So the missing ones are read after those of larger
    numbers, and told before them, and the order within a job holds.
    """

    def __init__(self, rows: Callable[..., list[Row]], list_of: Callable[[Any], Any]) -> None:
        self._rows = rows
        self._list_of = list_of
        self._last: int | None = None
        #: Number -> since when it is missing.
        self._missed: dict[int, float] = {}

    def read(self, after: int) -> Lines:
        """Return the lines after the number ``after``, and earlier ones that were missing.

        They go up to a number before ``after`` if the journal's end is there.
        """
        last = self._start(after)
        rows, end, is_end = lines_after(self._ask, last)
        late = self._late()
        if not rows:
            return self._at_end(late, last, end)
        return Lines([*late, *rows], self._pass(last, [row[0] for row in rows]), is_end)

    def skim(self, after: int, may_skim: Callable[[], bool]) -> tuple[Lines, bool]:
        """Return the same without lines of common kinds, and whether somebody may wait for one that is left out.

        :param may_skim: asked again once the lines were read: a line that is left out was there before somebody began
            to listen to its kind, or everything is read.
        """
        last = self._start(after)
        [(numbers, rare, is_any_awaited, end)] = self._ask(SKIM, last=last)
        if not may_skim():
            return self.read(after), False
        rows = self._ask(EVENTS_OF, ids=self._list_of(rare)) if rare else []
        late = self._late()
        if not numbers:
            return self._at_end(late, last, end), False
        return Lines([*late, *rows], self._pass(last, numbers), len(numbers) < MAX_SKIMMED), bool(is_any_awaited)

    def _start(self, after: int) -> int:
        return after if self._last is None else max(after, self._last)

    def _at_end(self, late: list[Row], last: int, end: int) -> Lines:
        self._last = min(last, end)
        return Lines(late, self._last, True)

    def _pass(self, last: int, numbers: Sequence[int]) -> int:
        """Note that these lines were read, and which are missing between them; return the last number."""
        now = time.monotonic()
        for number in numbers:
            if number != last + 1:
                self._missed.update(dict.fromkeys(range(max(last + 1, number - MAX_MISSED), number), now))
            last = number
        self._last = last
        return last

    def _late(self) -> list[Row]:
        if not self._missed:
            return []
        long_ago = time.monotonic() - MISSED_TTL
        wanted = [number for number, since in self._missed.items() if since > long_ago][-MAX_MISSED:]
        rows = self._ask(EVENTS_OF, ids=self._list_of(wanted))
        found = {row[0] for row in rows}
        self._missed = {number: self._missed[number] for number in wanted if number not in found}
        return rows

    def _ask(self, statement: Statement, **parameters: Any) -> list[Row]:
        return self._rows(statement, **parameters)
