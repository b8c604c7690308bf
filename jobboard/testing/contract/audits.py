"""Audits while others audit and work: an audit reports only what is true, and a repair loses nothing."""

from __future__ import annotations

import random
import time

import pytest

from jobboard.backends.findings import AuditFinding
from jobboard.board import JobBoard
from jobboard.errors import AlreadyPosted, ClaimLost, NotFound
from jobboard.job import Job
from jobboard.testing.contract.case import LONG, Case, uuids_of
from jobboard.testing.contract.races import at_once
from jobboard.testing.harness import Harness

#: How many seconds the threads work, and how many threads work and audit.
_SECONDS, _WORKERS, _AUDITORS = 1.0, 4, 2

#: Long enough that some stores keep it outside of the record.
_LARGE = {"text": "x" * 5_000}


class AuditRaceCases(Case):
    @pytest.mark.parametrize("repair", [False, True])
    def test_audits_beside_work_find_nothing_and_lose_nothing(self, harness: Harness, repair: bool) -> None:
        first = harness.board(retention=0.05)
        workers = [_Worker(harness.board(first.name, retention=0.05), number) for number in range(_WORKERS)]
        auditors = [harness.board(first.name) for _ in range(_AUDITORS)]
        until = time.monotonic() + _SECONDS

        def audit(board: JobBoard) -> list[AuditFinding]:
            found = board.audit(repair=repair)
            while time.monotonic() < until:
                found += board.audit(repair=repair)
            return found

        outcomes = at_once(
            *(lambda worker=worker: worker.run(until) for worker in workers),
            *(lambda board=board: audit(board) for board in auditors),
        )
        assert outcomes == [[]] * len(outcomes)
        posted, ended = (set().union(*sets) for sets in zip(*((one.posted, one.ended) for one in workers), strict=True))
        assert {*uuids_of(first.iterjobs()), *uuids_of(first.trashed())} == posted - ended
        assert first.audit() == []


class _Worker:
    """Posts, claims, extends and ends jobs at random; knows what it posted, and what has left the board since."""

    def __init__(self, board: JobBoard, number: int) -> None:
        self._board, self._who, self._dice = board, f"worker {number}", random.Random(number)
        self.posted: set[str] = set()
        self.ended: set[str] = set()

    def run(self, until: float) -> list[AuditFinding]:
        while time.monotonic() < until:
            for step in (self._post, self._work, self._bring_back):
                try:
                    step()
                except (AlreadyPosted, ClaimLost, NotFound):
                    continue
        return []

    def _post(self) -> None:
        job = self._board.post(
            "resize",
            details=self._dice.choice([None, _LARGE]),
            key=str(self._dice.randrange(8)),
            if_exists=self._dice.choice(["keep", "replace"]),
            delay=self._dice.choice([None, 0.02]),
        )
        self.posted.add(job.uuid)

    def _work(self) -> None:
        expiry = self._dice.choice([0.03, LONG, LONG])
        for job in self._board.claim_next(self._who, limit=2, expiry=expiry):
            self._end(job)

    def _end(self, job: Job) -> None:
        board, who = self._board, self._who
        match self._dice.randrange(7):
            case 0:
                board.extend(job, who, LONG)
                board.consume(job, who)
                self.ended.add(job.uuid)
            case 1:
                board.checkpoint(job, who, _LARGE)
                board.consume(job, who, _LARGE)
                self.ended.add(job.uuid)
            case 2:
                board.abandon(job, who, delay=0.02, reason="it is busy")
            case 3:
                board.trash(job, who, reason="it is broken")
            case 4:
                board.release(job, reason="its host is gone")
            case _:
                board.abandon(job, who)

    def _bring_back(self) -> None:
        for job in self._board.trashed():
            if self._dice.random() < 0.3:
                self._board.purge(job.uuid)
                self.ended.add(job.uuid)
            else:
                self._board.restore(job.uuid)
