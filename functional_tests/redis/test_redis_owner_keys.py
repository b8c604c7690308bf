"""The owner keys of Redis: one for all jobs of a claim request while they are claimed; without it they are not."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from harnesses.fixtures import a_harness, a_server
from harnesses.redis_harness import RedisHarness
from servers.redis_servers import RedisServer

from jobboard import ClaimLost, EventKind, JobBoard, JobState, Posting
from jobboard.backends.base import Backend
from jobboard.backends.redis import waiting
from jobboard.backends.rows import ClaimRequest
from jobboard.board import client_of
from jobboard.testing import eventually

LONG = 600.0

server = a_server(RedisServer)
harness = a_harness(RedisHarness)


class OwnerKeys:
    """The owner keys of a board."""

    def __init__(self, server: RedisServer, board: JobBoard) -> None:
        self.client = server.client()
        self.pattern = f"{{jobboard:{board.name}}}:owner:*"

    def names(self) -> list[bytes]:
        return sorted(self.client.scan_iter(self.pattern))

    def counts(self) -> list[int]:
        return sorted(int(self.client.get(name)) for name in self.names())

    def ttl(self) -> float:
        """The seconds that the only one has left; -1 for one that stays."""
        (name,) = self.names()
        left = self.client.pttl(name)
        return left / 1000 if left >= 0 else -1

    def delete(self) -> None:
        assert self.client.delete(*self.names()) > 0


@pytest.fixture(params=["plain", "received"])
def board(request: pytest.FixtureRequest, harness: RedisHarness) -> JobBoard:
    """A board whose scripts take the short paths, and one whose scripts take the general ones."""
    board = harness.board()
    if request.param == "received":
        board.subscribe(lambda event: None, set(EventKind))
    return board


@pytest.fixture
def backend(harness: RedisHarness, board: JobBoard) -> Iterator[Backend]:
    backend = harness.backend(board.name)
    backend.open(5.0)
    yield backend
    backend.close()


@pytest.fixture
def keys(server: RedisServer, board: JobBoard) -> Iterator[OwnerKeys]:
    keys = OwnerKeys(server, board)
    yield keys
    keys.client.close()


def test_a_claim_request_has_one_key_until_its_last_claim_ends(board: JobBoard, keys: OwnerKeys) -> None:
    board.post_many([Posting("resize") for _ in range(9)])
    jobs = board.claim_next("alice", limit=6, expiry=LONG)
    (other,) = board.claim_next("alice", expiry=LONG)
    assert keys.counts() == [1, 6]
    assert board.consume_many([*jobs[:2], other], "alice") == [None] * 3
    assert keys.counts() == [4]
    board.abandon(jobs[2], "alice")
    board.trash(jobs[3], "alice", reason="broken")
    board.release(jobs[4], reason="too slow")
    assert keys.counts() == [1]
    # What is left over does not outlive its claim.
    assert 0 < keys.ttl() <= LONG
    board.cancel(jobs[5])
    board.abandon(jobs[5], "alice")
    assert keys.names() == []
    assert board.audit() == []


def test_a_key_lives_as_long_as_the_longest_of_its_claims(board: JobBoard, keys: OwnerKeys) -> None:
    board.post_many([Posting("resize") for _ in range(3)])
    one, two, three = board.claim_next("alice", limit=3, expiry=LONG)
    board.extend(one, "alice", 2 * LONG)
    board.extend(two, "alice", LONG / 2)
    assert keys.ttl() > LONG
    board.extend(one, "alice", math.inf)
    board.extend(one, "alice", LONG)
    assert keys.ttl() == -1
    assert board.consume_many([one, two], "alice") == [None, None]
    assert (keys.ttl(), keys.counts()) == (-1, [1])
    board.consume(three, "alice")
    assert keys.names() == []


def test_a_claim_without_end_has_a_key_without_a_ttl(board: JobBoard, keys: OwnerKeys) -> None:
    job = board.post("resize")
    board.claim(job, "alice", math.inf)
    assert keys.ttl() == -1
    board.consume(job, "alice")
    assert keys.names() == []


def test_what_expires_leaves_no_key(board: JobBoard, keys: OwnerKeys) -> None:
    board.post_many([Posting("resize") for _ in range(2)])
    one, _ = board.claim_next("alice", limit=2, expiry=LONG)
    board.extend(one, "alice", 0.05)
    eventually(lambda: board.claim_next("bob", limit=2, expiry=LONG) == [one])
    assert keys.counts() == [1, 1]


def test_claims_whose_owner_key_was_deleted_are_over(board: JobBoard, keys: OwnerKeys) -> None:
    board.post_many([Posting("resize") for _ in range(3)])
    jobs = board.claim_next("alice", limit=2, expiry=LONG)
    keys.delete()
    (held,) = board.claim_next("alice", expiry=LONG)
    told = board.consume_many([*jobs, held], "alice")
    assert [type(error) for error in told] == [ClaimLost, ClaimLost, type(None)]
    again = board.claim_next("bob", limit=3, expiry=LONG)
    assert (again, [job.attempts for job in again]) == (jobs, [2, 2])
    assert keys.counts() == [2]
    assert board.audit() == []


def test_a_deleted_key_does_not_come_back_with_an_extension(board: JobBoard, keys: OwnerKeys) -> None:
    job = board.post("resize")
    board.claim(job, "alice", LONG)
    keys.delete()
    with pytest.raises(ClaimLost):
        board.extend(job, "alice")
    assert (keys.names(), job.state) == ([], JobState.UNCLAIMED)
    board.claim(job, "bob", LONG)
    keys.delete()
    board.cancel(job)
    assert keys.names() == []


def test_a_waiter_finds_the_jobs_whose_owner_key_was_deleted(board: JobBoard, keys: OwnerKeys) -> None:
    board.post_many([Posting("resize") for _ in range(2)])
    jobs = board.claim_next("alice", limit=2, expiry=LONG)
    keys.delete()
    assert next(board.wait(20)) == jobs[0]
    assert [job.state for job in jobs] == [JobState.UNCLAIMED] * 2
    assert board.audit() == []


def test_each_search_goes_on_where_the_last_one_ended(board: JobBoard, keys: OwnerKeys) -> None:
    """One search looks at 500 claims, so the lost ones behind them are found by the next one."""
    board.post_many([Posting("resize") for _ in range(600)])
    for _ in range(6):
        jobs = board.claim_next("alice", limit=100, expiry=LONG)
    [row] = board._backend.jobs.read([jobs[0].uuid])
    assert row is not None
    keys.client.delete(keys.pattern.replace("*", str(row.claim_id)))
    found = []
    for _ in range(2):
        keys.client.hdel(f"{{jobboard:{board.name}}}:swept", "at")
        board._backend.maintenance.tidy(100)
        found.append(board.stats().unclaimed)
    assert found == [0, 100]


def test_each_search_goes_on_behind_a_hundred_names(board: JobBoard, keys: OwnerKeys) -> None:
    board.post_many([Posting(f"step {number:03}") for number in range(250)])
    [last] = board.claim_next("alice", ["step 249"], expiry=math.inf)
    keys.delete()
    for _ in range(3):
        assert board.stats().claimed == 1
        keys.client.hdel(f"{{jobboard:{board.name}}}:swept", "at")
        board._backend.maintenance.tidy(100)
    assert last.state is JobState.UNCLAIMED


@pytest.mark.parametrize("garbage", ["nothing", "-7", "1e300", "nan", b"\xc1", None])
def test_another_value_in_an_owner_key_harms_no_other_claim(
    board: JobBoard, keys: OwnerKeys, garbage: str | bytes | None
) -> None:
    board.post_many([Posting("resize") for _ in range(4)])
    jobs = board.claim_next("alice", limit=3, expiry=LONG)
    (name,) = keys.names()
    keys.client.delete(name)
    if garbage is None:
        keys.client.rpush(name, "no text")
    else:
        keys.client.set(name, garbage)
    (held,) = board.claim_next("alice", expiry=LONG)
    board.extend_many([*jobs, held], "alice", LONG)
    assert board.consume_many([jobs[0], held], "alice")[1] is None
    again = board.claim_next("bob", limit=3, expiry=LONG)
    assert board.consume_many(again, "bob") == [None] * len(again)
    assert board.audit() == []


def test_a_claim_request_that_comes_twice_has_one_key_for_all(
    board: JobBoard, backend: Backend, keys: OwnerKeys
) -> None:
    """As one that was late, and came after the board had sent it again."""
    board.post_many([Posting("resize") for _ in range(5)])
    claim = ClaimRequest("alice", "c" * 32, LONG)
    first = backend.jobs.claim_next(claim, None, 2)
    second = backend.jobs.claim_next(claim, None, 2)
    assert keys.counts() == [4]
    found = backend.jobs.claimed_under(claim.claim_id)
    assert [row.uuid for row in found] == [row.uuid for row in first + second]
    for number, row in enumerate(found):
        assert keys.counts() == [4 - number]
        board.consume(row.uuid, "alice", token=row.token)
    assert (keys.names(), backend.jobs.claimed_under(claim.claim_id)) == ([], [])


def test_a_repeated_claim_of_a_job_whose_key_was_deleted_holds(
    board: JobBoard, backend: Backend, keys: OwnerKeys
) -> None:
    job = board.post("resize")
    claim = ClaimRequest("alice", "c" * 32, LONG)
    for attempts in (1, 1, 2):
        if attempts == 2:
            keys.delete()
        row = backend.jobs.claim(job.uuid, claim)
        assert row is not None
        assert (row.claim_id, row.attempts, keys.counts()) == (claim.claim_id, attempts, [1])
    board.consume(job, "alice", token=board.get(job.uuid).record.token)
    assert keys.names() == []


def test_an_armed_claim_request_is_served_once(
    server: RedisServer, harness: RedisHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it is armed again, by a repeat that came late."""
    # So that the waiter is armed still when the job is posted.
    monkeypatch.setattr(waiting, "MAX_SLEEP", LONG)
    board = harness.board()
    poster = harness.board(board.name)
    keys = OwnerKeys(server, board)
    claim = ClaimRequest("alice", "c" * 32, LONG)
    with client_of(board).waiter(frozenset(["resize"])) as waiter:
        waiters = client_of(board).backend._waiters  # type: ignore[attr-defined]
        waiters.subscribe()
        posted = []
        for _ in range(2):
            waiters.ready_in(frozenset(["resize"]), waiter.id, claim)
            posted.append(poster.post("resize"))
    assert ([job.state for job in posted], keys.counts()) == ([JobState.CLAIMED, JobState.UNCLAIMED], [1])
    keys.client.close()
