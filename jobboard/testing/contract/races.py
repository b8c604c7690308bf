"""Races between threads: one owner, consumed once, nothing lost (promises 1, 2 and 4)."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from jobboard.board import JobBoard
from jobboard.errors import ClaimLost, JobBoardError, NotFound, UnclaimableJob
from jobboard.job import Posting
from jobboard.states import JobState
from jobboard.testing.contract.case import LONG, SHORT, Case, claim_one, needs, per_shard, uuids_of
from jobboard.testing.harness import Harness

_Result = TypeVar("_Result")

THREADS, ROUNDS = 6, 10


def at_once(*works: Callable[[], _Result]) -> list[_Result | JobBoardError]:
    """Run all in threads that begin together; an error of the board is an outcome like any other."""
    begin = threading.Barrier(len(works))

    def run(work: Callable[[], _Result]) -> _Result | JobBoardError:
        begin.wait()
        try:
            return work()
        except JobBoardError as error:
            return error

    with ThreadPoolExecutor(len(works)) as threads:
        return list(threads.map(run, works))


def kinds_of(outcomes: Iterable[object]) -> Counter[type]:
    return Counter(type(outcome) for outcome in outcomes)


class RaceCases(Case):
    @pytest.fixture
    def boards(self, harness: Harness) -> list[JobBoard]:
        """A client for each thread."""
        first = harness.board()
        return [first] + [harness.board(first.name) for _ in range(THREADS - 1)]

    def test_of_many_claims_exactly_one_succeeds(self, boards: list[JobBoard]) -> None:
        def race() -> None:
            job = boards[0].post("resize")
            outcomes = at_once(*(lambda n=n: boards[n].claim(job.uuid, f"worker {n}", LONG) for n in range(THREADS)))
            assert kinds_of(outcomes) == {int: 1, UnclaimableJob: THREADS - 1}
            winner = next(n for n, outcome in enumerate(outcomes) if isinstance(outcome, int))
            assert boards[0].find_owner(job) == f"worker {winner}"
            assert job.attempts == 1

        for _ in range(ROUNDS):
            race()

    def test_of_many_consumes_of_one_claim_exactly_one_succeeds(self, boards: list[JobBoard]) -> None:
        def race() -> None:
            job = boards[0].post("resize")
            token = boards[0].claim(job, "alice", LONG)
            outcomes = at_once(
                *(lambda n=n: boards[n].consume(job.uuid, "alice", n, token=token) for n in range(THREADS))
            )
            assert kinds_of(outcomes) == {type(None): 1, ClaimLost: THREADS - 1}
            assert boards[0].get(job.uuid).result == outcomes.index(None)

        for _ in range(ROUNDS):
            race()

    def test_of_different_ends_of_one_claim_exactly_one_succeeds(self, boards: list[JobBoard]) -> None:
        def race() -> None:
            job = boards[0].post("resize")
            token = boards[0].claim(job, "alice", LONG)
            outcomes = at_once(
                lambda: boards[0].consume(job.uuid, "alice", token=token),
                lambda: boards[1].abandon(job.uuid, "alice", token=token, delay=LONG),
                lambda: boards[2].trash(job.uuid, "alice", token=token),
                lambda: boards[3].release(job.uuid, reason="its host is gone"),
            )
            assert sum(outcome is None for outcome in outcomes) == 1
            ended = (JobState.COMPLETE, JobState.DELAYED, JobState.TRASHED, JobState.UNCLAIMED)
            assert boards[0].get(job.uuid).record.state is ended[outcomes.index(None)]

        for _ in range(ROUNDS):
            race()

    @pytest.mark.parametrize("limit", [1, 7])
    def test_every_job_is_claimed_and_consumed_once_by_many(self, boards: list[JobBoard], limit: int) -> None:
        posted = boards[0].post_many([Posting("resize") for _ in range(150)])

        def drain(board: JobBoard, who: str) -> list[str]:
            done: list[str] = []
            while jobs := board.claim_next(who, limit=limit, expiry=LONG):
                assert board.consume_many(jobs, who) == [None] * len(jobs)
                done += uuids_of(jobs)
            return done

        outcomes = at_once(*(lambda n=n: drain(boards[n], f"worker {n}") for n in range(THREADS)))
        consumed = [uuid for done in outcomes if isinstance(done, list) for uuid in done]
        assert Counter(consumed) == Counter(uuids_of(posted))
        assert boards[0].job_count == 0

    def test_one_client_shared_by_threads_claims_every_job_once(self, board: JobBoard) -> None:
        posted = board.post_many([Posting("resize") for _ in range(60)])
        outcomes = at_once(
            *(lambda n=n: [job for _ in range(10) for job in board.claim_next(f"worker {n}")] for n in range(THREADS))
        )
        claimed = [job.uuid for jobs in outcomes if isinstance(jobs, list) for job in jobs]
        assert Counter(claimed) == Counter(uuids_of(posted))

    @per_shard
    def test_posts_of_many_clients_are_all_there_each_with_its_own_sequence(self, boards: list[JobBoard]) -> None:
        outcomes = at_once(
            *(lambda n=n: [boards[n].post("resize", details={"n": i}) for i in range(20)] for n in range(THREADS))
        )
        posted = [job for jobs in outcomes if isinstance(jobs, list) for job in jobs]
        assert len({job.sequence for job in posted}) == len(posted) == 20 * THREADS
        assert Counter(uuids_of(boards[0].iterjobs())) == Counter(uuids_of(posted))

    def test_of_a_cancel_and_a_claim_one_comes_first(self, boards: list[JobBoard]) -> None:
        def race() -> None:
            job = boards[0].post("resize")
            claimed, cancelled = at_once(
                lambda: boards[0].claim(job.uuid, "alice", LONG), lambda: boards[1].cancel(job.uuid)
            )
            if isinstance(claimed, NotFound):
                assert boards[0].job_count == 0
            else:
                assert (type(claimed), cancelled) == (int, False)
                assert boards[1].get(job.uuid).record.cancel_asked
                boards[0].consume(job.uuid, "alice")

        for _ in range(ROUNDS):
            race()

    def test_of_many_restores_exactly_one_succeeds(self, boards: list[JobBoard]) -> None:
        job = boards[0].post("resize")
        for _ in range(5):
            boards[0].trash(job, by="an operator")
            outcomes = at_once(*(lambda n=n: boards[n].restore(job.uuid).uuid for n in range(THREADS)))
            assert kinds_of(outcomes) == {str: 1, NotFound: THREADS - 1}
            assert uuids_of(boards[0].iterjobs()) == [job.uuid]

    @needs(expiry="time")
    def test_of_many_who_find_an_expired_claim_exactly_one_gets_it(self, boards: list[JobBoard]) -> None:
        job = boards[0].post("resize")
        boards[0].claim(job, "alice", SHORT)

        def take_over(board: JobBoard, who: str) -> int:
            while True:
                for taken in board.claim_next(who, expiry=LONG):
                    return taken.token or 0
                if board.find_owner(job.uuid) not in {None, "alice"}:
                    return 0

        outcomes = at_once(*(lambda n=n: take_over(boards[n], f"worker {n}") for n in range(THREADS)))
        assert [token for token in outcomes if token] == [boards[0].get(job.uuid).record.token]
        assert job.attempts == 2

    def test_random_work_of_many_loses_nothing_and_does_nothing_twice(self, boards: list[JobBoard]) -> None:
        posted = uuids_of(boards[0].post_many([Posting("resize") for _ in range(60)]))
        consumed: list[str] = []
        tokens: dict[str, list[int]] = {uuid: [] for uuid in posted}

        def work(board: JobBoard, number: int) -> None:
            dice, who = random.Random(number), f"worker {number}"
            while len(consumed) + board.stats().trashed < len(posted):
                for job in board.claim_next(who, limit=dice.randint(1, 3), expiry=LONG):
                    tokens[job.uuid].append(job.token or 0)
                    match dice.randrange(5):
                        case 0:
                            board.abandon(job, who)
                        case 1:
                            board.release(job, reason="its host is gone")
                        case 2 if board.stats().trashed < 10:
                            board.trash(job, who)
                        case _:
                            board.consume(job, who)
                            consumed.append(job.uuid)

        outcomes = at_once(*(lambda n=n: work(boards[n], n) for n in range(THREADS)))
        assert outcomes == [None] * THREADS
        trashed = uuids_of(boards[0].trashed())
        assert Counter(consumed + trashed) == Counter(posted)
        assert all(sorted(set(seen)) == sorted(seen) for seen in tokens.values())
        assert boards[0].audit() == []

    def test_a_pause_holds_against_claims_that_are_under_way(self, boards: list[JobBoard]) -> None:
        boards[0].post_many([Posting("resize") for _ in range(100)])

        def pause() -> None:
            claim_one(boards[1], "bob")
            boards[0].pause("resize")

        at_once(pause, *(lambda n=n: [boards[n].claim_next("worker", limit=2) for _ in range(3)] for n in (2, 3)))
        claimed = boards[0].stats().claimed
        assert boards[2].claim_next("worker", limit=9) == []
        assert boards[0].stats().claimed == claimed
