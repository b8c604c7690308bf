"""Why is a job not running? Every reason that holds, the hardest first."""

from __future__ import annotations

from jobboard.board import JobBoard
from jobboard.entity import Entity
from jobboard.entry import JobState
from jobboard.job import Job

#: Counting further than this would cost more than it tells.
_MOST_AHEAD = 1000


def why(board: JobBoard, job: Job) -> list[str]:
    """Return the reasons why a job is not running (or what it does instead), as sentences."""
    record = job.record
    if record.state is JobState.COMPLETE:
        return [f"It is complete since {record.last_modified:%Y-%m-%d %H:%M:%S} UTC."]
    if record.state is JobState.TRASHED:
        return [f"It is in the trash: {record.reason or 'no reason was given'}. Restore it with: restore {job.uuid}"]
    if record.state is JobState.CLAIMED:
        return _why_claimed(board, job)
    reasons = _why_paused(board, job)
    if record.state is JobState.DELAYED:
        reasons.append(f"It is delayed until {record.run_at:%Y-%m-%d %H:%M:%S} UTC.")
    reasons += _why_unhandled(board, job)
    if record.state is JobState.UNCLAIMED:
        reasons += _why_behind(board, job)
    if record.last_error:
        reasons.append(f"Attempt {record.attempts} failed: {record.last_error.strip().splitlines()[-1]}")
    return reasons or ["Nothing holds it back: it is the next to be claimed by a conductor with a free slot."]


def _why_claimed(board: JobBoard, job: Job) -> list[str]:
    record = job.record
    until = f" until {record.expires_at:%Y-%m-%d %H:%M:%S} UTC" if record.expires_at else ", without an end"
    reasons = [f"It is claimed by {record.owner}{until} (attempt {record.attempts}, token {record.token})."]
    known = next((entity for entity in board.entities() if entity.name == record.owner), None)
    if known is not None and not known.alive:
        reasons.append("That owner was not seen lately; the job comes back when the claim expires, or with release.")
    if record.cancel_asked:
        reasons.append("Its cancel was asked for; its owner has been told.")
    return reasons


def _why_paused(board: JobBoard, job: Job) -> list[str]:
    paused, reasons = board.paused(), []
    if None in paused:
        reasons.append("The whole board is paused. Go on with: resume")
    if job.name in paused:
        reasons.append(f"Jobs named {job.name!r} are paused. Go on with: resume {job.name}")
    return reasons


def _why_unhandled(board: JobBoard, job: Job) -> list[str]:
    conductors = [entity for entity in board.entities() if entity.kind == "conductor"]
    able = [entity for entity in conductors if entity.alive and _handles(entity, job.name)]
    if not able:
        return [f"No conductor that is alive has a handler for {job.name!r}."]
    if all(entity.metadata.get("running", 0) >= entity.metadata.get("concurrency", 1) for entity in able):
        return [f"All {len(able)} conductors with a handler for {job.name!r} have no free slot."]
    return []


def _handles(entity: Entity, name: str) -> bool:
    names = entity.metadata.get("names")
    return isinstance(names, list) and name in names


def _why_behind(board: JobBoard, job: Job) -> list[str]:
    ahead = 0
    for other in board.iterjobs(only_unclaimed=True, names=[job.name]):
        if other == job or ahead == _MOST_AHEAD:
            break
        ahead += 1
    if not ahead:
        return []
    number = f"{_MOST_AHEAD} or more" if ahead == _MOST_AHEAD else str(ahead)
    return [f"{number} jobs of its name come before it, by priority or age."]
