"""A client of the jobboard that is on the path, in a process of its own: ``python -m layouts.client_process URI``.

It answers each line on its standard input, which names a function of :data:`CALLS`, with a line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from typing import Any

from jobboard import Entity, JobBoard, JobBoardError, JobState, Posting, fetch
from jobboard.backends.layout import LAYOUT
from jobboard.backends.sql.schema import VERSION

from .dumps import NAME, fill

WHO = "ann"


def claim(board: JobBoard) -> None:
    """Claim a job for longer than any test lasts, as a conductor."""
    board.register_entity(Entity("conductor", WHO, {}, ttl=600.0))
    [job] = board.claim_next(WHO, expiry=600.0)
    board.checkpoint(job, WHO, {"at": 1})


def leave(board: JobBoard) -> None:
    """Give the claimed job back, and say that the conductor is gone."""
    board.abandon(next(board.iterjobs(states=[JobState.CLAIMED])), WHO)
    board.remove_entity(next(iter(board.entities())))


def use(board: JobBoard) -> dict[str, list[str]]:
    """Make calls of each kind, some of which may be refused; return the jobs that were posted and those consumed."""
    posted, consumed = [], []
    [held] = _tried(board.iterjobs, states=[JobState.CLAIMED])[:1] or [None]
    if held is not None:
        _tried(board.abandon, held, WHO, delay=1000.0)
    for options in ({}, {"key": "old"}, {"delay": 1000.0}, {"priority": "high"}):
        posted += _tried(board.post, "posted", {}, **options)
    posted += _tried(board.post_many, [Posting("posted"), Posting("posted")])
    posted += _tried(board.schedules.fire_now, "nightly")
    for job in _tried(board.claim_next, WHO, limit=2):
        if _is_served(board.consume, job, WHO):
            consumed.append(job.uuid)
    for job in _tried(board.claim_next, WHO):
        _tried(board.trash, job, WHO, reason="broken")
        _tried(board.restore, job.uuid)
    for job in _tried(board.claim_next, WHO):
        _tried(board.abandon, job, WHO)
    _tried(board._backend.maintenance.tidy, 1000)
    _tried(board.audit, repair=True)
    return {"posted": [job.uuid for job in posted], "consumed": consumed}


def _tried(call: Callable[..., Any], *args: Any, **options: Any) -> list[Any]:
    """Return what a call returns, in a list; an empty one if it is refused."""
    with contextlib.suppress(JobBoardError):
        answer = call(*args, **options)
        return list(answer) if hasattr(answer, "__iter__") else [answer]
    return []


def _is_served(call: Callable[..., Any], *args: Any) -> bool:
    return _tried(call, *args) != []


CALLS: dict[str, Callable[[JobBoard], Any]] = {
    "numbers": lambda _: {"layout": str(LAYOUT), "schema": str(VERSION)},
    "connect": JobBoard.connect,
    "fill": fill,
    "claim": claim,
    "leave": leave,
    "use": use,
}


def main(uri: str) -> None:
    board = fetch(NAME, uri, retention=1e9)
    for line in sys.stdin:
        try:
            answer = {"answer": CALLS[line.strip()](board)}
        except JobBoardError as error:
            answer = {"error": str(error)}
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()
    board.close()


if __name__ == "__main__":
    main(sys.argv[1])
