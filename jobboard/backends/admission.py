"""How jobs join lanes, and what a look at a lane makes of them, as ``lanes.plan`` plans it. Pure."""

from __future__ import annotations

from dataclasses import replace

from jobboard.backends.limits import LaneLimit
from jobboard.backends.rows import JobRow
from jobboard.backends.transition import Note, Transition
from jobboard.events import EventKind
from jobboard.states import JobState


def join(row: JobRow, place: float) -> None:
    """Let a job wait for its parents, else for its lane, or be claimable, at the place of what becomes due then."""
    row.state, row.place = JobState.UNCLAIMED, place
    if row.ties is not None and (row.ties.is_waiting or row.ties.lane is not None):
        row.state = JobState.BLOCKED
        if row.ties.since is not None:
            row.ties = replace(row.ties, since=None)


def end_delay(row: JobRow, place: float, limit: LaneLimit) -> None:
    """Let a delayed job join its lane; one of a strict lane that was claimed before has kept its slot."""
    is_kept = limit.is_strict and row.token
    if is_kept and limit.rate is None and row.ties is not None:
        row.state, row.place = JobState.UNCLAIMED, place
        # If the lane is paused now, or before its claim, nothing of its priority passes it once the pause is over.
        row.ties = replace(row.ties, since=row.created_on)
    elif is_kept:
        # Another start, which the rate must let. Nothing of its priority was to run before it, or passes it now.
        join(row, row.created_on)
    else:
        join(row, place)


def admit_at_once(row: JobRow) -> None:
    """Let a job that joins its lane in this very step be claimable at its place; nothing is told of it."""
    row.state = JobState.UNCLAIMED


def wait_for_lane(row: JobRow, now: float) -> Transition[None]:
    """Say that a job that joins its lane in this step waits for it."""
    note = Note(EventKind.BLOCKED, None, now)
    return Transition(None, (note,), (note,))


def admit(row: JobRow, now: float) -> Transition[None]:
    """Let a job that waited for its lane be claimable, behind those that are: a slot of the lane is its own."""
    note, is_first = Note(EventKind.ADMITTED, None, now), row.ties is not None and row.ties.since is None
    if row.ties is not None and is_first:
        row.ties = replace(row.ties, since=row.place)
    row.state, row.place, row.last_modified = JobState.UNCLAIMED, now, now
    # Jobs of two names may exchange a slot often: that must not drive all else out of the history.
    return Transition(None, (note,), (note,) if is_first else ())


def withdraw(row: JobRow, now: float) -> Transition[None]:
    """Let a claimable job wait for its lane again, where it waited before."""
    block_again(row)
    row.last_modified = now
    return Transition(None, (Note(EventKind.BLOCKED, None, now),))


def block_again(row: JobRow) -> None:
    """Let a job that was claimable or claimed wait for its lane at the place where it waited before."""
    row.state = JobState.BLOCKED
    if row.ties is not None and row.ties.since is not None:
        row.place = row.ties.since
