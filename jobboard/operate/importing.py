"""Posts the jobs of a file that ``jobboard export --details`` wrote, each once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jobboard.errors import AlreadyPosted, BoardUnavailable, RequestRefused, restated
from jobboard.graph.blocked import Wait
from jobboard.job import Posting
from jobboard.logbook import BookRef
from jobboard.operate.json_values import from_json, parse_json
from jobboard.states import LIVE, JobState
from jobboard.validation import check_uuid

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.client import BackendClient

#: How many jobs one request posts, if the store takes that many.
_BATCH = 100


@dataclass(slots=True)
class ExportedJobs:
    """What a file has: postings in its order, how many jobs in other states, a line for each that can't be posted."""

    postings: list[Posting] = field(default_factory=list)
    others: int = 0
    refused: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Imported:
    """How many jobs were posted, and how many the board has (or remembers) already; a line for each refused one."""

    posted: int = 0
    there: int = 0
    refused: list[str] = field(default_factory=list)


def exported_jobs(text: str, states: Collection[JobState]) -> ExportedJobs:
    """Read a file.

    :param states: those of the jobs that are wanted.
    :raises ValueError: a line is no exported job, or one without details; says which and why.
    """
    found = ExportedJobs()
    for number, line in enumerate(text.split("\n"), 1):
        if line and not line.isspace():
            try:
                _add(found, parse_json(line), states)
            except (KeyError, TypeError, ValueError, RecursionError) as error:
                why = f"it has no {error}" if isinstance(error, KeyError) else error
                raise ValueError(f"line {number} of the file is no exported job: {why}") from None
    return found


def _add(found: ExportedJobs, job: Any, states: Collection[JobState]) -> None:
    if not isinstance(job, dict):
        raise TypeError(f"it is no JSON object, but {type(job).__name__}")
    if JobState(job["state"]) not in states:
        found.others += 1
    elif "details" not in job:
        raise ValueError("it is without details; write the file by: jobboard export --details")
    elif job["details"] is None:
        found.refused.append(f"job {job['uuid']} is not imported: what it carries could not be decoded")
    elif job.get("book_uuid") and job.get("book_ref") is None:
        found.refused.append(f"job {job['uuid']} is not imported: it points at a logbook, and no export has these")
    elif job.get("waits_for") == Wait.PARENTS:
        found.refused.append(f"job {job['uuid']} is not imported: it waits for parents, and no export has these")
    else:
        found.postings.append(_posting_of(job))


def _posting_of(job: dict[str, Any]) -> Posting:
    ref, run_at = job.get("book_ref"), job["run_at"]
    return Posting(
        job["name"],
        book=None if ref is None else BookRef(**ref),
        details=from_json(job["details"]),
        priority=job["priority"],
        key=job["key"],
        run_at=None if run_at is None else datetime.fromisoformat(run_at),
        uuid=check_uuid(job["uuid"]),
        max_attempts=job["max_attempts"],
        lane=job.get("lane"),
    )


def import_jobs(
    board: JobBoard, postings: Sequence[Posting], step: Callable[[int], object], *, dry_run: bool = False
) -> Imported:
    """Post what the board does not have. To do it again does no harm, as long as the board remembers the jobs.

    :param step: called with the number of jobs that a request was about.
    :param dry_run: only look what is there.
    :raises BoardUnavailable: the store can't be reached; says how many jobs are posted.
    """
    from jobboard.board import client_of

    client, outcome = client_of(board), Imported()
    for part in client.batches(postings, _BATCH):
        try:
            new = _unknown(client, part)
            outcome.there += len(part) - len(new)
            if dry_run:
                outcome.posted += len(new)
            elif new:
                _post(board, new, outcome)
        except BoardUnavailable as error:
            done = f"before that, {outcome.posted} jobs were posted: import again"
            raise restated(error, f"{error}; {done}") from error
        step(len(part))
    return outcome


def _unknown(client: BackendClient, postings: Sequence[Posting]) -> list[Posting]:
    rows = client.call(client.backend.jobs.read, [str(posting.uuid) for posting in postings])
    return [posting for posting, row in zip(postings, rows, strict=True) if row is None]


def _post(board: JobBoard, postings: Sequence[Posting], outcome: Imported) -> None:
    """Post them in one request; if the board refuses one, one by one."""
    try:
        jobs = board.post_many(postings)
    except (AlreadyPosted, RequestRefused, TypeError, ValueError) as error:
        if len(postings) == 1:
            outcome.refused.append(f"job {postings[0].uuid} is not imported: {error}")
        else:
            for posting in postings:
                _post(board, [posting], outcome)
        return
    # A job that ended a while ago can't be read any more, but is remembered, and not posted again.
    posted = sum(job.record.state in LIVE for job in jobs)
    outcome.posted += posted
    outcome.there += len(jobs) - posted
