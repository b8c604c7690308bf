"""What can become of a job: changes of its record, with their lines of history. Nothing here talks to a server."""

from __future__ import annotations

from collections.abc import Callable

from jobboard.backends.attempts import expired, is_used_up, used_up
from jobboard.backends.base import RETRY_WINDOW
from jobboard.backends.rows import ClaimRequest, Fence, NewJob
from jobboard.backends.zookeeper.record import THIS, Record
from jobboard.events import HISTORY_LENGTH, EventKind
from jobboard.states import JobState

#: What is hidden at once is so for clients whose clocks are behind by less than this, too, in seconds.
_CLOCK_ERROR = 1.0

#: Whether the client of this presence is still there.
IsPresent = Callable[[str], bool]


def fill(record: Record, new: NewJob, now: float) -> None:
    """Take over the content of a posting."""
    record.priority, record.max_attempts = new.priority, new.max_attempts
    record.put("body", new.body)
    record.run_at = now + new.delay if new.delay else new.run_at
    record.state = state_at(record, now)


def replace(record: Record, new: NewJob, now: float) -> str | None:
    """Give a job that nobody holds the content of another posting; returns the alias that is forgotten for it."""
    fill(record, new, now)
    record.note(EventKind.REPLACED, None, None, new.uuid)
    record.aliases.append(new.uuid)
    return record.aliases.pop(0) if len(record.aliases) > HISTORY_LENGTH else None


def state_at(record: Record, now: float) -> JobState:
    """Return where a job belongs that nobody holds: delayed until its moment has come."""
    return JobState.UNCLAIMED if record.run_at is None or record.run_at <= now else JobState.DELAYED


def is_due(record: Record, now: float, is_present: IsPresent) -> bool:
    """Whether time, or the end of a session, has made something else of a job than its record says."""
    if record.state is JobState.DELAYED:
        return state_at(record, now) is JobState.UNCLAIMED
    if record.state is not JobState.CLAIMED:
        return False
    is_over = record.expires_at is not None and record.expires_at <= now
    return is_over or record.presence is None or not is_present(record.presence)


def settle(record: Record, now: float, is_present: IsPresent) -> bool:
    """Bring a record up to this moment; whether that changed it."""
    if not is_due(record, now, is_present):
        return False
    if record.state is JobState.DELAYED:
        record.state = JobState.UNCLAIMED
        record.note(EventKind.DUE, None, None, None)
    elif record.expires_at is not None and record.expires_at <= now:
        _take_back(record, now, expired(record.owner))
    else:
        _take_back(record, now, f"the session of '{record.owner}' ended")
    return True


def _take_back(record: Record, now: float, why: str) -> None:
    """End a claim whose time is over, so that the job is where it belongs."""
    record.explain(why)
    if not record.cancel_asked and not is_used_up(record):
        put_back(record, EventKind.EXPIRED, now, why)
        return
    token = record.token
    record.note(EventKind.EXPIRED, record.owner, token, why)
    if record.cancel_asked:
        take_off(record, now, None, token)
    else:
        record.explain(used_up(record, why))
        record.put("last_error", record.reason)
        discard(record, None, token, record.reason)


def _end_claim(record: Record) -> None:
    record.owner = record.claim_id = record.expires_at = record.presence = None


def put_back(record: Record, kind: EventKind, now: float, reason: str | None, run_at: float | None = None) -> None:
    """End a claim so that the job can be claimed again, now or later."""
    who = record.owner
    _end_claim(record)
    record.run_at = record.run_at if run_at is None else run_at
    record.state = state_at(record, now)
    record.note(kind, who, record.token, reason)


def discard(record: Record, who: str | None, token: int | None, reason: str | None) -> None:
    """Set a job aside in the trash; a claim of it ends."""
    _end_claim(record)
    record.state = JobState.TRASHED
    record.note(EventKind.TRASHED, who, token, reason)


def take_off(
    record: Record, now: float, who: str | None = None, token: int | None = None, reason: str | None = None
) -> None:
    """Take a cancelled job off the board for good; it is remembered for a while, and shown to nobody."""
    _end_claim(record)
    record.state, record.cancel_asked, record.until = JobState.COMPLETE, True, now - _CLOCK_ERROR
    record.note(EventKind.CANCELLED, who, token, reason)


def complete(record: Record, result: bytes | None, retention: float, now: float) -> None:
    """Let a claimed job be done for good; its record stays readable for a while."""
    record.state, record.until = JobState.COMPLETE, now + retention if retention else now - _CLOCK_ERROR
    record.put("result", result)
    record.claim_id = record.expires_at = record.presence = None
    record.note(EventKind.CONSUMED, record.owner, record.token, None)


def grant(record: Record, claim: ClaimRequest, now: float, presence: str) -> None:
    """Give an unclaimed job to an owner; its token is the transaction that does it."""
    record.state = JobState.CLAIMED
    record.attempts += 1
    record.token = THIS
    record.owner, record.claim_id, record.presence = claim.who, claim.claim_id, presence
    record.expires_at = end_of_claim(claim.expiry, now)
    record.put("progress", None)
    record.note(EventKind.CLAIMED, claim.who, THIS, None)


def end_of_claim(expiry: float, now: float) -> float | None:
    """Return when a claim ends that lasts ``expiry`` seconds from now; None if never."""
    end = now + expiry
    return None if end == float("inf") else end


def is_held(record: Record | None, fence: Fence) -> bool:
    """Whether this hold is the present one."""
    return (
        record is not None
        and record.state is JobState.CLAIMED
        and record.token == fence.token
        and record.owner == fence.who
    )


def is_hidden(record: Record, now: float) -> bool:
    """Whether a job is only remembered, so that a repeated request is known."""
    return record.state is JobState.COMPLETE and (record.until is None or record.until <= now)


def forgotten_at(record: Record) -> float:
    """Return when a COMPLETE job need not be remembered any more."""
    return (record.until or 0.0) + RETRY_WINDOW


def explain(record: Record, reason: str | None, error: str | None, *, as_error: bool) -> None:
    """Write down why a claim ended; a reason is the error too if there is none and the job failed."""
    record.explain(reason)
    if error is not None:
        record.put("last_error", error)
    elif as_error and reason is not None:
        record.put("last_error", reason)
