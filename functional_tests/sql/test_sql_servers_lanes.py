"""Lanes while another transaction has locked what an end of a job would look at: nothing waits, nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import pytest
from harnesses.sql_harness import PostgresqlHarness
from harnesses.sql_site import Site
from servers.postgresql_servers import PostgresqlServer

from jobboard import Job, JobBoard, JobState, NotFound, Posting
from jobboard.backends.sql.driver import LOCK_TIMEOUT
from jobboard.testing import eventually
from jobboard.testing.contract.case import claim_one, drain, uuids_of
from jobboard.testing.contract.lanes import post_tied, states_of
from jobboard.testing.contract.races import at_once

pytest_plugins = ("harnesses.sql_fixtures",)

_BLOCKED, _UNCLAIMED = JobState.BLOCKED, JobState.UNCLAIMED


@pytest.fixture
def board(site: Site) -> Iterator[JobBoard]:
    board = site.harness.board()
    board.limits.set(lane="tenant:*", running=1)
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
    first, second, plain = post_tied(board), post_tied(board), board.post("resize", delay=0.1)
    claimed = claim_one(board)
    with _while_another_looks(site, board):
        board.abandon(claimed, "alice", delay=0.1)
        eventually(lambda: states_of(board, plain) == [_UNCLAIMED])
        assert states_of(board, first, second) == [JobState.DELAYED, _BLOCKED]
    eventually(lambda: states_of(board, first, second) == [_BLOCKED, _UNCLAIMED])


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


@contextmanager
def _open_transaction(site: Site) -> Iterator[Any]:
    """A transaction of the user's that is open for the block, and then undone."""
    with site.server.client() as client, client.cursor() as cursor:
        cursor.execute("BEGIN")
        yield client
        cursor.execute("ROLLBACK")


def test_nobody_waits_for_a_post_into_a_full_lane_in_the_users_open_transaction(site: Site, board: JobBoard) -> None:
    first, second, plain = post_tied(board), post_tied(board), board.post("rotate")
    with _open_transaction(site) as client:
        posted = board.post("resize", lane="tenant:1", connection=client)
        began = time.monotonic()
        third = post_tied(board)
        claimed = board.claim_next("alice", limit=10)
        assert uuids_of(claimed) == uuids_of([first, plain])
        assert board.consume_many(claimed, "alice") == [None, None]
        assert uuids_of(board.claim_next("alice", limit=10)) == [second.uuid]
        board.consume(second, "alice")
        board.limits.set(lane="tenant:1", running=2)
        assert states_of(board, third) == [_UNCLAIMED]
        # The server lets a statement wait for a row for this long before it is tried again.
        assert time.monotonic() - began < LOCK_TIMEOUT
    with pytest.raises(NotFound):
        board.get(posted.uuid)
    assert uuids_of(drain(board)) == [third.uuid]


def test_a_post_in_the_users_transaction_waits_for_its_lane_once_that_is_committed(site: Site, board: JobBoard) -> None:
    first = post_tied(board)
    with site.server.client() as client, client.cursor() as cursor:
        cursor.execute("BEGIN")
        second = board.post("resize", lane="tenant:1", connection=client)
        free = board.post("resize", lane="tenant:2", connection=client)
        cursor.execute("COMMIT")
    assert states_of(board, first, second, free) == [_UNCLAIMED, _BLOCKED, _UNCLAIMED]
    assert uuids_of(drain(board)) == uuids_of([first, free, second])


@pytest.mark.parametrize("names", [["resize"], ["resize", "rotate"], None], ids=["one", "two", "all"])
def test_concurrent_claims_of_a_limited_name_never_have_more_than_it_may(
    site: Site, board: JobBoard, names: list[str] | None
) -> None:
    board.limits.set(name="resize", running=3)
    board.post_many([Posting(name) for name in ("resize", "rotate") for _ in range(40)])
    claims: list[str] = []
    ended: list[str] = []

    def work(number: int) -> None:
        mine, who = site.harness.board(board.name), f"worker {number}"

        def is_over() -> bool:
            for job in mine.claim_next(who, names=names, limit=2, expiry=600):
                if job.name == "resize":
                    claims.append(job.uuid)
                    assert len(claims) - len(ended) <= 3
                    ended.append(job.uuid)
                mine.consume(job, who)
            return len(ended) == 40

        eventually(is_over, within=60, every=0.001)

    outcomes = at_once(*(partial(work, number) for number in range(4)))
    assert outcomes == [None] * len(outcomes)
    assert len(set(ended)) == 40


def test_claims_of_other_names_do_not_wait_for_those_of_a_limited_one(site: Site, board: JobBoard) -> None:
    board.limits.set(name="resize", running=3)
    limited, other = board.post("resize"), board.post("rotate")
    lock = "SELECT name FROM jobboard_pauses WHERE name = %s"
    with _locked(site, lock, "resize"):
        assert uuids_of(board.claim_next("alice", names=["rotate"])) == [other.uuid]
    assert uuids_of(board.claim_next("alice", names=["resize"])) == [limited.uuid]


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


def test_who_has_locked_limits_of_names_does_not_wait_for_further_ones(site: Site, board: JobBoard) -> None:
    names = ("resize", "rotate", "crop")
    for name in names:
        board.limits.set(name=name, running=1)
    resize, rotate, crop = ([board.post(name) for _ in range(4)] for name in names)
    with site.server.client() as client, client.cursor() as cursor:
        cursor.execute("SELECT id FROM jobboard_boards WHERE name = %s", (board.name,))
        [number] = cursor.fetchone()
    with _locked(site, "SELECT name FROM jobboard_pauses WHERE name = 'rotate' AND board = %s", number):
        assert uuids_of(board.claim_next("alice", limit=3)) == uuids_of([resize[0], crop[0]])
    assert uuids_of(board.claim_next("alice", limit=3)) == uuids_of([rotate[0]])


def test_names_that_are_found_unlimited_while_another_thread_claims_are_claimed(postgresql: PostgresqlServer) -> None:
    class FoundUnlimited(set[frozenset[str]]):
        """Has the names for who asks first, and not any more."""

        def __contains__(self, names: object) -> bool:
            is_limited = super().__contains__(names)
            self.clear()
            return is_limited

    with PostgresqlHarness(postgresql.uri) as harness:
        board: Any = harness.board()
        job = board.post("resize")
        board._backend._opened[1].jobs.claim_next.__self__._limited = FoundUnlimited({frozenset({"resize"})})
        assert board.claim_next("alice", names=["resize"]) == [job]
