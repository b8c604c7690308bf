"""The tokens that a board object remembers, for ends that name a job by its uuid."""

from __future__ import annotations

import pytest
from helpers.memory_board import board

from jobboard import ClaimLost, JobBoard, Posting
from jobboard.board import client_of
from jobboard.client import keepers

__all__ = ["board"]


def test_of_claims_that_are_over_no_token_is_kept(board: JobBoard) -> None:
    jobs = [job.uuid for job in board.post_many([Posting("resize")] * 6)]
    board.claim_next("alice", limit=5)
    board.claim_next("bob")
    board.consume(jobs[0], "alice")
    board.abandon(jobs[1], "alice", delay=60)
    board.trash(jobs[2], "alice")
    board.consume_many([jobs[3]], "alice")
    board.release(jobs[4], reason="a test")
    assert list(client_of(board).tokens.of("alice")) == [jobs[4]]
    with pytest.raises(ClaimLost):
        board.extend(jobs[4], "alice")
    assert client_of(board).tokens.of("alice") == {}


def test_an_end_under_an_older_token_leaves_the_newer_one(board: JobBoard) -> None:
    board.post("resize")
    [first] = board.claim_next("alice")
    board.release(first, reason="a test")
    board.claim(first.uuid, "alice")
    with pytest.raises(ClaimLost):
        board.consume(first, "alice")
    board.consume(first.uuid, "alice")


def test_beyond_a_bound_the_oldest_is_forgotten(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keepers, "_MAX_TOKENS", 2)
    board.post_many([Posting("resize")] * 3)
    jobs = board.claim_next("alice", limit=3)
    with pytest.raises(ClaimLost, match="no claim of job .* that this board knows of"):
        board.consume(jobs[0].uuid, "alice")
    board.consume(jobs[0], "alice")
    assert board.consume_many([job.uuid for job in jobs[1:]], "alice") == [None, None]
