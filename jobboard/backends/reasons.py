"""The reasons that a job's record, its history and its events give in words."""

from __future__ import annotations

from jobboard.states import JobPriority

#: Why a job with ``start_by`` goes to the trash.
MISSED = "it had not begun by the moment that start_by gives"

#: Why a job is taken off the board whose graph no client completed; who posts it again knows it by that.
GRAPH_DROPPED = "its graph was given up before it was complete"

#: Why a job waits again that a failed parent had let go.
PARENT_IS_BACK = "a parent of it was restored"

#: Why conductors give a job back that has not failed: its handler asked for that, or they stop.
RUNS_AGAIN, CONDUCTOR_STOPPED = "runs again", "its conductor stopped"


def asked_for(name: str) -> str:
    """Say why a lane is paused of which a job does not run again before then."""
    return f"a handler of {name!r} asked for it"


#: Why a job waits whose handler asked for other jobs' results.
WAITS_FOR_JOBS = "it waits for other jobs"

_SLEEPS, _WAITS = "it sleeps for ", "it waits for the signal "


def sleeps(seconds: float) -> str:
    """Say why a handler that sleeps gives its job back."""
    return f"{_SLEEPS}{seconds:g} s"


def waits_for(signal: str) -> str:
    """Say why a handler that waits for a signal does."""
    return f"{_WAITS}{signal!r}"


def is_wait(reason: str | None) -> bool:
    """Whether a job was given back for this reason until a signal comes."""
    return (reason or "").startswith(_WAITS)


#: How a run ended that goes on later, by how its reason begins.
_NOT_FAILED = {
    _SLEEPS: "sleeps", _WAITS: "waits for signal", WAITS_FOR_JOBS: "waits for jobs", RUNS_AGAIN: "runs again",
    CONDUCTOR_STOPPED: "given back",
}  # fmt: skip


def goes_on_as(reason: str | None) -> str | None:
    """Return in a word or three how a run ended that was abandoned for this reason and goes on later.

    None if it failed; no other mark of that is in a history.
    """
    return next((word for begin, word in _NOT_FAILED.items() if (reason or "").startswith(begin)), None)


def has_not_failed(reason: str | None) -> bool:
    """Whether a run that was abandoned for this reason goes on later."""
    return goes_on_as(reason) is not None


def parent_failed(parent: str) -> str:
    """Say why a job is cancelled with its parent."""
    return f"its parent {parent} failed"


def parent_is_gone(parent: str) -> str:
    """Say why a job goes to the trash whose parent can't come back."""
    return f"its parent {parent} was cancelled or purged"


def used_up(max_attempts: int | None, reason: str | None) -> str:
    """Say why a job goes to the trash by itself, and the reason of the last attempt."""
    said = f"all {max_attempts} attempts are used up"
    return f"{said}; the last: {reason}" if reason else said


def given_up(age: float, reason: str) -> str:
    """Say why a job goes to the trash that has failed too long after its post."""
    return f"given up {age:.0f} s after its post; the last: {reason}"


def to_priority(priority: JobPriority, note: str | None) -> str:
    """Say in a job's history which priority somebody gave it, and why."""
    return f"to {priority}: {note}" if note else f"to {priority}"


def by_whom(by: str | None, reason: str | None) -> str | None:
    """Say who has asked for something, and why, where nothing else names them."""
    said = by and f"by {by}"
    return f"{said}: {reason}" if said and reason else said or reason


def ahead_of_time(reason: str | None) -> str:
    """Say why a delayed job can be claimed already."""
    return f"ahead of its time: {reason}" if reason else "ahead of its time"


def released(by: str | None, reason: str | None) -> str:
    """Say why a claim was broken, and by whom; the line itself names the owner."""
    said = reason or "released by an operator"
    return f"{said} ({by})" if by else said


def trashed_by_operator(reason: str | None) -> str:
    """Say why an operator trashed a job; the line itself names the operator."""
    return reason or "trashed by an operator"


def expired(owner: str | None) -> str:
    """Say why a claim ended by itself; the owner's name stands as it is, with any quotes in it."""
    return f"the claim of '{owner}' expired"
