"""Ends of claims that the store can't take: a result that is too large for it, and any end while it is away."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from servers.durable_stores import STORES, running, server_of
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import Conductor, Handlers, Job, JobFailed, JobState, Posting, backend
from jobboard.testing import eventually

pytestmark = pytest.mark.in_turn(2)

MIB = 2**20


@pytest.mark.parametrize("store", ["etcd", "zookeeper"])
def test_a_result_that_the_store_has_no_room_for_holds_up_no_other_end(store: str, tmp_path: Path) -> None:
    handlers, all_begun = Handlers(), threading.Barrier(6)

    @handlers.handler("measure")
    def measure(job: Job) -> bytes:
        all_begun.wait(60)
        return bytes(job.details["size"])

    @handlers.handler("note", max_attempts=1)
    def note(job: Job) -> None:
        all_begun.wait(60)
        job.checkpoint_state(bytes(3 * MIB))

    with (
        running(store, tmp_path) as server,
        backend("board", server.uri, largest_details=4 * MIB, patience=0.5) as board,
    ):
        sizes = [10, 11, 3 * MIB, 12, 13]
        *jobs, noted = board.post_many(
            [*(Posting("measure", details={"size": size}) for size in sizes), Posting("note")]
        )
        conductor = Conductor("conductor", board, handlers, concurrency=len(jobs) + 1)
        conductor.start()
        large = jobs.pop(2)
        assert [len(job.get_result(60)) for job in jobs] == [10, 11, 12, 13]
        for job in (large, noted):
            with pytest.raises(JobFailed):
                job.get_result(60)
        assert (large.state, large.attempts) == (JobState.TRASHED, 1)
        assert str(large.record.reason).startswith("its result can't be kept: ")
        assert conductor.stop(timeout=30)


@pytest.mark.parametrize("store", [name for name in STORES if name != "sqlite"])
def test_an_end_that_comes_while_the_store_is_away_is_sent_when_it_is_back(
    store: str, caplog: pytest.LogCaptureFixture
) -> None:
    handlers, began, goes_on = Handlers(), threading.Event(), threading.Event()

    @handlers.handler("resize")
    def resize(job: Job) -> str:
        began.set()
        goes_on.wait(60)
        return "done"

    # A claim on ZooKeeper ends with its session, and a busy machine takes seconds to start the server.
    is_zookeeper = store == "zookeeper"
    started = ZooKeeperServer("maxSessionTimeout=60000") if is_zookeeper else server_of(store)
    options = {"session_timeout": 60.0} if is_zookeeper else {}
    with started as server, backend("board", server.uri, patience=0.1, **options) as board:
        job = board.post("resize")
        conductor = Conductor("conductor", board, handlers, expiry=600)
        conductor.start()
        assert began.wait(60)
        server.kill()
        goes_on.set()
        eventually(lambda: "keeps 1 ends until the store is back" in caplog.text, within=60)
        server.start()
        assert job.get_result(60) == "done"
        assert job.attempts == 1
        assert conductor.stop(timeout=30)
