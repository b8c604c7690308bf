"""What an audit says of steps and signals that can't be read, and how a job is put aside that can't go on.

A step that can't be read must not run again, so its job goes to the trash. Such a signal is deleted, and can be sent
again. A job that is claimed is left alone: its handler may be past that step, or learns of it.
"""

from __future__ import annotations

from typing import Any

from jobboard.backends import lifecycle
from jobboard.backends.kv.jobs import Change, JobStorage
from jobboard.backends.rows import ClaimAnswer, JobRow, Trashing, Verdict
from jobboard.backends.transition import Transition
from jobboard.states import LIVE, JobState

UNREADABLE_SIGNAL = "a signal that was sent to it can't be read"


def unreadable_step(place: str) -> str:
    """Return what is wrong with a job; ``place`` is the step's own part of its key. Messages count steps from 1."""
    return f"its step {int(place) + 1 if place.isdecimal() else repr(place)} can't be read"


def is_checked(row: JobRow) -> bool:
    """Whether the steps and signals of a job are looked at."""
    return row.state in LIVE and row.state is not JobState.CLAIMED


def trash(jobs: JobStorage[Any], uuid: str, problem: str) -> bool:
    """Put a job aside, unless it is claimed by now, or ended."""

    def decide(row: JobRow | None, now: float) -> Transition[ClaimAnswer]:
        if row is None or not is_checked(row):
            return Transition(Verdict.LOST)
        return lifecycle.trash(row, Trashing(uuid, None, problem), now)

    return jobs.change([Change(uuid, decide)]) == [Verdict.DONE]
