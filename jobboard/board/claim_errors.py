"""The errors of requests about claims: which one, and what it says."""

from __future__ import annotations

from jobboard.backends.rows import ClaimAnswer, Fence, JobRow, Lost, Ties, Verdict
from jobboard.errors import ClaimLost, UnclaimableJob
from jobboard.states import JobState


def error_of_end(fence: Fence, answer: ClaimAnswer, repeated: bool, ended: JobState | None) -> ClaimLost | None:
    """Return why a claim was not ended, or None if it was.

    A repeat that finds its own effect is a success; without a repeat, the claim had ended before.

    :param ended: the state of a job that was ended so before.
    """
    if answer is Verdict.REPEATED:
        return None if repeated else _claim_lost(fence, ended)
    return None if answer is Verdict.DONE else loss_of(fence, answer)


def loss_of(fence: Fence, answer: ClaimAnswer) -> ClaimLost | None:
    """Return why a claim does not hold, or None if it does."""
    if isinstance(answer, Lost):
        return _claim_lost(fence, answer.state, answer.owner)
    return _claim_lost(fence) if answer is Verdict.LOST else None


def loss_seen(fence: Fence, row: JobRow | None) -> ClaimLost:
    """Return why a claim does not hold, by its job as it was read since; None: it is gone, or could not be read."""
    return _claim_lost(fence) if row is None else _claim_lost(fence, row.state, row.claimed_by)


def _claim_lost(fence: Fence, state: JobState | None = None, owner: str | None = None) -> ClaimLost:
    by = f" by {owner!r}" if owner is not None else ""
    now = f"; the job is {state}{by}" if state is not None else ""
    what = f"the claim of {fence.who!r} on job {fence.uuid} (token {fence.token})"
    return ClaimLost(f"{what} does not hold any more{now}", owner=owner, state=state)


def _what_it_waits_for(ties: Ties) -> str:
    if ties.has_parents:
        return "its parents"
    return f"the signal {ties.signal!r}" if ties.signal is not None else f"its lane {ties.lane!r}"


def refusal_of(row: JobRow) -> UnclaimableJob:
    """Return why a job can't be claimed as it is."""
    if row.claimed_by is not None:
        why = f"claimed by {row.claimed_by!r}"
    elif row.state is JobState.UNCLAIMED:
        why = "paused, or the whole board is, or as many jobs of its name are claimed as its limit allows"
    elif row.state is JobState.BLOCKED and row.ties is not None:
        why = f"BLOCKED: it waits for {_what_it_waits_for(row.ties)}"
    else:
        why = "delayed" if row.state is JobState.DELAYED else str(row.state)
    return UnclaimableJob(f"job {row.uuid} is {why}", owner=row.claimed_by, state=row.state)
