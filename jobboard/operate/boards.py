"""Which boards are in a store."""

from __future__ import annotations

from jobboard.backends.timelimit import time_limit
from jobboard.board import JobBoard, client_of
from jobboard.errors import NotSupported
from jobboard.validation import check_delay


def boards_of(board: JobBoard, timeout: float = 10.0) -> list[str]:
    """Return the names of the boards in the store of a board that is not connected; makes nothing.

    :param timeout: seconds.
    :raises NotFound: there is no such store, such as no file.
    :raises BoardUnavailable: it can't be reached or read.
    :raises NotSupported: the store can't tell.
    """
    seconds = check_delay(timeout, "timeout")
    with time_limit(seconds):
        names = client_of(board).backend.boards(seconds)
    if names is None:
        raise NotSupported(f"a {board.store} store can't tell which boards it has")
    return sorted(names)
