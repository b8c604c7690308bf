"""The rules of a job's life: what each request makes of a job, and what is told of it. Nothing here talks to a store.

How a store uses it:

1. It reads the job into a :class:`~jobboard.backends.rows.JobRow` of its own (None if there is none), and brings it up
   to the present: ``while is_due(row, now): expire_or_promote(row, now)``. A store whose claims end in other ways too
   calls :func:`expire` itself, and says why.
2. It calls the function of the request with that row. The function changes this row in place, and returns a
   ``Transition``. A refused request changes nothing: ``told`` is empty then, and nothing is to be written.
3. If ``told`` is not empty, the store writes the row (or deletes it, after :func:`purge`), appends
   ``Transition.history`` to the job's history, tells every ``Note`` of ``told`` as an event, and does all of this
   in one atomic step, on condition that the job is still what was read. Otherwise it begins again with step 1.

Repeats are found by ``row.has_note(kinds, token, who)``: a store that keeps its history elsewhere overrides it.
``token`` of a claim is whatever the caller passes; a store whose tokens are the numbers of transactions passes its
placeholder. ``slack`` is by how many seconds the store's time may be later than ``now``: delays and claims end so much
later. A completed row is shown for ``Transition.retention`` seconds, and remembered for ``RETRY_WINDOW`` more.
A batch is planned by :mod:`~jobboard.backends.posting_plan`, and carried out by :func:`post` and :func:`replace`.
``limit`` is what holds for the job's lane, if it has one. Once all rows of a step are changed, each lane of ``follow``
is looked at, as :mod:`~jobboard.backends.lanes` plans it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import TypeVar

from jobboard.backends import waiting
from jobboard.backends.admission import end_delay, join
from jobboard.backends.changes import (
    BLOCKED,
    CLAIMED,
    COMPLETE,
    DELAYED,
    TRASHED,
    UNCLAIMED,
    cancelled,
    changed,
    explain,
    follow,
    follow_ups_of,
    requeue,
    resolve,
    trashed,
    trashed_with,
    wait_for_delay,
)
from jobboard.backends.claim_answers import done, lost, repeated_or_lost
from jobboard.backends.edge_rows import Outcome
from jobboard.backends.limits import UNLIMITED, LaneLimit
from jobboard.backends.outcomes import has_children
from jobboard.backends.reasons import ahead_of_time, by_whom, expired, used_up
from jobboard.backends.rows import (
    Abandonment,
    CancelOutcome,
    ClaimAnswer,
    ClaimRequest,
    Consumption,
    Extension,
    Fence,
    JobRow,
    NewJob,
    PostOutcome,
    Trashing,
    TrashOutcome,
    Verdict,
)
from jobboard.backends.ties import ties_after, ties_of
from jobboard.backends.transition import Note, Resolve, Transition
from jobboard.events import EventKind
from jobboard.states import LIVE

Row = TypeVar("Row", bound=JobRow)

# -- conditions --------------------------------------------------------------------------------------------------------


def holds(row: JobRow | None, fence: Fence) -> bool:
    """Whether this fence is that of the present claim."""
    return (
        row is not None
        and row.state is CLAIMED
        and row.token == fence.token
        and row.owner == fence.who
        and row.uuid == fence.uuid
    )


def is_claimable(row: JobRow, paused: Collection[str | None] = ()) -> bool:
    """Whether a claim of this job is granted."""
    return row.state is UNCLAIMED and not (paused and (row.name in paused or None in paused))


def is_used_up(row: JobRow) -> bool:
    """Whether a counted end of this job's claim leads to the trash."""
    return row.max_attempts is not None and row.attempts >= row.max_attempts


def is_due(row: JobRow, now: float) -> bool:
    """Whether time has made something else of a job than its row says."""
    if row.state is CLAIMED:
        return row.expires_at is not None and row.expires_at <= now
    if row.state is DELAYED and not _is_delayed(row, now):
        return True
    at = None if row.ties is None else due_at(row)
    return at is not None and at <= now


def due_at(row: JobRow) -> float | None:
    """Return the moment at which time makes something else of a job; None if it does not.

    A claim ends, a delay or the wait for a signal is over, or a job that has to begin by then has not.
    """
    if row.state is CLAIMED:
        return row.expires_at
    if row.state not in LIVE:
        return None
    waits = row.ties is not None and row.ties.signal is not None and row.state is BLOCKED
    ends = [row.run_at] if row.state is DELAYED or waits else []
    if row.ties is not None and row.token == 0:
        ends.append(row.ties.start_by)
    return min((end for end in ends if end is not None), default=None)


