"""Opening and closing, many times, leaves nothing behind; and boards of two names share nothing."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jobboard.board import JobBoard, client_of
from jobboard.errors import BoardUnavailable, NotFound
from jobboard.events import EventKind, JobEvent
from jobboard.job import Job, Posting
from jobboard.logbook import LogBook
from jobboard.participants import Entity
from jobboard.states import JobState
from jobboard.testing.contract.case import LONG, Case, claim_one, numbers_of, uuids_of
from jobboard.testing.deadline import DEADLINE, eventually
from jobboard.testing.harness import Harness

SOME = str(uuids.uuid4())

#: Every public call of a board that sends a request, but connect and close.
CALLS: dict[str, Callable[[JobBoard, Job], Any]] = {
    "post": lambda board, job: board.post("resize"),
    "post_many": lambda board, job: board.post_many([Posting("resize")]),
    "cancel": lambda board, job: board.cancel(job),
    "cancel_by_key": lambda board, job: board.cancel_by_key("resize", "cat"),
    "cancel_by_lane": lambda board, job: board.cancel_by_lane("tenant:1"),
    "claim": lambda board, job: board.claim(job, "bob"),
    "claim_next": lambda board, job: board.claim_next("bob"),
    "extend": lambda board, job: board.extend(job, "alice"),
    "extend_many": lambda board, job: board.extend_many([job], "alice"),
    "consume": lambda board, job: board.consume(job, "alice"),
    "consume_many": lambda board, job: board.consume_many([job], "alice"),
    "abandon": lambda board, job: board.abandon(job, "alice"),
    "graph": lambda board, job: board.graph(job),
    "trash": lambda board, job: board.trash(job, "alice"),
    "keep": lambda board, job: board.keep("alice").__enter__(),
    "checkpoint": lambda board, job: board.checkpoint(job, "alice", 1),
    "wait": lambda board, job: next(iter(board.wait(60)), None),
    "iterjobs": lambda board, job: list(board.iterjobs()),
    "get": lambda board, job: board.get(job.uuid),
    "find": lambda board, job: board.find("resize", "k"),
    "find_owner": lambda board, job: board.find_owner(job),
    "job_count": lambda board, job: board.job_count,
    "stats": lambda board, job: board.stats(),
    "subscribe": lambda board, job: board.subscribe(print),
    "release": lambda board, job: board.release(job, reason="its host is gone"),
    "trashed": lambda board, job: list(board.trashed()),
    "run_now": lambda board, job: board.run_now(job),
    "signal": lambda board, job: board.signal(job, "go"),
    "reprioritize": lambda board, job: board.reprioritize(job, "low"),
    "restore": lambda board, job: board.restore(SOME),
    "purge": lambda board, job: board.purge(SOME),
    "pause": lambda board, job: board.pause(),
    "resume": lambda board, job: board.resume(),
    "paused": lambda board, job: board.paused(),
    "pauses": lambda board, job: board.pauses(),
    "audit": lambda board, job: board.audit(),
    "register_entity": lambda board, job: board.register_entity(Entity("conductor", "a")),
    "remove_entity": lambda board, job: board.remove_entity(Entity("conductor", "a")),
    "entities": lambda board, job: board.entities(),
    "save_book": lambda board, job: board.save_book(LogBook("journal")),
    "load_book": lambda board, job: board.load_book(SOME),
    "books": lambda board, job: list(board.books()),
    "destroy_book": lambda board, job: board.destroy_book(SOME),
    "job.state": lambda board, job: job.state,
    "job.history": lambda board, job: job.history,
    "job.expires_in": lambda board, job: job.expires_in(),
    "job.extend_expiry": lambda board, job: job.extend_expiry(5),
    "job.checkpoint_state": lambda board, job: job.checkpoint_state(1),
    "job.wait": lambda board, job: job.wait(60),
}


class LifecycleCases(Case):
    @pytest.mark.parametrize("call", CALLS)
    def test_after_close_every_call_raises(self, board: JobBoard, other: JobBoard, call: str) -> None:
        job = board.post("resize", key="k")
        board.claim(job, "alice", LONG)
        board.close()
        with pytest.raises(BoardUnavailable):
            CALLS[call](board, job)
        assert other.find_owner(job.uuid) == "alice"
        assert (other.job_count, other.paused(), other.entities()) == (1, set(), [])

    def test_a_board_that_was_never_connected_raises(self, harness: Harness) -> None:
        name = harness.fresh_name()
        board = JobBoard(name, harness.backend(name))
        assert board.connected is False
        with pytest.raises(BoardUnavailable):
            board.stats()
        board.close()

    def test_connect_and_close_twice_are_once(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.connect()
        assert board.connected is True
        assert board.get(job.uuid) == job
        board.close()
        board.close()
        assert board.connected is False

    def test_a_closed_board_can_be_connected_again(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice", LONG)
        board.close()
        other.post("resize")
        board.connect()
        assert (board.connected, board.job_count) == (True, 2)
        board.consume(job, "alice", token=token)
        assert job.state is JobState.COMPLETE

    def test_a_board_is_a_context_manager(self, harness: Harness, board: JobBoard) -> None:
        board.post("resize")
        client = JobBoard(board.name, harness.backend(board.name))
        for _ in range(2):
            with client as entered:
                assert entered is client
                assert client.job_count == 1
            assert client.connected is False

    def test_an_error_inside_the_with_block_closes_the_board(self, harness: Harness) -> None:
        name = harness.fresh_name()
        client = JobBoard(name, harness.backend(name))
        with pytest.raises(ZeroDivisionError), client:
            raise ZeroDivisionError
        assert client.connected is False

    def test_closing_one_client_leaves_the_others(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice", LONG)
        board.close()
        assert (other.connected, other.find_owner(job.uuid), other.job_count) == (True, "alice", 1)

    def test_jobs_outlive_their_client(self, harness: Harness, board: JobBoard) -> None:
        client = harness.board(board.name)
        client.post_many([Posting("resize", details={"n": n}) for n in range(12)])
        client.close()
        assert numbers_of(harness.board(board.name).iterjobs()) == list(range(12))

    def test_a_subscription_ends_with_the_close(self, board: JobBoard, other: JobBoard) -> None:
        received: list[JobEvent] = []
        unsubscribe = board.subscribe(received.append)
        board.close()
        board.connect()
        again: list[JobEvent] = []
        board.subscribe(again.append)
        other.post("resize")
        eventually(lambda: again)
        assert received == []
        unsubscribe()

    def test_closing_wakes_those_who_wait(self, harness: Harness) -> None:
        board, backend = harness.lossy_board()
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(lambda: list(board.wait()))
            assert backend.blocked.wait(DEADLINE)
            board.close()
            with pytest.raises(BoardUnavailable):
                waiting.result(DEADLINE)

    def test_connecting_and_closing_leave_no_threads_and_no_handles(self, harness: Harness, board: JobBoard) -> None:
        client = JobBoard(board.name, harness.backend(board.name))

        def use() -> None:
            with client:
                unsubscribe = client.subscribe(lambda event: None)
                client.post("resize")
                client.consume(claim_one(client), "alice")
                assert list(client.wait(0)) == []
                unsubscribe()

        harness.check_that_nothing_stays(use)

    def test_waiting_and_subscribing_leave_no_threads_and_no_handles(self, harness: Harness, board: JobBoard) -> None:
        def use() -> None:
            unsubscribe = board.subscribe(lambda event: None, [EventKind.POSTED])
            with client_of(board).waiter(frozenset(["resize"])) as waiter:
                waiter.interrupt()
                waiter.wait(60)
            assert list(board.wait(0, names=["resize"])) == []
            unsubscribe()

        harness.check_that_nothing_stays(use)

    def test_one_client_serves_many_threads(self, board: JobBoard) -> None:
        def work(number: int) -> int:
            posted = board.post(f"name {number}", details={"n": number})
            [claimed] = board.claim_next(f"worker {number}", [f"name {number}"], expiry=LONG)
            board.checkpoint(claimed, f"worker {number}", number)
            board.consume(claimed, f"worker {number}", number)
            result = board.get(posted.uuid).result
            assert isinstance(result, int)
            return result

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(work, range(40))) == list(range(40))
        assert board.job_count == 0


class NamespaceCases(Case):
    @pytest.mark.parametrize("suffix", ["2", "/", ":x", " ", "*", "_", "%", "/größe", "{a}"])
    def test_boards_of_two_names_share_nothing(self, harness: Harness, board: JobBoard, suffix: str) -> None:
        strange = harness.board(board.name + suffix)
        uuid = uuids.uuid4()
        mine = board.post("resize", key="k", details={"n": 1}, uuid=uuid)
        assert (strange.job_count, list(strange.iterjobs()), strange.claim_next("bob", limit=9)) == (0, [], [])
        with pytest.raises(NotFound):
            strange.get(mine.uuid)
        with pytest.raises(NotFound):
            strange.find("resize", "k")
        yours = strange.post("resize", key="k", details={"n": 2}, uuid=uuid)
        strange.pause()
        assert (board.paused(), board.get(uuid).details, strange.get(uuid).details) == (set(), {"n": 1}, {"n": 2})  # type: ignore[arg-type,unused-ignore]
        board.consume(claim_one(board), "alice")
        assert uuids_of(strange.iterjobs()) == [yours.uuid]
        assert (board.stats().unclaimed, strange.stats().unclaimed) == (0, 1)

    def test_the_trash_of_another_board_is_not_seen(self, harness: Harness, board: JobBoard) -> None:
        strange = harness.board()
        board.trash(board.post("resize"), by="an operator")
        assert (list(strange.trashed()), strange.stats().trashed) == ([], 0)

    @pytest.mark.parametrize("name", ["größe/{a}*", "with spaces", "x" * 255, "a:b:c", "..", "%s"])
    def test_any_text_can_be_the_name_of_a_board(self, harness: Harness, name: str) -> None:
        unique = (harness.fresh_name() + name)[:255] if name.isascii() else harness.fresh_name() + name
        board = harness.board(unique)
        job = board.post("resize")
        assert board.name == unique
        assert harness.board(unique).get(job.uuid) == job
