"""What an audit finds on a ZooKeeper board, and mends: what crashes leave, and what was changed by hand."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid as uuids
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from harnesses.fixtures import a_harness, a_proxy, a_server
from harnesses.zookeeper_harness import ZooKeeperHarness, a_plain_client, path_of, plain_client
from kazoo.client import KazooClient
from servers.proxy import Proxy
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import JobBoard, JobState, LogBook, Posting
from jobboard.backends.zookeeper import audit
from jobboard.backends.zookeeper.job_record import decode, encode
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.stored_job import StoredJob
from jobboard.events import HISTORY_LENGTH

LONG = 600.0
#: Together too large for one transaction, so that they are written before their jobs are.
LARGE = {"text": "x" * 400_000}

POST = """
import sys, jobboard
with jobboard.backend(sys.argv[2], sys.argv[1]) as board:
    board.post_many([jobboard.Posting("resize", details={"text": "x" * 400_000}) for _ in range(2)])
"""


server = a_server(ZooKeeperServer)
harness = a_harness(ZooKeeperHarness)
proxy = a_proxy()
operator = a_plain_client()


def blobs_of(board: JobBoard, operator: KazooClient) -> list[str]:
    return znodes_of(board, operator, "blobs")


def znodes_of(board: JobBoard, operator: KazooClient, folder: str) -> list[str]:
    root = f"/jobboard/{board.name}/{folder}"
    return [name for bucket in operator.get_children(root) for name in operator.get_children(f"{root}/{bucket}")]


def held_back(proxy: Proxy, meanwhile: Callable[[], Any]) -> threading.Event:
    """Have the proxy swallow the transaction that writes jobs whose blobs are there, and do something before."""
    reached = threading.Event()

    def is_commit(request: bytes) -> bool:
        if b"/log/0/c-" not in request or reached.is_set():
            return False
        meanwhile()
        reached.set()
        return True

    proxy.matters = is_commit
    return reached


def test_what_a_killed_client_wrote_ahead_is_found_and_removed(
    harness: ZooKeeperHarness, proxy: Proxy, operator: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = harness.board()
    kept = board.post("resize", details=LARGE)
    reached = held_back(proxy, lambda: None)
    proxy.cut("both")
    command = [sys.executable, "-c", POST, f"zookeeper://127.0.0.1:{proxy.port}", board.name]
    with subprocess.Popen(command) as poster:
        assert reached.wait(20)
        poster.kill()
    assert len(blobs_of(board, operator)) == 3
    assert board.audit(repair=True) == []
    monkeypatch.setattr(audit, "MIN_BLOB_AGE", -1.0)
    found = board.audit()
    assert [(finding.uuid, finding.repaired) for finding in found] == [(None, False)] * 2
    assert all("belongs to no job" in finding.problem for finding in found)
    assert [finding.repaired for finding in board.audit(repair=True)] == [True, True]
    assert (board.audit(), len(blobs_of(board, operator))) == ([], 1)
    assert board.get(kept.uuid).details == LARGE


def test_a_post_whose_blobs_an_audit_removed_writes_them_again(
    harness: ZooKeeperHarness, proxy: Proxy, operator: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction makes sure that they are there; a client that was stopped may be that late."""
    auditor = harness.board()
    board = harness.adopt(JobBoard(auditor.name, _behind(proxy, auditor.name)))
    monkeypatch.setattr(audit, "MIN_BLOB_AGE", -1.0)
    removed: list[bool] = []
    held_back(proxy, lambda: removed.extend(finding.repaired for finding in auditor.audit(repair=True)))
    jobs = board.post_many([Posting("resize", details=LARGE) for _ in range(2)])
    assert removed == [True, True]
    assert [job.details for job in auditor.iterjobs()] == [LARGE, LARGE] == [job.details for job in jobs]
    assert (len(blobs_of(board, operator)), auditor.audit()) == (2, [])