def _is_delayed(row: JobRow, now: float) -> bool:
    return row.run_at is not None and row.run_at > now


def end_of_claim(expiry: float, now: float) -> float | None:
    """Return when a claim ends that lasts ``expiry`` seconds from now; None if never."""
    end = now + expiry
    return None if end == math.inf else end


# -- posting -----------------------------------------------------------------------------------------------------------


def draft(new: NewJob, now: float, sequence: int = 0) -> JobRow:
    """Return the row of a posting, before :func:`post` fills it."""
    row = JobRow(new.uuid, new.name, new.priority, sequence, now, new.body, new.key)
    row.last_modified, row.ties = now, ties_of(new, now)
    return row


def posted(new: NewJob, now: float, sequence: int = 0) -> JobRow:
    """Return the row of a posting as :func:`post` leaves it, for stores whose statements write what is told of it."""
    row = draft(new, now, sequence)
    _fill(row, new, now, 0.0)
    return row


def post(row: JobRow, new: NewJob, now: float, slack: float = 0.0) -> Transition[PostOutcome]:
    """Give a new row, which has the posting's uuid, name and key, the rest of its content."""
    _fill(row, new, now, slack)
    return changed(row, now, PostOutcome.POSTED, Note(EventKind.POSTED, None, now))


def replace(row: JobRow, new: NewJob, now: float, slack: float = 0.0) -> Transition[PostOutcome]:
    """Give a job that nobody holds the content of another posting; the store remembers the new uuid as its alias.

    What it has to do with other jobs stays, and so does the moment to which replacements can delay it.
    """
    row.ties = ties_after(row.ties, new)
    _fill(row, new, now, slack)
    return changed(row, now, PostOutcome.REPLACED, Note(EventKind.REPLACED, None, now, None, new.uuid))


def _fill(row: JobRow, new: NewJob, now: float, slack: float) -> None:
    row.priority, row.body, row.max_attempts = new.priority, new.body, new.max_attempts
    row.run_at = now + slack + new.delay if new.delay else new.run_at
    if row.run_at is not None and row.ties is not None and row.ties.latest is not None:
        row.run_at = min(row.run_at, row.ties.latest)
    if not wait_for_delay(row, now):
        join(row, now)


def cancel(
    row: JobRow | None, now: float, by: str | None = None, reason: str | None = None
) -> Transition[CancelOutcome]:
    """Take a job off the board, or ask the owner of its claim to end it."""
    if row is None:
        return Transition(CancelOutcome.MISSING)
    if row.state is CLAIMED:
        return request_cancel(row, now, by, reason)
    if row.state in LIVE:
        return changed(row, now, CancelOutcome.CANCELLED, cancelled(row, now, by, None, reason))
    was_cancelled = row.has_note((EventKind.CANCELLED,))
    return Transition(CancelOutcome.REPEATED if was_cancelled else CancelOutcome.MISSING)


def request_cancel(
    row: JobRow, now: float, by: str | None = None, reason: str | None = None
) -> Transition[CancelOutcome]:
    """Mark a claimed job, so that its owner learns of it; nothing changes if it is marked."""
    if row.cancel_asked:
        return Transition(CancelOutcome.ASKED)
    row.cancel_asked = True
    note = Note(EventKind.CANCEL_ASKED, row.owner, now, row.token, by_whom(by, reason))
    return changed(row, now, CancelOutcome.ASKED, note)


# -- claiming ----------------------------------------------------------------------------------------------------------


def claim(
    row: JobRow | None,
    request: ClaimRequest,
    now: float,
    token: int,
    paused: Collection[str | None] = (),
    slack: float = 0.0,
) -> Transition[bool]:
    """Give a job that can be claimed to an owner; the answer is whether it was.

    :param token: larger than every earlier one of this job.
    :param paused: the paused names, and None among them if the whole board is.
    """
    if row is None or not is_claimable(row, paused):
        return Transition(False)
    row.state = CLAIMED
    row.attempts += 1
    row.token, row.owner, row.claim_id = token, request.who, request.claim_id
    row.expires_at = end_of_claim(request.expiry, now + slack)
    row.progress = None
    return changed(row, now, True, Note(EventKind.CLAIMED, request.who, now, token))


def extend(row: JobRow | None, renewal: Extension, now: float, slack: float = 0.0) -> Transition[ClaimAnswer]:
    """Let a claim end ``expiry`` seconds from now, also when that is sooner than before."""
    if row is None or not holds(row, renewal.fence):
        return Transition(lost(row, renewal.fence.uuid))
    row.expires_at = end_of_claim(renewal.expiry, now + slack)
    if renewal.progress is not None:
        row.progress = renewal.progress
    return _touched(row, now, EventKind.EXTENDED)


