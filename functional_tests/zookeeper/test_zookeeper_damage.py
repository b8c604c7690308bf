"""Znodes that are damaged, vanish or grow too long, and lists that break off: the rest of the board goes on."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from harnesses.fixtures import a_harness, a_harness_behind, a_proxy, a_server
from harnesses.zookeeper_harness import ZooKeeperHarness, a_plain_client, path_of, root_of
from kazoo.client import KazooClient
from servers.proxy import Proxy
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import BoardUnavailable, ClaimLost, Every, JobState, LogBook, NotFound, Posting, Schedule
from jobboard.errors import UnreadableSchedule
from jobboard.testing import eventually

LONG = 600.0
SHORT = 0.3
GARBAGE = b"\xc1 nothing of ours"


server = a_server(ZooKeeperServer)
harness = a_harness(ZooKeeperHarness)
proxy = a_proxy()
behind = a_harness_behind(ZooKeeperHarness)
operator = a_plain_client()


# -- damaged -----------------------------------------------------------------------------------------------------------


def test_a_znode_of_garbage_is_set_aside_with_its_bytes(harness: ZooKeeperHarness, operator: KazooClient) -> None:
    board = harness.board()
    jobs = [board.post("resize", details={"n": n}) for n in range(3)]
    operator.set(path_of(board, jobs[1].uuid), b"\xc1 no job at all")
    for fresh in (board, harness.board(board.name)):
        assert [job.uuid for job in fresh.iterjobs()] == [jobs[0].uuid, jobs[2].uuid]
    [trashed] = board.trashed()
    assert (trashed.uuid, trashed.raw) == (jobs[1].uuid, b"\xc1 no job at all")
    assert [job.uuid for job in board.claim_next("alice", limit=9)] == [jobs[0].uuid, jobs[2].uuid]


def test_a_client_that_meets_garbage_when_it_claims_goes_on(harness: ZooKeeperHarness, operator: KazooClient) -> None:
    board = harness.board()
    jobs = [board.post("resize") for _ in range(2)]
    operator.set(path_of(board, jobs[0].uuid), b"")
    assert board.claim_next("alice", limit=2) == [jobs[1]]
    operator.delete(path_of(board, jobs[1].uuid))
    with pytest.raises(ClaimLost):
        board.consume(jobs[1], "alice", token=1)


def test_a_log_that_can_not_be_read_is_passed_over(harness: ZooKeeperHarness, operator: KazooClient) -> None:
    board, other = harness.board(), None
    board.post("resize")
    assert board.job_count == 1
    other = harness.board(board.name)
    job = other.post("resize")
    log = f"/jobboard/{board.name}/log/0"
    operator.set(f"{log}/{max(operator.get_children(log))}", b"\xc1 no change")
    assert board.job_count == 2
    operator.delete(f"{log}/{max(operator.get_children(log))}")
    other.cancel(job)
    assert board.job_count == 1


@pytest.mark.parametrize("what", ["garbage", "deleted"])
@pytest.mark.parametrize("state", ["claimed", "delayed"])
def test_who_waits_for_a_moment_of_a_damaged_job_goes_on(
    harness: ZooKeeperHarness, operator: KazooClient, state: str, what: str
) -> None:
    """When its claim or its delay is over, there is nothing that it could be made of."""
    board = harness.board()
    job = board.post("resize", delay=SHORT if state == "delayed" else None)
    if state == "claimed":
        board.claim(job, "alice", SHORT)
    assert board.job_count == 1
    if what == "garbage":
        operator.set(path_of(board, job.uuid), GARBAGE)
    else:
        operator.delete(path_of(board, job.uuid))
    later = board.post("resize", delay=2 * SHORT)
    assert next(iter(board.wait(10, names=["resize"]))) == later
    eventually(lambda: board.claim_next("bob", names=["resize"]) == [later])
    assert [listed.uuid for listed in board.iterjobs()] == [later.uuid]
    assert [trashed.uuid for trashed in board.trashed()] == ([job.uuid] if what == "garbage" else [])


def test_damaged_pauses_are_said_to_be_and_nothing_is_claimed(harness: ZooKeeperHarness, operator: KazooClient) -> None:
    board = harness.board()
    job = board.post("resize")
    operator.set(f"{root_of(board)}/paused", GARBAGE)
    for call in (board.paused, lambda: board.claim(job, "alice"), lambda: harness.board(board.name).claim_next("bob")):
        with pytest.raises(BoardUnavailable, match="paused is damaged"):
            call()  # type: ignore[operator]


def test_a_damaged_schedule_keeps_no_other_from_firing(harness: ZooKeeperHarness, operator: KazooClient) -> None:
    board = harness.board()
    for id in ("bad", "good"):
        board.schedules.add(Schedule(id, Every(hours=1), "resize"))
    [path] = [
        f"{folder}/bad"
        for bucket in operator.get_children(f"{root_of(board)}/schedules")
        if "bad" in operator.get_children(folder := f"{root_of(board)}/schedules/{bucket}")
    ]
    operator.set(path, GARBAGE)
    for reader in (board, harness.board(board.name)):
        with pytest.raises(UnreadableSchedule):
            reader.schedules.get("bad")
        assert reader.schedules.get("good").id == "good"
    board.schedules.remove("bad")
    assert [schedule.id for schedule in board.schedules] == ["good"]


@pytest.mark.parametrize("what", ["garbage", "deleted"])
def test_an_audit_gives_a_job_its_key_back(harness: ZooKeeperHarness, operator: KazooClient, what: str) -> None:
    board = harness.board()
    job = board.post("resize", key="k")
    board.claim(job, "alice", LONG)
    keys = f"{root_of(board)}/keys"
    [path] = [
        f"{keys}/{bucket}/{name}"
        for bucket in operator.get_children(keys)
        for name in operator.get_children(f"{keys}/{bucket}")
    ]
    if what == "garbage":
        operator.set(path, GARBAGE)
    else:
        operator.delete(path)
    with pytest.raises(NotFound):
        board.find("resize", "k")
    assert [(finding.uuid, finding.repaired) for finding in board.audit(repair=True)] == [(job.uuid, True)]
    assert board.find("resize", "k") == job
    board.consume(job, "alice")
    assert (operator.exists(path), board.audit()) == (None, [])


# -- too long ----------------------------------------------------------------------------------------------------------


def test_reasons_of_any_length_leave_a_job_that_can_be_written(harness: ZooKeeperHarness) -> None:
    """What handlers raise can quote all that they were given."""
    board = harness.board()
    job = board.post("resize")
    long = "begin " + "x" * 3_000_000 + " end"
    for _ in range(25):
        [claimed] = board.claim_next("alice", expiry=LONG)
        board.abandon(claimed, "alice", reason=long, error=long)
    board.trash(job, by="an operator", reason=long)
    record = board.get(job.uuid).record
    assert (record.state, record.attempts) == (JobState.TRASHED, 25)
    for text, most in ((record.reason, 4_000), (record.last_error, 400_000), (job.history[-1].reason, 500)):
        assert text is not None
        assert text.startswith("begin xxx")
        assert text.endswith("xxx end")
        assert most - 100 < len(text) <= most


def test_the_largest_batch_of_the_longest_names_fits(harness: ZooKeeperHarness) -> None:
    board = harness.board(f"{harness.fresh_name()}{'ß' * 110}")
    size = board._backend.capabilities.largest_batch
    name, details = "ß" * 127, {"text": "x" * 1000}
    postings = [Posting(name, details=details, key=f"{number:03}{'ß' * 126}") for number in range(size)]
    jobs = board.post_many(postings)
    claimed = board.claim_next("ß" * 127, limit=size, expiry=LONG)
    assert claimed == jobs
    assert board.extend_many(claimed, "ß" * 127, LONG, progress=[details] * size)
    assert board.consume_many(claimed, "ß" * 127) == [None] * size


def test_what_no_request_can_carry_is_refused_and_the_line_stays(harness: ZooKeeperHarness) -> None:
    board = harness.board(largest_details=5_000_000)
    backend: Any = board._backend
    session = backend._connection.session_id
    book = LogBook("journal")
    book.meta["text"] = "x" * 2_000_000
    with pytest.raises(BoardUnavailable, match="more than ZooKeeper takes"):
        board.save_book(book)
    with pytest.raises(BoardUnavailable, match="more than ZooKeeper takes"):
        board.post("resize", details=book.meta)
    job = board.post("resize")
    assert (board.get(job.uuid), backend._connection.session_id, board.connected) == (job, session, True)


# -- read while it changes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", ["get", "list", "find", "post"])
def test_a_job_that_is_replaced_while_it_is_read_is_read_whole(
    harness: ZooKeeperHarness, behind: ZooKeeperHarness, proxy: Proxy, read: str
) -> None:
    """What is long is read after the record; by then it may belong to no job any more."""
    writer, reader = harness.board(), None
    reader = behind.board(writer.name)
    job = writer.post("resize", details={"text": "x" * 5_000}, key="k")
    assert reader.job_count == 1
    replaced = threading.Event()

    def replace(request: bytes) -> bool:
        if b"/blobs/" in request and not replaced.is_set():
            replaced.set()
            writer.post("resize", details={"text": "y" * 5_000}, key="k", if_exists="replace")
        return False

    proxy.matters = replace
    looks = {
        "get": lambda: reader.get(job.uuid),
        "list": lambda: next(iter(reader.iterjobs())),
        "find": lambda: reader.find("resize", "k"),
        "post": lambda: reader.post("resize", key="k", if_exists="keep"),
    }
    assert looks[read]().details == {"text": "y" * 5_000}
    assert replaced.is_set()
    assert (list(reader.trashed()), reader.audit()) == ([], [])


def test_a_list_that_breaks_off_leaves_nothing_that_is_gone_meanwhile(
    harness: ZooKeeperHarness, behind: ZooKeeperHarness, proxy: Proxy
) -> None:
    writer = harness.board()
    jobs = writer.post_many([Posting("resize") for _ in range(700)])
    reader = behind.board(writer.name)
    lists = 0

    def is_second(request: bytes) -> bool:
        nonlocal lists
        lists += request.count(b"/jobs/") > 100
        if lists == 2:
            # The first five hundred are listed by now; some of these are among them.
            gone = [job.uuid for job in jobs[:50]]
            for job in jobs[:50]:
                writer.trash(job, by="an operator")
            writer._backend.jobs.purge(gone)
            lists += 1
            return True
        return False

    proxy.matters = is_second
    proxy.cut("reply")
    assert reader.job_count == 650
    assert proxy.cuts == 1
    assert len(list(reader.iterjobs())) == 650


def test_claims_of_which_a_part_is_not_certain_are_all_handed_out(
    harness: ZooKeeperHarness, behind: ZooKeeperHarness, proxy: Proxy
) -> None:
    """More than a transaction takes: the first part is owned, the reply to the second is lost."""
    poster, board = harness.board(), None
    board = behind.board(poster.name)
    for _ in range(4):
        poster.post_many([Posting("resize", details={"text": "x" * 990}) for _ in range(250)])
    size = board._backend.capabilities.largest_batch
    assert board.job_count == 1000
    claims = 0

    def is_second(request: bytes) -> bool:
        nonlocal claims
        claims += b"/log/0/c-" in request
        return claims == 2

    proxy.matters = is_second
    proxy.cut("reply")
    jobs = board.claim_next("alice", limit=1000, expiry=LONG)
    assert proxy.cuts == 1
    assert len(jobs) == 1000 >= size
    assert board.consume_many(jobs, "alice") == [None] * 1000