def test_blobs_that_got_their_jobs_after_an_audit_read_these_stay(
    harness: ZooKeeperHarness, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = harness.board()
    auditor = harness.adopt(JobBoard(board.name, _behind(proxy, board.name)))
    monkeypatch.setattr(audit, "MIN_BLOB_AGE", -1.0)
    [orphan] = [f"/jobboard/{board.name}/blobs/zz/orphan"]
    with plain_client(harness.uri()) as operator:
        operator.create(orphan, b"nobody's", makepath=True)
    posted = threading.Event()

    def is_removal(request: bytes) -> bool:
        if request[8:12] == (14).to_bytes(4) and orphan.encode() in request and not posted.is_set():
            board.post_many([Posting("resize", details=LARGE) for _ in range(2)])
            posted.set()
        return False

    proxy.matters = is_removal
    assert [finding.repaired for finding in auditor.audit(repair=True)] == [False]
    assert posted.is_set()
    assert [job.details for job in board.iterjobs()] == [LARGE, LARGE]
    assert [finding.repaired for finding in auditor.audit(repair=True)] == [True]


def test_a_long_value_is_written_in_the_transaction_of_its_job(
    harness: ZooKeeperHarness, operator: KazooClient
) -> None:
    board = harness.board()
    job = board.post("resize", details=LARGE)
    token = board.claim(job, "alice", LONG)
    board.checkpoint(job, "alice", LARGE, token=token)
    for path in blobs_of(board, operator):
        folder = f"/jobboard/{board.name}/blobs"
        [stat] = [
            operator.exists(f"{folder}/{bucket}/{path}")
            for bucket in operator.get_children(folder)
            if path in operator.get_children(f"{folder}/{bucket}")
        ]
        log = f"/jobboard/{board.name}/log/0"
        assert stat.czxid in {operator.exists(f"{log}/{line}").czxid for line in operator.get_children(log)}
    board.consume(job, "alice", token=token)
    assert (len(blobs_of(board, operator)), board.audit()) == (2, [])


def test_what_was_written_past_the_log_is_listed_by_every_client_after_a_repair(
    harness: ZooKeeperHarness, operator: KazooClient
) -> None:
    board, other = harness.board(), None
    job = board.post("resize")
    other = harness.board(board.name)
    assert (board.job_count, other.job_count) == (1, 1)
    path = path_of(board, job.uuid)
    data, stat = operator.get(path)
    record = decode(job.uuid, data, stat)
    assert isinstance(record, StoredJob)
    record.state = JobState.TRASHED
    operator.set(path, encode(record))
    assert [(found.uuid, found.repaired) for found in board.audit(repair=True)] == [(job.uuid, True)]
    assert (board.stats().trashed, other.stats().trashed) == (1, 1)
    assert (board.audit(), other.audit()) == ([], [])


def test_a_job_whose_posting_is_gone_goes_to_the_trash(harness: ZooKeeperHarness, operator: KazooClient) -> None:
    board = harness.board()
    job = board.post("resize", details=LARGE)
    [blob] = blobs_of(board, operator)
    root = f"/jobboard/{board.name}/blobs"
    [bucket] = operator.get_children(root)
    operator.delete(f"{root}/{bucket}/{blob}")
    assert [(found.uuid, found.repaired) for found in board.audit(repair=True)] == [(job.uuid, True)]
    assert board.audit() == []
    assert list(board.iterjobs()) == []
    assert [trashed.uuid for trashed in board.trashed()] == [job.uuid]


def _behind(proxy: Proxy, name: str) -> Any:
    return ZooKeeperHarness(f"zookeeper://127.0.0.1:{proxy.port}").backend(name)


def test_the_oldest_aliases_of_a_job_that_is_replaced_again_and_again_go(
    harness: ZooKeeperHarness, operator: KazooClient
) -> None:
    board = harness.board()
    replacement = Posting("resize", key="cat.png", if_exists="replace")
    # The transaction of this batch creates some aliases and deletes them again.
    [job] = set(board.post_many([replacement] * (HISTORY_LENGTH + 5)))
    assert board.post_many([replacement]) == [job]
    assert len(znodes_of(board, operator, "jobs")) == 1 + HISTORY_LENGTH
    assert board.audit() == []


def test_what_is_left_of_destroyed_books_is_found_and_removed(
    harness: ZooKeeperHarness, operator: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = harness.board()
    layout = Layout("/jobboard", board.name)
    kept, gone = LogBook("kept"), LogBook("gone")
    for book in (kept, gone):
        book.named = {"a": 1, "b": 2}
        board.save_book(book)
    # As a client that is killed within destroy_book leaves it.
    operator.delete(layout.book(gone.uuid))
    assert [finding.repaired for finding in board.audit()] == [False]
    again = LogBook("again", gone.uuid)
    again.named = {"c": 3}
    board.save_book(again)
    assert (board.load_book(gone.uuid).named, len(znodes_of(board, operator, "entries"))) == ({"c": 3}, 3)
    monkeypatch.setattr("jobboard.backends.zookeeper.books._TIDIES_PER_SWEEP", 1)
    for _ in layout.entry_buckets:
        board._backend.maintenance.tidy(100)
    assert (board.audit(), len(znodes_of(board, operator, "entries"))) == ([], 2)
    assert (board.load_book(kept.uuid).named, board.load_book(gone.uuid).named) == ({"a": 1, "b": 2}, {"c": 3})


def test_a_book_of_an_earlier_version_moves_when_it_is_saved(harness: ZooKeeperHarness, operator: KazooClient) -> None:
    board, uuid = harness.board(), str(uuids.uuid4())
    layout = Layout("/jobboard", board.name)
    body = msgpack.packb({"name": "old", "meta": {}, "entries": [{"n": 1}]})
    operator.create(layout.old_book(uuid), msgpack.packb(["1", body]))
    assert [info.uuid for info in board.books()] == [uuid]
    book = board.load_book(uuid)
    book.append(n=2)
    board.save_book(book)
    assert operator.exists(layout.old_book(uuid)) is None
    assert [info.uuid for info in board.books()] == [uuid]
    assert [entry["n"] for entry in board.load_book(uuid)] == [1, 2]
    board.destroy_book(uuid)
    assert (list(board.books()), board.audit()) == ([], [])
