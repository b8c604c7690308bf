"""Threads that share requests (``gather=True``): nobody gets another's answer, and nobody waits for ever."""

from __future__ import annotations

import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
from helpers.embedded import MemoryHarness
from helpers.forks import FORKS, in_child
from helpers.gates import Gate

from jobboard import Job, JobBoard, JobState, Posting, fetch
from jobboard.client.gathering import ThreadGatherer
from jobboard.errors import AlreadyPosted, BoardUnavailable, ClaimLost, JobBoardError, ReplyLost, RequestRefused
from jobboard.testing import LossyBackend, eventually

THREADS = 9


@pytest.fixture
def client() -> Iterator[tuple[JobBoard, LossyBackend]]:
    with MemoryHarness() as harness:
        yield harness.lossy_board(gather=True)


def together(
    board: JobBoard,
    gate: Gate,
    first: Callable[[], Any],
    calls: list[Callable[[], Any]],
    meanwhile: Callable[[], Any] = lambda: None,
) -> list[Any]:
    """Make one call, and the others while it is under way; return what those returned or raised."""
    with ThreadPoolExecutor(len(calls) + 1) as threads:
        threads.submit(first)
        try:
            assert gate.entered.wait(30)
            gatherer = gatherer_of(board)
            answers = [threads.submit(call) for call in calls]
            eventually(lambda: len(gatherer._queue) == len(calls), 30)
            meanwhile()
        finally:
            gate.opened.set()
        wait(answers)
    return [answer.exception() or answer.result() for answer in answers]


def posts(board: JobBoard, **options: Any) -> list[Callable[[], Job]]:
    return [lambda n=n: board.post("resize", details={"n": n}, **options) for n in range(THREADS)]  # type: ignore[misc]


def test_calls_that_come_during_a_request_share_the_next_one(client: tuple[JobBoard, LossyBackend]) -> None:
    board, lossy = client
    gate = Gate(lossy, "post")
    jobs = together(board, gate, lambda: board.post("resize"), posts(board))
    assert gate.sizes == [1, THREADS]
    assert [job.details for job in jobs] == [{"n": n} for n in range(THREADS)]
    assert {job.uuid for job in board.iterjobs()} > {job.uuid for job in jobs}


def gatherer_of(board: JobBoard) -> ThreadGatherer:
    (gatherer,) = board._client._gatherers.values()
    return gatherer


def test_threads_that_were_answered_together_ask_together_again(client: tuple[JobBoard, LossyBackend]) -> None:
    board, lossy = client
    gate = Gate(lossy, "post")
    together(board, gate, lambda: board.post("resize"), posts(board))
    gatherer = gatherer_of(board)
    assert gatherer._expected == THREADS
    gatherer._expected_until = time.monotonic() + 60
    with ThreadPoolExecutor(THREADS) as threads:
        early = [threads.submit(call) for call in posts(board)[1:]]
        eventually(lambda: len(gatherer._queue) == THREADS - 1, 30)
        board.post("resize")
        wait(early)
    assert gate.sizes == [1, THREADS, THREADS]


def test_who_expects_others_waits_only_for_a_while(client: tuple[JobBoard, LossyBackend]) -> None:
    board, lossy = client
    gate = Gate(lossy, "post")
    together(board, gate, lambda: board.post("resize"), posts(board))
    gatherer_of(board)._expected_until = time.monotonic() + 0.01
    board.post("resize")
    assert gate.sizes == [1, THREADS, 1]
    assert gatherer_of(board)._expected == 1