def checkpoint(row: JobRow | None, fence: Fence, state: bytes, now: float) -> Transition[ClaimAnswer]:
    """Replace the checkpoint of a claimed job."""
    if row is None or not holds(row, fence):
        return Transition(lost(row, fence.uuid))
    row.checkpoint = state
    return _touched(row, now, EventKind.CHECKPOINTED)


def _touched(row: JobRow, now: float, kind: EventKind) -> Transition[ClaimAnswer]:
    row.last_modified = now
    return Transition(done(row.cancel_asked), (Note(kind, row.owner, now, row.token),))


def save_step(row: JobRow | None, fence: Fence) -> ClaimAnswer:
    """Answer whoever writes a step down under a claim; the row stays as it is."""
    return done(row.cancel_asked) if row is not None and holds(row, fence) else lost(row, fence.uuid)


# -- the ends of a claim -----------------------------------------------------------------------------------------------


def consume(row: JobRow | None, end: Consumption, now: float) -> Transition[ClaimAnswer]:
    """Let a claimed job be done; its record keeps the owner and the token, by which a repeat is known."""
    fence = end.fence
    if row is None or not holds(row, fence):
        is_same = row is not None and row.state is COMPLETE and (row.owner, row.token) == (fence.who, fence.token)
        return Transition(Verdict.REPEATED if is_same else lost(row, fence.uuid))
    row.state, row.result = COMPLETE, end.result
    row.claim_id = row.expires_at = None
    row.last_modified = now
    told = (Note(EventKind.CONSUMED, row.owner, now, row.token),)
    posts = (*end.posts, *follow_ups_of(row))
    return Transition(Verdict.DONE, told, told, end.retention, follow(row), resolve(row), posts)


def abandon(
    row: JobRow | None,
    end: Abandonment,
    now: float,
    slack: float = 0.0,
    limit: LaneLimit = UNLIMITED,
    has_signal: bool = False,
) -> Transition[ClaimAnswer]:
    """Put a job back; into the trash if its attempts are used up, off the board if its cancel was asked for.

    :param has_signal: whether the signal was sent for which the job wants to wait.
    """
    fence = end.fence
    if row is None or not holds(row, fence):
        return Transition(repeated_or_lost(row, fence, EventKind.ABANDONED, EventKind.CANCELLED))
    explain(row, end.reason, end.error, failed=end.counted)
    if row.cancel_asked:
        return changed(row, now, Verdict.DONE, cancelled(row, now, fence.who, fence.token, end.reason))
    note = Note(EventKind.ABANDONED, fence.who, now, fence.token, end.reason)
    if end.counted and is_used_up(row):
        row.reason = used_up(row.max_attempts, end.reason)
        return trashed_with(row, (), now, Verdict.DONE, note, trashed(row, now, fence.who, fence.token))
    row.attempts -= not end.counted
    run_at = now + slack + end.delay if end.delay > 0 else end.run_at
    if end.signal is not None:
        waiting.wait_for_signal(row, end.signal, now, limit, run_at, has_signal)
    else:
        requeue(row, now, limit, run_at)
    return changed(row, now, Verdict.DONE, note)


def trash(row: JobRow | None, end: Trashing, now: float) -> Transition[ClaimAnswer]:
    """Set a job aside: under its claim with a fence, any live job without one."""
    fence, who = end.fence, end.by
    if fence is not None:
        who = fence.who
        if not holds(row, fence):
            return Transition(repeated_or_lost(row, fence, EventKind.TRASHED))
    if row is None or row.state not in LIVE:
        is_there = row is not None and row.state is TRASHED
        return Transition(Verdict.REPEATED if is_there else lost(row, end.uuid))
    token = row.token if row.state is CLAIMED else None
    explain(row, end.reason, end.error, failed=True)
    return trashed_with(row, end.posts, now, Verdict.DONE, trashed(row, now, who, token))


def release(
    row: JobRow | None, token: int, reason: str, now: float, limit: LaneLimit = UNLIMITED
) -> Transition[Verdict]:
    """Break the claim that has this token, of any owner; attempts stay."""
    if row is None or row.state is not CLAIMED or row.token != token:
        is_known = row is not None and row.has_note((EventKind.RELEASED,), token)
        return Transition(Verdict.REPEATED if is_known else Verdict.LOST)
    row.reason = reason
    note = Note(EventKind.RELEASED, row.owner, now, token, reason)
    if row.cancel_asked:
        return changed(row, now, Verdict.DONE, note, cancelled(row, now, None, token))
    requeue(row, now, limit)
    return changed(row, now, Verdict.DONE, note)


