"""The rule of edges: what a job becomes, given how its parents have ended. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from jobboard.backends import waiting
from jobboard.backends.edge_rows import MAX_RESOLVED, MAX_RESOLVED_BYTES, is_graph
from jobboard.backends.rows import IfFailed, JobRow
from jobboard.backends.transition import Transition
from jobboard.states import LIVE, JobState


@dataclass(frozen=True, slots=True)
class Ended:
    """How the parents of a job stand: an example of each kind, by its uuid; None if there is none of that kind.

    :ivar open: one that has not ended: its graph, if that is not complete.
    :ivar failed: one that is in the trash. :ivar gone: one that was cancelled or purged.
    :ivar is_dropped: whether the graph of the job was given up.
    """

    open: str | None = None
    failed: str | None = None
    gone: str | None = None
    is_dropped: bool = False


def largest_part(result: bytes | None) -> int:
    """Return how many children of a parent with this result one step resolves."""
    return max(1, min(MAX_RESOLVED, MAX_RESOLVED_BYTES // max(1, len(result or b""))))


def settle(row: JobRow, ended: Ended, now: float) -> Transition[None] | None:
    """Let a job that waits for parents become what follows from how they stand; None if nothing changes.

    Idempotent: a job that does not wait for parents stays as it is. One in the trash stays there; what would have set
    it aside, or cancelled it, lets its restore run it.
    """
    if row.ties is None or not row.ties.has_parents or not (row.state in LIVE or row.state is JobState.TRASHED):
        return None
    if ended.is_dropped:
        return waiting.drop(row, now)
    if ended.open is not None and is_graph(ended.open):
        # It may be given up yet: then no parent has decided anything, neither here nor for its children.
        return None
    if_failed, lost = row.ties.if_failed, ended.gone
    if if_failed is IfFailed.CANCEL:
        lost = lost or ended.failed
    if lost is not None and if_failed is not IfFailed.RUN:
        if row.state is JobState.TRASHED:
            return waiting.end_parents(row, now)
        rule = waiting.cancel_child if if_failed is IfFailed.CANCEL else waiting.trash_child
        return rule(row, lost, now)
    if ended.open is not None or (ended.failed is not None and if_failed is IfFailed.WAIT):
        return None
    return waiting.end_parents(row, now)
