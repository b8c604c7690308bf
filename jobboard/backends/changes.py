"""Steps that the rules of a job's life have in common: each changes a row in place, and says what is told of it."""

from __future__ import annotations

from jobboard.backends import follow_ups
from jobboard.backends.admission import block_again, join
from jobboard.backends.limits import LaneLimit
from jobboard.backends.outcomes import edge_to, has_children
from jobboard.backends.rows import JobRow, NewJob
from jobboard.backends.transition import Admit, Answer, Note, Resolve, Transition
from jobboard.events import EventKind
from jobboard.states import LIVE, JobState

#: The states, as names of this module: to look up a member of an enum takes longer than to compare one.
DELAYED, BLOCKED, UNCLAIMED, CLAIMED, COMPLETE, TRASHED = JobState


def wait_for_delay(row: JobRow, now: float) -> bool:
    """Let a job wait for its delay, if that is not over, and return whether it does."""
    if row.run_at is None or row.run_at <= now:
        return False
    row.state, row.place = DELAYED, row.run_at
    return True


def changed(
    row: JobRow, now: float, answer: Answer, *told: Note, is_back: bool = False, posts: tuple[NewJob, ...] = ()
) -> Transition[Answer]:
    """Say that a row was changed now, what is told of it, and what follows.

    :param is_back: whether it was in the trash.
    """
    row.last_modified = now
    return Transition(answer, told, told, follow=follow(row), resolve=resolve(row, is_back), posts=posts)


def trashed_with(row: JobRow, posts: tuple[NewJob, ...], now: float, answer: Answer, *told: Note) -> Transition[Answer]:
    """Say the same of a job that went to the trash, with what is posted then."""
    return changed(row, now, answer, *told, posts=(*posts, *follow_ups_of(row)))


def follow(row: JobRow) -> tuple[Admit, ...]:
    """Return what follows for the lane of a job that has changed: all but a claim can change who holds its slots."""
    return () if row.ties is None or row.ties.lane is None or row.state is CLAIMED else (Admit(row.ties.lane),)


def resolve(row: JobRow, is_back: bool = False) -> Resolve | None:
    """Return what follows for the children of a job that has ended, or is back from the trash."""
    if not has_children(row) or (row.state in LIVE and not is_back):
        return None
    edge = edge_to("", row)
    return Resolve(row.uuid, edge.outcome, row.name, edge.result, edge.is_cut)


def follow_ups_of(row: JobRow) -> tuple[NewJob, ...]:
    """Return what the job's posting wants to follow this end; what can't be read harms nobody."""
    data = None
    if row.ties is not None:
        data = row.ties.on_trashed if row.state is TRASHED else row.ties.on_complete
    if data is None:
        return ()
    try:
        return (follow_ups.unpack(data, row.uuid, row.token),)
    except ValueError:
        return ()


def explain(row: JobRow, reason: str | None, error: str | None, *, failed: bool) -> None:
    """Say why an attempt ended; of one that failed, the reason is the error if there is none.

    None says nothing, so that the error before stays; an empty text is what somebody said.
    """
    row.reason = reason
    if error is None and failed:
        error = reason
    if error is not None:
        row.last_error = error


def requeue(row: JobRow, now: float, limit: LaneLimit, run_at: float | None = None) -> None:
    """End a claim so that the job can be claimed again, now or later."""
    row.owner = row.claim_id = row.expires_at = None
    if row.ties is not None and row.ties.has_parents:
        # Its owner has let it wait for other jobs. While it does, it holds no slot, also none of a strict lane.
        join(row, now)
        return
    if run_at is not None:
        row.run_at = run_at
    if wait_for_delay(row, now):
        return
    if limit.rate is not None:
        # Another start: the rate must let it.
        block_again(row)
    else:
        # It keeps its place, and its slot of the lane.
        row.state = UNCLAIMED


def trashed(row: JobRow, now: float, who: str | None, token: int | None) -> Note:
    """Set a job aside."""
    row.owner = row.claim_id = row.expires_at = None
    row.state = TRASHED
    return Note(EventKind.TRASHED, who, now, token, row.reason)


def cancelled(
    row: JobRow, now: float, who: str | None = None, token: int | None = None, reason: str | None = None
) -> Note:
    """Take a job off the board; without an owner it is known as one that was not consumed."""
    row.owner = row.claim_id = row.expires_at = None
    row.state, row.cancel_asked = COMPLETE, True
    return Note(EventKind.CANCELLED, who, now, token, reason)
