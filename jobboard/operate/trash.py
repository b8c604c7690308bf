"""Selects, restores and purges trashed jobs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from jobboard.errors import AlreadyPosted, NotFound
from jobboard.validation import check_delay

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.job import Job

_ERROR_CLASS = re.compile(r"[A-Za-z_][\w.]*(?=: |$)")
_MAX_KIND = 100


def kind_of_reason(reason: str | None) -> str:
    """Return what a reason has in common with others: the class of its error, or its first line without numbers."""
    line = (reason or "").strip().partition("\n")[0]
    if not line:
        return "no reason"
    match = _ERROR_CLASS.match(line)
    return match.group() if match else re.sub(r"\d+", "#", line)[:_MAX_KIND]


def select_trashed(
    board: JobBoard, *, name: str | None = None, reason: str | None = None, older_than: float | None = None
) -> Iterator[Job]:
    """Iterate over the trashed jobs that match all filters.

    :param name: the job's name. :param reason: a part of its reason. :param older_than: at least so many seconds in
        the trash.
    """
    before = None if older_than is None else time.time() - check_delay(older_than, "older_than")
    for job in board.trashed():
        record = job.record
        if name is not None and job.name != name:
            continue
        if reason is not None and reason not in (record.reason or ""):
            continue
        if before is not None and record.last_modified.timestamp() > before:
            continue
        yield job


def restore_all(board: JobBoard, jobs: list[Job], step: Callable[[], None]) -> tuple[int, list[str]]:
    """Restore the jobs; returns how many were restored, and one line for each that could not be.

    :param step: called after each job.
    """
    return _each(jobs, lambda job: board.restore(job.uuid), step)


def purge_all(board: JobBoard, jobs: list[Job], step: Callable[[], None]) -> tuple[int, list[str]]:
    """Purge the jobs; returns how many were purged, and one line for each that is not in the trash any more.

    :param step: called after each job.
    """
    return _each(jobs, lambda job: board.purge(job.uuid), step)


def _each(jobs: list[Job], act: Callable[[Job], object], step: Callable[[], None]) -> tuple[int, list[str]]:
    done, refused = 0, []
    for job in jobs:
        try:
            act(job)
            done += 1
        except (AlreadyPosted, NotFound) as error:
            refused.append(str(error))
        step()
    return done, refused
