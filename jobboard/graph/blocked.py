"""What a blocked job waits for, as its row says it; no request."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from jobboard.states import JobState

if TYPE_CHECKING:
    from jobboard.backends.rows import JobRow


class Wait(str, enum.Enum):
    """What blocks a job. Parents come first, then a signal, then its lane."""

    PARENTS = "parents"
    SIGNAL = "signal"
    LANE = "lane"


def wait_of(row: JobRow) -> Wait | None:
    """Return what blocks a job, or will once its delay is over; None if nothing does."""
    if row.ties is None or row.state not in (JobState.BLOCKED, JobState.DELAYED):
        return None
    if row.ties.has_parents:
        return Wait.PARENTS
    if row.state is JobState.DELAYED:
        return None
    return Wait.SIGNAL if row.ties.signal is not None else Wait.LANE


def awaited_signal(row: JobRow) -> str | None:
    """Return the signal that a job waits for; None if it waits for none."""
    return row.ties.signal if wait_of(row) is Wait.SIGNAL and row.ties is not None else None


def waits_for(row: JobRow) -> str | None:
    """Return the same for people: ``parents``, ``signal approved``, ``lane tenant:42``."""
    wait, ties = wait_of(row), row.ties
    if wait is None or ties is None:
        return None
    names = {Wait.PARENTS: None, Wait.SIGNAL: ties.signal, Wait.LANE: ties.lane}
    return wait.value if names[wait] is None else f"{wait.value} {names[wait]}"
