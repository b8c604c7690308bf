"""Random graphs on the memory store, whose owners die, fail and come back: each child runs once, behind its parents.

``python tests/test_graph_seeds.py FIRST COUNT`` runs more seeds than the suite does.
"""

from __future__ import annotations

import random
import sys
from collections import Counter

import pytest

from jobboard import JobBoard, Posting
from jobboard.backends.address import Address
from jobboard.backends.memory import MemoryBackend
from jobboard.job import Job
from jobboard.states import JobState

_EXPIRY, _STEPS = 10.0, 2000


class _Run:
    """One seed: a graph, and owners that do to its jobs what owners do."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 1e9
        backend = MemoryBackend("seeds", Address.parse("memory://seeds"))
        # The stores of a process stay: ten thousand of them would be too many.
        backend.store.clear()
        backend.store.clock = lambda: self.now
        self.board = JobBoard("seeds", backend)
        self.board.connect()
        self.jobs = self._post()
        self.held: list[Job] = []
        self.ends: Counter[str] = Counter()

    def _post(self) -> dict[str, Job]:
        postings: list[Posting] = []
        for number in range(self.random.randint(2, 60)):
            some = self.random.sample(postings, self.random.randint(0, min(number, 8)))
            postings.append(Posting("job", after=some, lane=self.random.choice([None, None, "one"])))
        postings.append(Posting("last", after=postings.copy()))
        self.board.limits.set(lane="one", running=2)
        if self.random.random() < 0.5:
            self.random.shuffle(postings)
        return {job.uuid: job for job in self.board.post_many(postings)}

    def play(self) -> None:
        for _ in range(_STEPS):
            if sum(self.ends.values()) == len(self.jobs):
                break
            self.random.choice([self.claim, self.claim, self.end, self.end, self.fail, self.die, self.mend])()
        self.check_the_end()

    def claim(self) -> None:
        for job in self.board.claim_next("worker", limit=self.random.randint(1, 4), expiry=_EXPIRY):
            late = [parent.uuid for parent in job.parents() if not self.ends[parent.uuid]]
            assert late == [], f"{job.uuid} runs before its parents have ended"
            assert not self.ends[job.uuid]
            self.held.append(job)

    def _take(self) -> Job | None:
        return self.held.pop(self.random.randrange(len(self.held))) if self.held else None

    def end(self) -> None:
        job = self._take()
        if job is not None:
            self.board.consume(job, "worker", {"of": job.uuid})
            self.ends[job.uuid] += 1

    def fail(self) -> None:
        job = self._take()
        if job is not None:
            (self.board.trash if self.random.random() < 0.3 else self.board.abandon)(job, "worker", reason="bad luck")

    def die(self) -> None:
        """Let all owners die now and then."""
        if self.random.random() < 0.3:
            self.now += _EXPIRY + 1
            self.held.clear()

    def mend(self) -> None:
        for job in list(self.board.trashed()):
            self.board.restore(job.uuid)

    def check_the_end(self) -> None:
        assert set(self.ends.values()) == {1}
        assert len(self.ends) == len(self.jobs)
        assert {job.state for job in self.jobs.values()} == {JobState.COMPLETE}
        assert self.board.audit() == []
        [last] = [job for job in self.jobs.values() if job.name == "last"]
        assert sorted(parent.result["of"] for parent in last.parents()) == sorted(set(self.jobs) - {last.uuid})
        self.board.close()


def _play(seed: int) -> None:
    try:
        _Run(seed).play()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_each_child_runs_once_behind_its_parents(first: int) -> None:
    for seed in range(first, first + 20):
        _play(seed)


if __name__ == "__main__":
    begin, count = map(int, sys.argv[1:3])
    for number in range(begin, begin + count):
        _play(number)
    sys.stdout.write(f"{count} seeds from {begin}: each child ran once, behind its parents\n")