# -- time --------------------------------------------------------------------------------------------------------------


def expire_or_promote(row: JobRow, now: float, limit: LaneLimit = UNLIMITED) -> Transition[None]:
    """Bring a job up to this moment at which :func:`is_due` is true of it."""
    if row.state is CLAIMED:
        return expire(row, now, limit=limit)
    if row.ties is not None and row.token == 0 and row.ties.start_by is not None and row.ties.start_by <= now:
        return waiting.miss(row, now)
    return promote(row, now, limit) if row.state is DELAYED else waiting.end_signal(row, now)


def expire(row: JobRow, now: float, why: str | None = None, limit: LaneLimit = UNLIMITED) -> Transition[None]:
    """End a claim without its owner: onto the board, into the trash, or off the board.

    :param why: what ended it, if not its time.
    """
    who, token = row.owner, row.token
    row.reason = expired(who) if why is None else why
    note = Note(EventKind.EXPIRED, who, now, token, row.reason)
    if row.cancel_asked:
        return changed(row, now, None, note, cancelled(row, now, None, token))
    if is_used_up(row):
        row.reason = row.last_error = used_up(row.max_attempts, row.reason)
        return trashed_with(row, (), now, None, note, trashed(row, now, None, token))
    requeue(row, now, limit)
    return changed(row, now, None, note)


def promote(row: JobRow, now: float, limit: LaneLimit = UNLIMITED) -> Transition[None]:
    """Let a delayed job be claimable, or wait for its lane, at the place of the moment until which it was delayed."""
    end_delay(row, row.place, limit)
    return changed(row, now, None, Note(EventKind.DUE, None, now))


def run_now(
    row: JobRow | None,
    now: float,
    by: str | None = None,
    reason: str | None = None,
    limit: LaneLimit = UNLIMITED,
) -> Transition[Verdict]:
    """End a job's delay ahead of its time; a repeat finds a live job that is not delayed."""
    if row is None or row.state is not DELAYED:
        return Transition(Verdict.REPEATED if row is not None and row.state in LIVE else Verdict.LOST)
    # The delay must not come back with the next abandon.
    row.run_at = None
    end_delay(row, now, limit)
    return changed(row, now, Verdict.DONE, Note(EventKind.DUE, by, now, None, ahead_of_time(reason)))


def reprioritize(
    row: JobRow | None, priority: int, by: str | None, reason: str | None, now: float
) -> Transition[Verdict]:
    """Give a job that waits another priority; a repeat finds a live job that has it."""
    if row is None or row.state not in LIVE:
        return Transition(Verdict.LOST)
    if row.priority == priority:
        return Transition(Verdict.REPEATED)
    if row.state is CLAIMED:
        return Transition(Verdict.LOST)
    row.priority = priority
    return changed(row, now, Verdict.DONE, Note(EventKind.REPRIORITIZED, by, now, None, reason))


# -- the trash ---------------------------------------------------------------------------------------------------------


def restore(
    row: Row | None,
    now: float,
    is_key_taken: Callable[[Row], bool],
    by: str | None = None,
    reason: str | None = None,
) -> Transition[TrashOutcome]:
    """Bring a job back from the trash, with no attempts used.

    :param is_key_taken: whether another live job has its key; asked only of a job in the trash that has one.
    """
    if row is None:
        return Transition(TrashOutcome.MISSING)
    if row.state is not TRASHED:
        is_restored = row.has_note((EventKind.RESTORED,))
        return Transition(TrashOutcome.REPEATED if is_restored else TrashOutcome.MISSING)
    if row.key is not None and is_key_taken(row):
        return Transition(TrashOutcome.TAKEN)
    row.attempts, row.reason, row.cancel_asked = 0, None, False
    # An operator wants it now: a delay that isn't over must not come back with the next abandon.
    row.run_at = None if _is_delayed(row, now) else row.run_at
    waiting.let_begin(row, now)
    join(row, now)
    return changed(row, now, TrashOutcome.DONE, Note(EventKind.RESTORED, by, now, None, reason), is_back=True)


def purge(row: JobRow | None, now: float, by: str | None = None, reason: str | None = None) -> Transition[TrashOutcome]:
    """Let a job in the trash be deleted; the row stays as it is."""
    if row is None or row.state is not TRASHED:
        return Transition(TrashOutcome.MISSING)
    gone = Resolve(row.uuid, Outcome.GONE, row.name) if has_children(row) else None
    return Transition(TrashOutcome.DONE, (Note(EventKind.PURGED, by, now, None, reason),), resolve=gone)
