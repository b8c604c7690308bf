"""From what an operator types to a job."""

from __future__ import annotations

import re

from jobboard.board import JobBoard
from jobboard.entry import JobState
from jobboard.errors import NotFound
from jobboard.job import Job

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z", re.IGNORECASE)
_PREFIX = re.compile(r"[0-9a-f-]{4,36}\Z", re.IGNORECASE)


def find_job(board: JobBoard, text: str) -> Job:
    """Return the job of a uuid, of ``NAME:KEY``, or of the beginning of a uuid that only one job has.

    :raises NotFound: none, or more than one; says which.
    """
    if _UUID.match(text):
        return board.get(text)
    if ":" in text:
        name, _, key = text.partition(":")
        return board.get(board.find(name, key).uuid)
    if not _PREFIX.match(text):
        raise NotFound(f"no job {text!r}; give a uuid, the first 4 or more characters of one, or NAME:KEY")
    found = [job for job in board.iterjobs(states=list(JobState)) if job.uuid.startswith(text.lower())]
    if len(found) != 1:
        what = "no job's uuid begins" if not found else f"the uuids of {len(found)} jobs begin"
        raise NotFound(f"{what} with {text!r}")
    return board.get(found[0].uuid)
