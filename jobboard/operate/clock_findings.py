"""Whether the store's clock was set back: what the board has is then from a moment that is still to come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobboard.backends.rows import JobRow
from jobboard.text import duration

if TYPE_CHECKING:
    from jobboard.schedules.progress import Progress

#: By how many seconds the clock may be behind: a look takes its time, and the hosts of shards differ a little.
MAX_BEHIND = 60.0


@dataclass(frozen=True, slots=True)
class SetBack:
    """The newest moment on the board, if it is still to come.

    :ivar what: the job or the schedule that it is of, for people.
    :ivar seconds: by how much it is later than the store's clock.
    """

    what: str
    seconds: float


def set_back(rows: Iterable[JobRow], schedules: Mapping[str, tuple[str, Progress]], now: float) -> SetBack | None:
    """Return how far the store's clock is behind what was written last, of these jobs and active schedules."""
    seen = [(max(row.created_on, row.last_modified), f"job {row.uuid}") for row in rows]
    seen += [(progress.settled, f"schedule {id!r}") for id, (_, progress) in schedules.items()]
    newest, what = max(seen, default=(now, ""))
    return SetBack(what, newest - now) if newest - now > MAX_BEHIND else None


def told_set_back(found: SetBack) -> tuple[str, str]:
    """Say what was found, and what to do."""
    since = f"{found.what} was changed at a moment that is {duration(found.seconds)} ahead of it"
    text = (
        f"The store's clock was set back, or was wrong before: {since}. Until that moment schedules stand still, and "
        "earlier claims and delays last so much longer."
    )
    cure = "Set the clock right, if it is not. What can't wait: jobboard run-now UUID; jobboard schedule fire ID"
    return text, cure
