"""The rule of edges: what a job becomes, given how its parents have ended. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from jobboard.backends import waiting
from jobboard.backends.edge_rows import MAX_RESOLVED, MAX_RESOLVED_BYTES, LinkOutcome, is_graph
from jobboard.backends.lifecycle import holds
from jobboard.backends.rows import Fence, IfFailed, JobRow
from jobboard.backends.transition import Transition
from jobboard.states import JobState

_WAITING = (JobState.BLOCKED, JobState.DELAYED, JobState.TRASHED)


@dataclass(frozen=True, slots=True)
class Ended:
    """How the parents of a job stand: an example of each kind, by its uuid; None if there is none of that kind.

    :ivar open: one that has not ended: its graph, if that is not complete.
    :ivar failed: one that is in the trash.
    :ivar gone: one that was cancelled or purged.
    :ivar is_dropped: whether the graph of the job was given up.
    """

    open: str | None = None
    failed: str | None = None
    gone: str | None = None
    is_dropped: bool = False


def largest_part(result: bytes | None) -> int:
    """Return how many children of a parent with this result one step resolves."""
    return max(1, min(MAX_RESOLVED, MAX_RESOLVED_BYTES // max(1, len(result or b""))))


def can_wait_again(row: JobRow) -> bool:
    """Whether a job that a failed parent let go waits for that parent once it is back: nobody has ever claimed it.

    So its edges say of every parent how that stands: it has missed none that came back.
    """
    if row.ties is None or row.ties.if_failed is not IfFailed.RUN or row.ties.has_parents:
        return False
    return row.token == 0 and row.state is not JobState.COMPLETE


def may_wait(row: JobRow | None) -> bool:
    """Whether a parent that is open holds a job back: it waits for its parents still, or does so again.

    The edges of others don't say that a parent is back, but how it ended last.
    """
    return row is not None and row.ties is not None and (row.ties.has_parents or can_wait_again(row))


def takes_parents(row: JobRow, fence: Fence | None) -> bool:
    """Whether a job waits for parents, so that it can wait for more; one in the trash does so once it is restored.

    :param fence: that of the claim whose owner asks for it: then the job is to be claimed, and may wait for none.
    """
    if fence is not None:
        return holds(row, fence)
    return row.state in _WAITING and row.ties is not None and row.ties.has_parents


def refused_link(fence: Fence | None) -> LinkOutcome:
    """Return what is answered of a job that takes no parents."""
    return LinkOutcome.STARTED if fence is None else LinkOutcome.LOST


def link(row: JobRow, ended: Ended, now: float) -> Transition[None] | None:
    """Let a job that takes parents become what follows from how all of them stand; None if nothing changes."""
    is_waiting = row.ties is not None and row.ties.has_parents
    if row.state is not JobState.CLAIMED or is_waiting:
        return settle(row, ended, now)
    if_failed = IfFailed.WAIT if row.ties is None else row.ties.if_failed
    is_one_lost = if_failed is not IfFailed.RUN and _lost(if_failed, ended) is not None
    if ended.open is None and (ended.failed is None or is_one_lost or if_failed is IfFailed.RUN):
        return None
    return waiting.take_parents(row, now, is_one_lost=is_one_lost)


def _lost(if_failed: IfFailed, ended: Ended) -> str | None:
    """Return a parent that decides what becomes of a job that is not in the trash, unless its wish is RUN."""
    return ended.failed if ended.gone is None and if_failed is IfFailed.CANCEL else ended.gone


def settle(row: JobRow, ended: Ended, now: float) -> Transition[None] | None:
    """Let a job become what follows from how its parents stand; None if nothing changes.

    Idempotent: a job that does not wait for parents stays as it is, unless it waits again for one that is back. One in
    the trash stays there: it waits on for a parent in the trash, and no longer for any once one can't come back. One
    that is claimed stays claimed: if a parent fails that would end it, it runs again after the others.
    """
    if ended.open is not None and can_wait_again(row):
        return waiting.wait_again(row, now)
    if row.ties is None or not row.ties.has_parents or row.state is JobState.COMPLETE:
        return None
    if ended.is_dropped:
        return waiting.drop(row, now)
    if ended.open is not None and is_graph(ended.open):
        # It may be given up yet: then no parent has decided anything, neither here nor for its children.
        return None
    if_failed = row.ties.if_failed
    lost = ended.gone if row.state is JobState.TRASHED else _lost(if_failed, ended)
    if lost is not None and if_failed is not IfFailed.RUN:
        if row.state is JobState.CLAIMED and ended.open is not None:
            return waiting.go_on_without(row, lost, now)
        if row.state in (JobState.TRASHED, JobState.CLAIMED):
            return waiting.end_parents(row, now)
        rule = waiting.cancel_child if if_failed is IfFailed.CANCEL else waiting.trash_child
        return rule(row, lost, now)
    if ended.open is not None or (ended.failed is not None and if_failed is not IfFailed.RUN):
        return None
    return waiting.end_parents(row, now)
