"""Who changed a schedule and why, as its note, its history and its events tell it: texts, which every version reads."""

from __future__ import annotations

from dataclasses import dataclass

from jobboard.backends.reasons import by_whom
from jobboard.events import EventKind
from jobboard.schedules.progress import FireRecord, Progress
from jobboard.text import shortened
from jobboard.validation import check_operator, moment

#: Bytes of a line of history that are told of operators and their reasons; each step stores the history again.
_MAX_TOLD = 1000


@dataclass(frozen=True, slots=True)
class Operator:
    """Who asks for a change, and why; None for what nobody says."""

    by: str | None = None
    reason: str | None = None

    @classmethod
    def named(cls, by: object, reason: object) -> Operator:
        """Return one of what was given; raises ``TypeError`` or ``ValueError`` if it can't be kept."""
        return cls(*check_operator(by, reason))

    def told(self, what: str) -> str:
        """Return what was done, by whom and why."""
        said = shortened(by_whom(self.by, self.reason), _MAX_TOLD)
        return what if said is None else f"{what}, {said}" if self.by else f"{what}: {said}"

    def note_down(self, progress: Progress, what: str, now: float) -> None:
        """Add a line to the history if somebody is named; programs that name nobody drive out no fire times."""
        if self.by is not None:
            progress.note_down(FireRecord(EventKind.SCHEDULED, moment(now), None, reason=self.told(what)))

    def note_of_pause(self, now: float) -> str | None:
        """Return what is kept of a pause: why, by whom and since when."""
        return self.reason if self.by is None else f"{self._since()}{moment(now):%Y-%m-%d %H:%M} UTC)"

    def has_paused(self, note: str | None) -> bool:
        """Whether a pause with this note is this operator's, for the same reason."""
        return note == self.reason if self.by is None else (note or "").startswith(self._since())

    def note_of_pause_of_all(self) -> str | None:
        """Return what is kept of a pause of all schedulers, beside its moment: why and by whom."""
        return self.reason if self.by is None else f"{self._why()})"

    def _since(self) -> str:
        return f"{self._why()} since "

    def _why(self) -> str:
        return f"{self.reason or 'paused'} (by {self.by}"


NOBODY = Operator()
