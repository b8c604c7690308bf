"""What somebody is told who says to hold a claim."""

from __future__ import annotations

from jobboard.backends.rows import ClaimAnswer, Fence, JobRow, Lost, Verdict
from jobboard.events import EventKind


def done(cancel_asked: bool) -> Verdict:
    """Return the answer to a request that was carried out under a claim that goes on."""
    return Verdict.CANCEL_ASKED if cancel_asked else Verdict.DONE


def lost(row: JobRow | None, uuid: str) -> ClaimAnswer:
    """Return how the job of a claim stands that does not hold; its uuid may lead to another job by now."""
    if row is None or row.uuid != uuid:
        return Verdict.LOST
    return Lost(row.state, row.claimed_by)


def repeated_or_lost(row: JobRow | None, fence: Fence, *kinds: EventKind) -> ClaimAnswer:
    """Return the answer to an end under a claim that does not hold: it may have ended by such a change before."""
    is_known = row is not None and row.has_note(kinds, fence.token, fence.who)
    return Verdict.REPEATED if is_known else lost(row, fence.uuid)
