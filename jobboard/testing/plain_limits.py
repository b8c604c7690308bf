"""Pauses and limits of a :class:`~jobboard.testing.plain_store.PlainStore`, by the rules alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from jobboard.backends.lane_rows import LanePage, LimitRow
from jobboard.backends.rows import Pause, Verdict
from jobboard.backends.transition import Note
from jobboard.events import EventKind
from jobboard.limit import is_lane_of
from jobboard.validation import moment

if TYPE_CHECKING:
    from jobboard.testing.plain_store import PlainStore


class PlainPauses:
    """The paused names, with what is known of their pauses; and all that was told of each."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.names: dict[str | None, Pause] = {}
        self.told: dict[str | None, list[Note]] = {}

    def pause(self, name: str | None, by: str | None = None, reason: str | None = None) -> None:
        if name not in self.names:
            now = self._now()
            self.names[name] = Pause(name, by, reason, moment(now))
            self.told.setdefault(name, []).append(Note(EventKind.PAUSED, by, now, None, reason))

    def resume(self, name: str | None) -> None:
        if self.names.pop(name, None) is not None:
            self.told.setdefault(name, []).append(Note(EventKind.RESUMED, None, self._now()))

    def pauses(self) -> list[Pause]:
        return list(self.names.values())


class PlainLimits:
    """The limits of a board by what they are of, and looks at its lanes."""

    def __init__(self, store: PlainStore) -> None:
        self._store = store
        self._rows: dict[tuple[str, str], LimitRow] = {}

    def all(self) -> list[LimitRow]:
        return list(self._rows.values())

    def put(self, row: LimitRow, after: str | None) -> Verdict:
        stored = self._rows.get(row.key)
        verdict = row.verdict(None if stored is None else stored.version, after)
        if verdict is Verdict.DONE:
            self._rows[row.key] = row
            note = Note(EventKind.LIMITED, row.limit.by, self._store.now(), None, str(row.limit))
            self._store.maintenance.told.setdefault(row.limit.name, []).append(note)
        return verdict

    def lanes(self, pattern: str, cursor: object | None, size: int) -> LanePage:
        return LanePage([lane for lane in self._store.lanes() if is_lane_of(lane, pattern)], None)

    def look(self, lanes: Sequence[str]) -> list[str]:
        self._store.look_at(lanes)
        return []

    def finish(self, row: LimitRow) -> None:
        if row.limit.is_empty:
            self._rows.pop(row.key)

    @property
    def names(self) -> dict[str, int]:
        """The names that have a limit, and how many of each may be claimed."""
        limits = [row.limit for row in self._rows.values() if row.limit.name is not None]
        return {str(limit.name): limit.running for limit in limits if limit.running is not None}
