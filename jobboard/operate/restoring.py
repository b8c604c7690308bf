"""How a job comes back from the trash: the command, or which live job has its key meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobboard.board import client_of
from jobboard.naming import named

if TYPE_CHECKING:
    from jobboard.backends.rows import JobRow
    from jobboard.board import JobBoard


def holder_of_key(board: JobBoard, name: str, key: str | None) -> JobRow | None:
    """Return the live job that has the key of one in the trash, which can't be restored meanwhile; None if none has.

    One request, if it has a key.
    """
    client = client_of(board)
    return None if key is None else client.call(client.backend.jobs.find, name, key)


def how_taken(uuid: str, holder: JobRow) -> str:
    """Say that a live job has the key of one in the trash, and what to do about it."""
    taken = f"It can't be restored while {named(holder)}, which is {holder.state.value.lower()}, has its key."
    free = f"Once that one has ended, or was taken off with jobboard cancel {holder.uuid}"
    return f"{taken} {free}, bring it back with: jobboard restore {uuid}"