def test_who_is_interrupted_while_it_expects_others_leaves_that_to_the_next(
    client: tuple[JobBoard, LossyBackend],
) -> None:
    board, _ = client
    board.post("resize")
    gatherer, main = gatherer_of(board), threading.get_ident()
    gatherer._expected, gatherer._expected_until = 3, time.monotonic() + 60

    def interrupt(*_: Any) -> None:
        gatherer._expected = 1
        raise KeyboardInterrupt

    def post_later() -> Job:
        eventually(lambda: len(gatherer._queue) == 1, 30)
        return board.post("resize")

    def end_wait() -> None:
        eventually(lambda: len(gatherer._queue) == 2, 30)
        signal.pthread_kill(main, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with ThreadPoolExecutor(2) as threads:
            other = threads.submit(post_later)
            threads.submit(end_wait)
            with pytest.raises(KeyboardInterrupt):
                board.post("withdrawn")
            assert other.result(30).state is JobState.UNCLAIMED
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert {job.name for job in board.iterjobs()} == {"resize"}


def test_every_call_that_takes_one_item_is_gathered(client: tuple[JobBoard, LossyBackend]) -> None:
    board, _ = client
    board.post_many([Posting("resize") for _ in range(5)])
    extended, consumed, abandoned, trashed, cancelled = board.claim_next("alice", limit=5)
    board.extend(extended, "alice", 60)
    board.consume(consumed, "alice")
    board.abandon(abandoned, "alice")
    board.trash(trashed, "alice")
    board.cancel(cancelled)
    gathered = {primitive.__name__ for primitive in board._client._gatherers}
    assert gathered == {"extend", "consume", "abandon", "trash", "cancel"}


@pytest.mark.parametrize("fault", ["reply", "request"])
def test_a_lost_reply_of_a_shared_post_posts_each_once(client: tuple[JobBoard, LossyBackend], fault: Any) -> None:
    board, lossy = client
    gate = Gate(lossy, "post")
    jobs = together(board, gate, lambda: board.post("first"), posts(board), lambda: lossy.lose("post", fault))
    assert not lossy.armed
    assert [job.details for job in jobs] == [{"n": n} for n in range(THREADS)]
    assert {job.uuid for job in board.iterjobs(names=["resize"])} == {job.uuid for job in jobs}
    assert board.job_count == THREADS + 1


@pytest.mark.parametrize("fault", ["reply", "request"])
def test_a_lost_reply_of_shared_ends_succeeds_for_each(client: tuple[JobBoard, LossyBackend], fault: Any) -> None:
    board, lossy = client
    board.post_many([Posting("resize") for _ in range(THREADS + 1)])
    first, *rest = board.claim_next("alice", limit=THREADS + 1)
    gate = Gate(lossy, "consume")
    calls = [lambda job=job: board.consume(job, "alice", result=job.uuid) for job in rest]  # type: ignore[misc]
    answers = together(board, gate, lambda: board.consume(first, "alice"), calls, lambda: lossy.lose("consume", fault))
    assert answers == [None] * THREADS
    assert [job.result for job in rest] == [job.uuid for job in rest]
    assert not lossy.armed


def test_a_taken_key_fails_only_its_own_post(client: tuple[JobBoard, LossyBackend]) -> None:
    board, lossy = client
    board.post("resize", key="1")
    gate = Gate(lossy, "post")
    keyed = [lambda n=n: board.post("resize", key=str(n)) for n in range(3)]
    zero, one, two = together(board, gate, lambda: board.post("resize"), keyed)  # type: ignore[arg-type]
    assert (zero.key, type(one), two.key) == ("0", AlreadyPosted, "2")
    assert gate.sizes == [1, 3, 1, 1, 1]


def test_an_item_that_the_store_refuses_fails_only_its_own_call(client: tuple[JobBoard, LossyBackend]) -> None:
    board, lossy = client
    gate = Gate(lossy, "post")
    call = gate._call

    def refuse(items: Any) -> Any:
        if any(item.name == "bad" for item in items):
            raise ValueError("not this one")
        return call(items)

    gate._call = refuse
    good, bad = together(
        board, gate, lambda: board.post("first"), [lambda: board.post("good"), lambda: board.post("bad")]
    )
    assert (good.name, str(bad)) == ("good", "not this one")


def test_each_caller_has_an_error_of_its_own(client: tuple[JobBoard, LossyBackend]) -> None:
    board, lossy = client
    gate = Gate(lossy, "post")
    call = gate._call

    def refuse(items: Any) -> Any:
        if len(items) > 1:
            raise BoardUnavailable("out of order")
        return call(items)

    gate._call = refuse
    away = lambda: lossy.lose("read", "refused", times=1000)  # noqa: E731
    errors = together(board, gate, lambda: board.post("first"), posts(board), away)
    assert {type(error) for error in errors} == {BoardUnavailable}
    assert len({id(error) for error in errors}) == THREADS


@pytest.mark.parametrize("error", [RequestRefused, BoardUnavailable, ReplyLost])
def test_refused_ends_fail_only_their_own_calls(
    client: tuple[JobBoard, LossyBackend], error: type[BoardUnavailable]
) -> None:
    board, lossy = client
    board._client.patience = 0.05
    board.post_many([Posting("resize") for _ in range(THREADS + 1)])
    first, *rest = board.claim_next("alice", limit=THREADS + 1)
    refused = [rest[0], rest[4], rest[8]]
    gate = Gate(lossy, "consume")
    calls = [lambda job=job: board.consume(job, "alice") for job in rest]  # type: ignore[misc]
    refuse = lambda: lossy.refuse([job.uuid for job in refused], error)  # noqa: E731
    answers = together(board, gate, lambda: board.consume(first, "alice"), calls, refuse)
    assert [job for job, answer in zip(rest, answers, strict=True) if answer is not None] == refused
    assert {type(answer) for answer in answers if answer is not None} == {error}
    assert gate.sizes == [1] * (1 + THREADS - 3), "the shared request was refused, and so was that of each of the three"


def test_two_ends_of_one_claim_share_no_request_and_one_succeeds(client: tuple[JobBoard, LossyBackend]) -> None:
    board, lossy = client
    board.post_many([Posting("resize"), Posting("resize")])
    first, second = board.claim_next("alice", limit=2)
    gate = Gate(lossy, "consume")
    end = [lambda: board.consume(second.uuid, "alice", token=second.token)] * 2
    answers = together(board, gate, lambda: board.consume(first, "alice"), end)  # type: ignore[arg-type]
    assert Counter(type(answer) for answer in answers) == {type(None): 1, ClaimLost: 1}
    assert gate.sizes == [1, 1, 1]


def test_what_is_large_shares_no_request(client: tuple[JobBoard, LossyBackend]) -> None:
    board, lossy = client
    gate = Gate(lossy, "post")
    large = [lambda: board.post("resize", details={"text": "x" * 100_000})] * 5
    together(board, gate, lambda: board.post("resize"), large)  # type: ignore[arg-type]
    assert gate.sizes == [1, 2, 2, 1]


def test_an_interrupted_sender_leaves_the_others_an_error_and_the_next_ones_an_answer(
    client: tuple[JobBoard, LossyBackend],
) -> None:
    board, lossy = client
    gate = Gate(lossy, "post")
    call, interrupted = gate._call, threading.Event()

    def interrupt(items: Any) -> Any:
        if len(items) > 1 and not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt
        return call(items)

    gate._call = interrupt
    answers = together(board, gate, lambda: board.post("first"), posts(board))
    assert Counter(type(answer) for answer in answers) == {KeyboardInterrupt: 1, ReplyLost: THREADS - 1}
    assert board.post("later").state is JobState.UNCLAIMED


@FORKS
def test_a_child_forked_during_a_request_waits_for_no_thread_of_its_parent(
    client: tuple[JobBoard, LossyBackend],
) -> None:
    board, lossy = client
    gate, ends = Gate(lossy, "post"), []

    def post() -> None:
        with pytest.raises(BoardUnavailable, match=r"opened by another process; call connect\(\) in this one"):
            board.post("of a child")

    together(board, gate, lambda: board.post("resize"), posts(board), lambda: ends.append(in_child(post)))
    assert ends == [0]
    assert board.job_count == 1 + THREADS


def test_many_threads_get_their_own_answers(client: tuple[JobBoard, LossyBackend]) -> None:
    board, _ = client

    def live(number: int) -> JobBoardError | None:
        for turn in range(20):
            job = board.post("resize", details={"n": [number, turn]})
            assert job.details == {"n": [number, turn]}
            board.claim(job, f"w{number}")
            board.consume(job, f"w{number}", result=[number, turn])
            assert job.result == [number, turn]
        return None

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(live, range(8))) == [None] * 8


def test_a_call_in_a_transaction_goes_alone(tmp_path: Path) -> None:
    with fetch("work", f"sqlite:///{tmp_path / 'jobs.db'}", gather=True) as board:
        connection = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        board.post("resize", connection=connection)
        assert not board._client._gatherers
        connection.execute("ROLLBACK")
        connection.close()
        assert board.job_count == 0
