"""How a job waits for its parents or a signal, and what ends the wait. Pure."""

from __future__ import annotations

from dataclasses import replace

from jobboard.backends.admission import join
from jobboard.backends.changes import (
    BLOCKED,
    UNCLAIMED,
    cancelled,
    changed,
    explain,
    requeue,
    trashed,
    trashed_with,
)
from jobboard.backends.edge_rows import Outcome, SignalOutcome
from jobboard.backends.limits import LaneLimit
from jobboard.backends.reasons import (
    GRAPH_DROPPED,
    MISSED,
    PARENT_IS_BACK,
    WAITS_FOR_JOBS,
    parent_failed,
    parent_is_gone,
)
from jobboard.backends.rows import IfFailed, JobRow, Ties
from jobboard.backends.transition import Note, Transition
from jobboard.events import EventKind
from jobboard.states import LIVE


def end_parents(row: JobRow, now: float) -> Transition[None]:
    """Let a job wait no longer for its parents; one that is delayed, or in the trash, stays there."""
    if row.ties is not None:
        row.ties = replace(row.ties, has_parents=False)
    if row.state is BLOCKED:
        join(row, now)
    return changed(row, now, None, Note(EventKind.RESOLVED, None, now))


def wait_again(row: JobRow, now: float) -> Transition[None]:
    """Let a job wait for a parent that is back; one that is delayed, or in the trash, stays there."""
    row.ties = replace(row.ties or Ties(), has_parents=True)
    if row.state in (BLOCKED, UNCLAIMED):
        join(row, row.place)
    return changed(row, now, None, Note(EventKind.BLOCKED, None, now, None, PARENT_IS_BACK))


def take_parents(row: JobRow, now: float, *, is_one_lost: bool) -> Transition[None]:
    """Let a claimed job wait for parents once its claim has ended.

    :param is_one_lost: whether it has a parent that decides what becomes of jobs that wait: it runs without that.
    """
    ties = row.ties or Ties()
    row.ties = replace(ties, has_parents=True, if_failed=IfFailed.RUN if is_one_lost else ties.if_failed)
    return changed(row, now, None, Note(EventKind.BLOCKED, row.owner, now, row.token, WAITS_FOR_JOBS))


def go_on_without(row: JobRow, parent: str, now: float) -> Transition[None]:
    """Let a claimed job wait for its other parents, whatever becomes of them: its claim must not end by that."""
    row.ties = replace(row.ties or Ties(), if_failed=IfFailed.RUN)
    return changed(row, now, None, Note(EventKind.BLOCKED, None, now, None, parent_failed(parent)))


def end_signal(row: JobRow, now: float) -> Transition[None]:
    """Let a job wait no longer for its signal, since the time for that is over."""
    _forget_signal(row, now)
    return changed(row, now, None, Note(EventKind.DUE, None, now))


def _forget_signal(row: JobRow, now: float) -> None:
    if row.ties is not None:
        row.ties, row.run_at = replace(row.ties, signal=None), None
    join(row, now)


def signal(row: JobRow | None, name: str, by: str | None, now: float) -> Transition[SignalOutcome]:
    """Tell a live job of a signal that it did not have; one that waits for it waits no longer."""
    if row is None or row.state not in LIVE:
        return Transition(SignalOutcome.MISSING)
    note = Note(EventKind.SIGNALLED, by, now, None, name)
    if row.state is BLOCKED and row.ties is not None and row.ties.signal == name:
        _forget_signal(row, now)
    return changed(row, now, SignalOutcome.DONE, note)


def cancel_child(row: JobRow, parent: str, now: float) -> Transition[None]:
    """Cancel a job that waits, because a parent of it failed."""
    return changed(row, now, None, cancelled(row, now, None, None, parent_failed(parent)))


def trash_child(row: JobRow, parent: str, now: float) -> Transition[None]:
    """Set a job aside that waits for a parent that can't come back; restored, it runs without it."""
    if row.ties is not None:
        row.ties = replace(row.ties, has_parents=False)
    explain(row, parent_is_gone(parent), None, failed=True)
    return trashed_with(row, (), now, None, trashed(row, now, None, None))


def drop(row: JobRow, now: float) -> Transition[None]:
    """Take a job off the board whose graph was given up before it was complete; its children outside of it go on."""
    explain(row, GRAPH_DROPPED, None, failed=False)
    dropped = changed(row, now, None, cancelled(row, now, None, None, GRAPH_DROPPED))
    if dropped.resolve is not None:
        # The client that let a job on the board wait for this one was refused, or died, before it was posted.
        dropped.resolve = replace(dropped.resolve, outcome=Outcome.NEVER)
    return dropped


def miss(row: JobRow, now: float) -> Transition[None]:
    """Set a job aside that had to begin by now."""
    explain(row, MISSED, None, failed=True)
    return trashed_with(row, (), now, None, trashed(row, now, None, None))


def let_begin(row: JobRow, now: float) -> None:
    """Let a job that an operator restores begin although its moment for that is over: it would be set aside again.

    It does not wait for the signal that it waited for: it runs, and then waits again for as long as it says. And it
    waits for parents whatever becomes of them: the next look at one in the trash would cancel it.
    """
    ties = row.ties
    if ties is None:
        return
    # Whoever set it aside may know a later time of the store than this client.
    is_late = ties.start_by is not None and ties.start_by <= max(now, row.last_modified)
    is_waiting = ties.has_parents and ties.if_failed is IfFailed.CANCEL
    row.ties = replace(
        ties,
        signal=None,
        start_by=None if is_late else ties.start_by,
        if_failed=IfFailed.WAIT if is_waiting else ties.if_failed,
    )


def wait_for_signal(
    row: JobRow, name: str, now: float, limit: LaneLimit, until: float | None, has_signal: bool
) -> None:
    """End a claim until a signal is sent, or this moment; at once if that is there."""
    row.run_at = None
    if has_signal or (until is not None and until <= now):
        requeue(row, now, limit)
        return
    row.owner = row.claim_id = row.expires_at = None
    row.state, row.run_at, row.place = BLOCKED, until, now
    row.ties = replace(row.ties or Ties(), signal=name, since=None)
