"""The board itself, measured in the same way as its peers."""

from __future__ import annotations

import importlib.metadata
import sys
from itertools import islice

from measuring import System, main, picked_up, ran

import jobboard

_SLOTS = 64
_WHO = "bench"
#: The lane of no-ops that have a limit, and how many of them may start together under a rate.
_LANE, _BURST = "bench", 1000


class Jobboard(System):
    version = f"jobboard {importlib.metadata.version('jobboard')}"
    has_batches = has_pairs = has_limits = has_graphs = True

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._generation = 0
        self._lane: str | None = None
        self._board: jobboard.JobBoard | None = None

    def clean(self) -> None:
        if self._board is not None:
            self._board.close()
        self._generation += 1
        self._lane = None
        self._board = jobboard.fetch(f"peers-{self._generation}", self._uri)
        self._board.connect()

    @property
    def board(self) -> jobboard.JobBoard:
        assert self._board is not None
        return self._board

    def post(self, count: int) -> None:
        for _ in range(count):
            self.board.post("no-op", lane=self._lane)

    def post_many(self, count: int) -> None:
        for _ in range(0, count, 100):
            self.board.post_many([jobboard.Posting("no-op") for _ in range(100)])

    def claim_and_consume(self, count: int, batch: int) -> None:
        done = 0
        while done < count:
            jobs = self.board.claim_next(_WHO, limit=min(batch, count - done))
            if batch == 1:
                self.board.consume(jobs[0], _WHO)
            else:
                self.board.consume_many(jobs, _WHO)
            done += len(jobs)

    def limit(self, running: int | None, rate: int | None) -> None:
        self._lane = _LANE
        starts = None if rate is None else jobboard.Rate(rate, per=1, burst=_BURST)
        self.board.limits.set(lane=_LANE, running=running, rate=starts)

    def fan_in(self, count: int) -> None:
        parents = [jobboard.Posting("no-op") for _ in range(count)]
        self.board.post_many([*parents, jobboard.Posting("report", after=parents)])

    def ping(self, at: float) -> None:
        self.board.post("ping", details={"at": at})

    def look_for_each(self, count: int) -> None:
        for _ in range(count):
            job = next(self.board.wait())
            self.board.claim(job, _WHO)
            self.board.consume(job, _WHO)

    def look_for_all(self, count: int) -> None:
        for job in islice(self.board.wait(), count):
            self.board.claim(job, _WHO)
            self.board.consume(job, _WHO)

    def worker(self) -> list[str]:
        return [sys.executable, __file__, "work", self.board.name, self._uri]


def work(name: str, uri: str) -> None:
    handlers = jobboard.Handlers()
    handlers.handler("no-op")(lambda job: ran())
    handlers.handler("ping")(lambda job: picked_up(job.details["at"]))
    with jobboard.backend(name, uri) as board:
        jobboard.Conductor("bench", board, handlers, concurrency=_SLOTS).run()


if __name__ == "__main__":
    main(Jobboard, work)
