"""How a job comes back from the trash: the command, and which live job has its key meanwhile."""

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


def way_back(uuid: str, holder: JobRow | None) -> tuple[str, str]:
    """Say what keeps a job in the trash, a live job that has its key ("" if none has), and what brings it back."""
    taken, condition = "", "the cause is mended"
    if holder is not None:
        taken = f"It can't be restored while {named(holder)}, which is {holder.state.value.lower()}, has its key."
        condition = f"that one has ended, or was taken off with jobboard cancel {holder.uuid}"
    return taken, f"Once {condition}, bring it back with: jobboard restore {uuid}"
