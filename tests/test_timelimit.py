"""Time limits: the sooner one counts, and what is repeated has what is left of the patience."""

from __future__ import annotations

import math

import pytest
from helpers.conducting import lossy_board

from jobboard import BoardUnavailable
from jobboard.backends.timelimit import is_time_over, seconds_left, time_limit
from jobboard.errors import ReplyLost


def test_without_a_limit_an_answer_may_take_what_it_takes() -> None:
    assert seconds_left(7.0) == 7.0
    with time_limit(math.inf):
        assert (seconds_left(7.0), is_time_over()) == (7.0, False)


def test_of_two_limits_the_sooner_one_counts() -> None:
    with time_limit(3.0), time_limit(60.0):
        assert 0 < seconds_left(7.0) <= 3.0
        with time_limit(1.0):
            assert seconds_left(7.0) <= 1.0
        assert seconds_left(7.0) > 1.0
    assert seconds_left(7.0) == 7.0


def test_a_limit_that_is_over_leaves_a_moment() -> None:
    with time_limit(-1.0):
        assert is_time_over()
        assert 0 < seconds_left(7.0) < 0.1


def test_a_repeated_request_has_what_is_left_of_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    with lossy_board(patience=30.0) as (board, backend):
        left: list[float] = []
        post = backend.inner.jobs.post
        monkeypatch.setattr(backend.inner.jobs, "post", lambda rows: left.append(seconds_left(60.0)) or post(rows))
        backend.lose("post")
        board.post("resize")
    assert left[0] == 60.0
    assert 0 < left[1] <= 30.0


def test_a_wait_has_its_time_and_a_last_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with lossy_board() as (board, backend):
        left: list[float] = []
        maintenance = backend.inner.maintenance
        tidy = maintenance.tidy
        board._client._tidied_at = -math.inf
        monkeypatch.setattr(maintenance, "tidy", lambda limit: left.append(seconds_left(60.0)) or tidy(limit))
        assert list(board.wait(0.1)) == []
    assert 0 < left[0] <= 3.1


def test_nothing_is_repeated_once_the_limit_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with lossy_board(patience=60.0) as (board, backend):
        tries: list[float] = []

        def lose() -> None:
            tries.append(seconds_left(60.0))
            raise ReplyLost("nobody answers")

        monkeypatch.setattr(backend.inner.jobs, "stats", lose)
        with time_limit(0.0), pytest.raises(BoardUnavailable, match="nobody answers"):
            board.stats()
    assert len(tries) == 1
