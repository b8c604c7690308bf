"""Finds the job that an operator names."""

from __future__ import annotations

import re
import uuid as uuids
from typing import TYPE_CHECKING

from jobboard.errors import NotFound
from jobboard.states import JobState

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.job import Job

_PREFIX = re.compile(r"[0-9a-f-]{4,35}\Z", re.IGNORECASE)


def find_job(board: JobBoard, text: str) -> Job:
    """Return the job of a uuid, of ``NAME:KEY``, or of the beginning of a uuid that only one job has.

    The beginning of a uuid costs a pass over the whole listing, the others one or two requests.

    :raises NotFound: no job matches, or several do; the message says which.
    """
    try:
        return board.get(str(uuids.UUID(text)))
    except ValueError:
        pass
    if ":" in text:
        return _find_by_key(board, text)
    if not _PREFIX.match(text):
        raise NotFound(f"no job {text!r}; give a uuid, the first 4 or more characters of one, or NAME:KEY")
    found = [job.uuid for job in board.iterjobs(states=list(JobState)) if job.uuid.startswith(text.lower())]
    if len(found) != 1:
        what = "no job's uuid begins" if not found else f"the uuids of {len(found)} jobs begin"
        raise NotFound(f"{what} with {text!r} on board {board.name!r}")
    return board.get(found[0])


def _find_by_key(board: JobBoard, text: str) -> Job:
    """Names and keys may contain colons, so each colon is tried as the separator."""
    for colon in (number for number, character in enumerate(text) if character == ":"):
        name, key = text[:colon], text[colon + 1 :]
        if not name or not key:
            continue
        try:
            return board.get(board.find(name, key).uuid)
        except NotFound:
            continue
    raise NotFound(f"no live job {text!r} (NAME:KEY) on board {board.name!r}")
