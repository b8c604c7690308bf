"""``board.keep``: what it does when the store is silent, when claims are short, and when ``on_lost`` misbehaves."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

from jobboard import BoardUnavailable, ClaimLost, Job, JobBoard, fetch
from jobboard.aio import AsyncJob, AsyncJobBoard
from jobboard.backends.address import Address
from jobboard.backends.memory import MemoryBackend
from jobboard.testing import eventually
from jobboard.testing.faults import LossyBackend

LONG = 600.0


@pytest.fixture
def lossy() -> LossyBackend:
    name = f"keeping-{uuid.uuid4()}"
    return LossyBackend(MemoryBackend(name, Address("memory")))


@pytest.fixture
def board(lossy: LossyBackend) -> Iterator[JobBoard]:
    with JobBoard(lossy.board, lossy) as board:
        yield board


def test_what_could_not_be_renewed_is_said(board: JobBoard, lossy: LossyBackend) -> None:
    job = board.post("resize")
    with board.keep("alice", LONG) as keeper:
        board.claim(job, "alice")
        lossy.lose("extend", "refused", times=1_000)
        keeper._renewer.renew_within(0.0)
        eventually(lambda: keeper.unrenewed == [job])
        lossy.heal()
        eventually(lambda: keeper.unrenewed == [])
        assert keeper.held == [job]
        eventually(lambda: keeper._renewer.held()[0].held_until > time.monotonic() + LONG / 2)


def test_a_store_that_is_silent_until_the_claim_is_over_loses_it(board: JobBoard, lossy: LossyBackend) -> None:
    lost: list[Job] = []
    job = board.post("resize")
    lossy.lose("extend", "refused", times=1_000)
    with board.keep("alice", 0.3, lost.append) as keeper:
        board.claim(job, "alice", 0.3)
        eventually(lambda: lost == [job])
        assert (keeper.held, keeper.unrenewed) == ([], [])


def test_a_claim_that_is_over_by_the_clock_is_held_no_more(board: JobBoard) -> None:
    """Also before the keeper's thread has noticed, as after a pause of the whole process."""
    job = board.post("resize")
    with board.keep("alice", LONG) as keeper:
        board.claim(job, "alice")
        assert keeper.held == [job]
        keeper._renewer.held()[0].held_until = time.monotonic()
        assert keeper.held == []


def test_a_claim_for_less_than_the_keepers_expiry_is_renewed_in_time(board: JobBoard) -> None:
    job = board.post("resize")
    with board.keep("alice", LONG) as keeper:
        board.claim(job, "alice", 6.0)
        assert keeper._renewer._next <= time.monotonic() + 2.0


def test_a_claim_that_never_ends_stays_so_and_its_loss_is_told(board: JobBoard) -> None:
    lost: list[Job] = []
    job = board.post("resize")
    with board.keep("alice", 30.0, lost.append) as keeper:
        board.claim(job, "alice", float("inf"))
        keeper._renewer.renew_within(0.0)
        board.post("other")
        [second] = board.claim_next("alice")
        eventually(lambda: keeper._renewer._next - time.monotonic() > 1)
        assert job.expires_in() == float("inf")
        board.release(job, reason="enough")
        eventually(lambda: lost == [job])
        assert keeper.held == [second]


def test_a_fault_of_on_lost_stops_nothing_and_it_may_stop_the_keeper(board: JobBoard) -> None:
    told = threading.Semaphore(0)
    jobs = [board.post("resize") for _ in range(3)]

    def on_lost(job: Job) -> None:
        told.release()
        if job == jobs[1]:
            keeper.stop()
        raise ZeroDivisionError

    keeper = board.keep("alice", LONG, on_lost)
    with keeper:
        board.claim_next("alice", limit=3)
        for job in jobs[:2]:
            board.release(job, reason="enough")
            assert told.acquire(timeout=30)
        board.release(jobs[2], reason="enough")
        with pytest.raises(ClaimLost):
            board.consume(jobs[2], "alice")
    assert not told.acquire(blocking=False)
    with pytest.raises(ValueError, match="was stopped"):
        keeper.__enter__()


def test_a_newer_claim_of_the_same_job_is_kept_and_the_older_is_lost_once(board: JobBoard) -> None:
    lost: list[int | None] = []
    job = board.post("resize")
    with board.keep("alice", LONG, lambda job: lost.append(job.token)) as keeper:
        first = board.claim(job, "alice")
        board.release(job, reason="enough")
        second = board.claim(job, "alice")
        eventually(lambda: lost == [first])
        assert [job.token for job in keeper.held] == [second]


def test_a_claim_whose_end_was_sent_is_not_lost(board: JobBoard, lossy: LossyBackend) -> None:
    lost: list[Job] = []
    job = board.post("resize")
    with board.keep("alice", LONG, lost.append) as keeper:
        board.claim(job, "alice")

        def renew() -> None:
            keeper._renewer.renew_within(0.0)
            eventually(lambda: keeper.held == [])

        lossy.lose("consume", "reply", meanwhile=renew)
        board.consume(job, "alice")
    assert lost == []


def test_after_its_end_it_has_no_thread_and_no_subscription(
    board: JobBoard, lossy: LossyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, listen = list[bool](), lossy.inner.listen

    def noted(*arguments: Any) -> Callable[[], None]:
        unlisten = listen(*arguments)
        return lambda: (ended.append(True), unlisten())[1]

    monkeypatch.setattr(lossy.inner, "listen", noted)
    with board.keep("alice") as keeper:
        assert keeper._renewer._thread.is_alive()
    assert (keeper._renewer._thread.is_alive(), ended) == (False, [True])


def test_what_a_signals_handler_raises_at_the_end_leaves_no_renewal(
    board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), board.keep("alice", LONG) as keeper:
        monkeypatch.setattr(keeper._client.keepers, "remove", interrupted)
    eventually(lambda: not keeper._renewer._thread.is_alive())


def test_wrong_arguments_are_told_before_anything_begins(board: JobBoard) -> None:
    for wrong in ({"who": ""}, {"who": "alice", "expiry": 0}):
        with pytest.raises(ValueError, match="must"):
            board.keep(**wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="on_lost must be callable"):
        board.keep("alice", on_lost=7)  # type: ignore[arg-type]
    keeper = board.keep("alice")
    board.close()
    with pytest.raises(BoardUnavailable, match="is closed"):
        keeper.__enter__()


def test_asyncio_is_told_in_its_event_loop() -> None:
    async def work() -> None:
        loop_thread, lost = threading.get_ident(), list[tuple[AsyncJob, int]]()
        async with AsyncJobBoard(fetch("kept", "memory://")) as board:
            job = await board.post("resize")

            async def wrong(job: AsyncJob) -> None: ...

            with pytest.raises(TypeError, match="plain function"):
                board.keep("alice", on_lost=wrong)
            async with board.keep("alice", LONG, lambda job: lost.append((job, threading.get_ident()))) as keeper:
                await board.claim(job, "alice")
                assert keeper.held == [job]
                await board.release(job, reason="enough")
                with anyio.fail_after(30):
                    while not lost:
                        await anyio.sleep(0.01)
                assert (lost, keeper.held, keeper.unrenewed) == ([(job, loop_thread)], [], [])

    anyio.run(work)
