"""How long the calls of a board take while its store says nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from jobboard import BoardUnavailable, Conductor, Entity, Handlers, JobBoard, LogBook
from jobboard.testing import Harness, eventually
from jobboard.testing.contract.clockwork import firing
from jobboard.testing.deadline import ends_within

#: What a busy machine may add, in seconds.
SLACK = 4.0


#: What a board is asked that has claimed two jobs.
CALLS: dict[str, Callable[[JobBoard, list[Any]], object]] = {
    "post": lambda board, claimed: board.post("resize", key="k"),
    "claim": lambda board, claimed: board.claim(claimed[0], "bob"),
    "claim_next": lambda board, claimed: board.claim_next("bob", ["resize"], 9, 77.0),
    "extend": lambda board, claimed: board.extend(claimed[0], "alice", 88.0),
    "checkpoint": lambda board, claimed: board.checkpoint(claimed[0], "alice", 1),
    "consume": lambda board, claimed: board.consume(claimed[0], "alice"),
    "abandon": lambda board, claimed: board.abandon(claimed[1], "alice"),
    "cancel": lambda board, claimed: board.cancel(claimed[1]),
    "get": lambda board, claimed: board.get(claimed[0].uuid),
    "iterjobs": lambda board, claimed: list(board.iterjobs()),
    "stats": lambda board, claimed: board.stats(),
    "subscribe": lambda board, claimed: board.subscribe(lambda event: None),
    "trashed": lambda board, claimed: list(board.trashed()),
    "release": lambda board, claimed: board.release(claimed[0], reason="why"),
    "pause": lambda board, claimed: board.pause(),
    "paused": lambda board, claimed: board.paused(),
    "audit": lambda board, claimed: board.audit(repair=True),
    "register_entity": lambda board, claimed: board.register_entity(Entity("conductor", "a")),
    "entities": lambda board, claimed: board.entities(),
    "save_book": lambda board, claimed: board.save_book(LogBook("journal")),
    "schedules": lambda board, claimed: list(board.schedules),
    "fire_due": lambda board, claimed: firing(board).fire_due(9),
}


@contextmanager
def ends_in(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds + SLACK


def board_that_claims(harness: Harness) -> tuple[JobBoard, list[Any]]:
    """Return a board that repeats no request, with jobs, and two of them that it has claimed."""
    # Until the server is silent, a busy one may take longer than it is given.
    board = harness.board(patience=60.0)
    board.post("resize")
    claimed = [board.post("rotate"), board.post("rotate")]
    for job in claimed:
        board.claim(job, "alice", 600.0)
    board.stats()
    board._client.patience = 0.0
    return board, claimed


def late_calls(calls: Mapping[str, tuple[Callable[[], Any], float]]) -> dict[str, float]:
    """Make all calls at once, and return how long those took that took longer than their bound, in seconds.

    Each must end by ``BoardUnavailable``, or return False or None.
    """
    took: dict[str, float] = {}

    def make(name: str, call: Callable[[], Any]) -> None:
        began = time.monotonic()
        try:
            assert not call(), f"{name} found something out"
        except BoardUnavailable:
            pass
        took[name] = time.monotonic() - began

    ends_within(120.0, *(lambda name=name, call=call: make(name, call) for name, (call, _) in calls.items()))  # type: ignore[misc]
    return {name: seconds for name, seconds in took.items() if seconds > calls[name][1] + SLACK}


@contextmanager
def busy_conductor(board: JobBoard, name: str) -> Iterator[Conductor]:
    """A conductor of this board that works on a job of this name, until it is given back."""
    handlers, ended = Handlers(), threading.Event()
    handlers.add(name, lambda job: eventually(lambda: job.lost or ended.is_set(), 60))
    job = board.post(name)
    conductor = Conductor(name, board, handlers)
    conductor.start()
    eventually(lambda: board.find_owner(job) is not None)
    try:
        yield conductor
    finally:
        ended.set()
        conductor.stop(drain=False, timeout=0.1)
