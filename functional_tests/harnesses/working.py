"""Work on a board, as a user does it and as one does who is interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from jobboard import BoardUnavailable, JobBoard
from jobboard.errors import ReplyLost

T = TypeVar("T")

#: Seconds for which a request is sent again.
_WITHIN = 60.0


def work(board: JobBoard) -> None:
    """Use a connected board from end to end, waiting and listening too."""
    end = board.subscribe(lambda event: None)
    job = board.post("resize", details={"n": 1})
    assert next(iter(board.wait(5))) == job
    [claimed] = board.claim_next("alice")
    board.consume(claimed, "alice", "done")
    assert job.result == "done"
    assert list(board.wait(0.1)) == []
    end()


def insist(request: Callable[[], T], unforgiven: tuple[type[Exception], ...] = (ReplyLost,)) -> T:
    """Send a request again that was refused or not sent; by default an outcome that is unknown is not forgiven."""
    deadline = time.monotonic() + _WITHIN
    while True:
        try:
            return request()
        except unforgiven:
            raise
        except BoardUnavailable:
            if time.monotonic() > deadline:
                raise
