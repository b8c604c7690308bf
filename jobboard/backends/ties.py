"""Which ties a job has after a post, and after a posting has replaced its content. Pure."""

from __future__ import annotations

import functools
from dataclasses import replace

from jobboard.backends.rows import NewJob, Ties


@functools.lru_cache(maxsize=16)
def with_children(ties: Ties | None) -> Ties:
    """Return these ties, of a job that another one waits for."""
    return replace(ties or Ties(), has_children=True)


@functools.lru_cache(maxsize=16)
def _with_parents(ties: Ties | None) -> Ties:
    return replace(ties or Ties(), has_parents=True)


def ties_of(new: NewJob, now: float) -> Ties | None:
    """Return the ties that a new job begins with."""
    ties = new.ties
    if new.parents or new.graph is not None:
        ties = _with_parents(ties)
    if new.max_delay is not None:
        ties = replace(ties or Ties(), latest=now + new.max_delay)
    return ties


def ties_after(ties: Ties | None, new: NewJob) -> Ties | None:
    """Return the ties of a job whose content is that of another posting now.

    What it has to do with other jobs stays, and so does the moment to which replacements can delay it. One that waits
    for a signal does so no longer: it runs, and asks for it again.
    """
    theirs = new.ties or Ties()
    after = replace(
        ties or Ties(),
        signal=None,
        start_by=theirs.start_by,
        on_trashed=theirs.on_trashed,
        on_complete=theirs.on_complete,
    )
    return None if after == Ties() else after
