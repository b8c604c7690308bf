"""Lanes while another transaction has locked what an end of a job would look at: nothing waits, nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from harnesses.sql_site import Site

from jobboard import Job, JobBoard, JobState
from jobboard.testing import eventually
from jobboard.testing.contract.case import claim_one, drain, uuids_of
from jobboard.testing.contract.lanes import post_tied, states_of

pytest_plugins = ("harnesses.sql_fixtures",)

_BLOCKED, _UNCLAIMED = JobState.BLOCKED, JobState.UNCLAIMED


@pytest.fixture
def board(site: Site) -> Iterator[JobBoard]:
    board = site.harness.board()
    yield board
    assert board.audit() == []


@contextmanager
def _locked(site: Site, sql: str, value: str | int) -> Iterator[None]:
    """Have the rows that a statement reads locked by another transaction."""
    with site.server.client() as client, client.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"{sql} FOR UPDATE", (value,))
        yield
        cursor.execute("ROLLBACK")


def _while_another_looks(site: Site, board: JobBoard) -> AbstractContextManager[None]:
    return _locked(site, "SELECT id FROM jobboard_boards WHERE name = %s", board.name)


def _while_locked(site: Site, job: Job) -> AbstractContextManager[None]:
    return _locked(site, "SELECT id FROM jobboard_jobs WHERE id = %s", job.sequence)


def test_an_end_does_not_wait_for_another_transaction_that_looks_at_lanes(site: Site, board: JobBoard) -> None:
    first, second = post_tied(board), post_tied(board)
    claimed = claim_one(board)
    with _while_another_looks(site, board):
        board.consume(claimed, "alice")
        third = post_tied(board, "tenant:2")
        assert states_of(board, second, third) == [_BLOCKED, _BLOCKED]
    assert states_of(board, first, second, third) == [JobState.COMPLETE, _UNCLAIMED, _UNCLAIMED]


def test_what_is_due_beside_another_transaction_that_looks_at_lanes_waits_for_it(site: Site, board: JobBoard) -> None:
    first, second, plain = post_tied(board, priority="high"), post_tied(board), board.post("resize", delay=0.1)
    claimed = claim_one(board)
    with _while_another_looks(site, board):
        board.abandon(claimed, "alice", delay=0.1)
        eventually(lambda: states_of(board, plain) == [_UNCLAIMED])
        assert states_of(board, first, second) == [JobState.DELAYED, _BLOCKED]
    assert states_of(board, first, second) == [_BLOCKED, _UNCLAIMED]


def test_a_purged_job_leaves_the_slot_to_the_next_one(site: Site, board: JobBoard) -> None:
    first, second = post_tied(board), post_tied(board)
    with _while_another_looks(site, board):
        board.trash(first, by="an operator")
        board.purge(first.uuid)
    assert states_of(board, second) == [_UNCLAIMED]


def test_a_locked_job_is_passed_over(site: Site, board: JobBoard) -> None:
    _, second, third = (post_tied(board) for _ in range(3))
    with _while_locked(site, second):
        board.consume(claim_one(board), "alice")
        assert states_of(board, second, third) == [_BLOCKED, _UNCLAIMED]
    assert uuids_of(drain(board)) == uuids_of([third, second])


def test_a_lane_is_looked_at_again_if_its_only_job_was_locked(site: Site, board: JobBoard) -> None:
    _, second = post_tied(board), post_tied(board)
    with _while_locked(site, second):
        board.consume(claim_one(board), "alice")
        assert states_of(board, second) == [_BLOCKED]
    assert states_of(board, second) == [_UNCLAIMED]


def test_an_end_in_the_users_transaction_admits_the_next_job_once_that_is_committed(
    site: Site, board: JobBoard
) -> None:
    _, second = post_tied(board), post_tied(board)
    claimed = claim_one(board)
    with site.server.client() as client:
        with client.cursor() as cursor:
            cursor.execute("BEGIN")
        board.consume(claimed, "alice", connection=client)
        assert states_of(board, second) == [_BLOCKED]
        with client.cursor() as cursor:
            cursor.execute("COMMIT")
    assert states_of(board, second) == [_UNCLAIMED]
