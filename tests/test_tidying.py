"""Calls delete what nobody can see any more: a batch now and then, and the next batch soon if there is more."""

from __future__ import annotations

import math

import pytest
from helpers.conducting import lossy_board
from helpers.memory_seam import HandClock, fresh_name

from jobboard import Posting, fetch
from jobboard.backends.base import RETRY_WINDOW
from jobboard.backends.memory import MemoryBackend
from jobboard.board import client_of
from jobboard.client import client


def test_what_one_batch_leaves_later_calls_delete_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_TIDY_BATCH", 2)
    monkeypatch.setattr(client, "_TIDY_INTERVAL", 3600.0)
    monkeypatch.setattr(client, "_TIDY_AGAIN_INTERVAL", 0.0)
    with fetch(fresh_name(), "memory", retention=0.0) as board:
        backend = client_of(board).backend
        assert isinstance(backend, MemoryBackend)
        backend.store.clock = clock = HandClock()
        board.post_many([Posting("resize") for _ in range(5)])
        board.consume_many(board.claim_next("alice", limit=5), "alice")
        clock.time += RETRY_WINDOW
        client_of(board)._tidied_at = -math.inf
        left = []
        for _ in range(3):
            client_of(board).tidy_when_due()
            left.append(len(backend.store.rows))
        assert left == [3, 1, 0]


def test_that_nothing_can_be_deleted_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with lossy_board() as (board, lossy):
        lossy.lose("maintenance.tidy", "refused", times=3)
        for _ in range(4):
            client_of(board)._tidied_at = -math.inf
            client_of(board).tidy_when_due()
        assert not lossy.armed
    assert len([text for text in caplog.messages if "what is over is not deleted" in text]) == 1
