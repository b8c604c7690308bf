"""Whatever lets a job be claimed, now or soon, wakes a waiter on Redis, which need not look again by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from harnesses.fixtures import a_board, a_harness, a_server
from harnesses.redis_hand import Hand, a_hand
from harnesses.redis_harness import RedisHarness
from servers.redis_servers import RedisServer

from jobboard import EventKind, JobBoard, Posting
from jobboard.backends.redis import waiting
from jobboard.board import client_of

#: In seconds; a moment so near is soon for the server.
LONG, SOON = 600.0, 5.0

server = a_server(RedisServer)
harness = a_harness(RedisHarness)
board = a_board()
hand = a_hand()


def _nothing(board: JobBoard) -> None:
    pass


def _subscribed(board: JobBoard) -> None:
    board.subscribe(lambda event: None, {EventKind.POSTED})


def _claimed(board: JobBoard) -> Any:
    board.post("resize")
    return board.claim_next("alice", expiry=LONG)[0]


def _trashed(board: JobBoard) -> Any:
    job = board.post("resize")
    board.trash(job, by="an operator")
    return job


def _paused(name: str | None, delay: float | None = None) -> Callable[[JobBoard], None]:
    def prepare(board: JobBoard) -> None:
        board.pause(name)
        board.post("resize", delay=delay)

    return prepare


def _blocked(board: JobBoard) -> None:
    board.limits.set(lane="a", running=1)
    board.post_many([Posting("resize", lane="a") for _ in range(2)])
    board.claim_next("alice", expiry=LONG)


CHANGES: dict[str, tuple[Callable[[JobBoard], Any], Callable[[JobBoard, Any], object]]] = {
    "post": (_nothing, lambda board, _: board.post("resize")),
    "post that is received": (_subscribed, lambda board, _: board.post("resize")),
    "post many": (_nothing, lambda board, _: board.post_many([Posting("resize") for _ in range(3)])),
    "post for soon": (_nothing, lambda board, _: board.post("resize", delay=SOON)),
    "abandon": (_claimed, lambda board, job: board.abandon(job, "alice")),
    "abandon for soon": (_claimed, lambda board, job: board.abandon(job, "alice", delay=SOON)),
    "extend until soon": (_claimed, lambda board, job: board.extend(job, "alice", SOON)),
    "release": (_claimed, lambda board, job: board.release(job, reason="its host is gone")),
    "restore": (_trashed, lambda board, job: board.restore(job.uuid)),
    "run now": (lambda board: board.post("resize", delay=LONG), lambda board, job: board.run_now(job)),
    "pause of a lane until soon": (_blocked, lambda board, _: board.pause(lane="a", duration=SOON)),
    "resume": (_paused("resize"), lambda board, _: board.resume("resize")),
    "resume the board": (_paused(None), lambda board, _: board.resume()),
    "resume what is delayed": (_paused("resize", LONG), lambda board, _: board.resume("resize")),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("names", [None, frozenset(["resize"])], ids=["all", "names"])
def test_a_change_wakes_a_waiter(
    harness: RedisHarness,
    board: JobBoard,
    hand: Hand,
    monkeypatch: pytest.MonkeyPatch,
    names: frozenset[str] | None,
    change: str,
) -> None:
    monkeypatch.setattr(waiting, "MAX_SLEEP", LONG)
    prepare, act = CHANGES[change]
    subject = prepare(board)
    with client_of(harness.board(board.name)).waiter(names) as waiter:
        assert waiter.ready_in() != 0
        assert hand("HLEN", "waiters") == 1
        act(board, subject)
        assert hand("HLEN", "waiters") == 0
        # It was told, too: otherwise this lasts until the limit of the test.
        waiter.wait(LONG)


def test_a_waiter_for_names_knows_when_the_next_of_them_is_due(harness: RedisHarness, board: JobBoard) -> None:
    board.post("resize", delay=LONG)
    with client_of(harness.board(board.name)).waiter(frozenset(["resize"])) as waiter:
        for held in ("rotate", "crop"):
            board.post(held)
            board.claim_next("alice", [held], expiry=60.0)
        board.post("rotate", delay=60.0)
        due = waiter.ready_in()
    assert due is not None
    assert LONG / 2 < due <= LONG
