"""What a claim costs on a board with many jobs of many names and a full trash, beside one with a few jobs."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks.boards import time_of_claim
from benchmarks.figures import Figure
from benchmarks.space import Space
from jobboard import JobBoard, Posting

_NAMES, _JOBS_OF_NAME, _FEW = 10_000, 100, 60
_BATCH = 100
_ROUNDS = 300


def measure_crowd(store: str, space: Space, scale: float) -> Iterator[Figure]:
    """With up to a million jobs of 10,000 names waiting, and a tenth as many in the trash; claims in turn."""
    names = int(min(_NAMES, space.largest_backlog / _JOBS_OF_NAME) * scale) or 1
    with space.open("crowd") as crowd, space.open("few") as few:
        _fill_trash(crowd, names * _JOBS_OF_NAME // 10)
        for number in range(names):
            crowd.post_many([Posting(f"name-{number}") for _ in range(_JOBS_OF_NAME)])
        # Not at one moment, when Redis would have to compare the names' first jobs.
        for number in range(_FEW):
            few.post(f"name-{number}")
        waiting = f"{names * _JOBS_OF_NAME:,} jobs of {names:,} names"
        for asked in (None, 3, 50):
            wanted = asked and [f"name-{number}" for number in range(asked)]
            times: dict[JobBoard, list[float]] = {few: [], crowd: []}
            for _ in range(int(_ROUNDS * scale) or 1):
                for board, taken in times.items():
                    taken.append(time_of_claim(board, wanted))
            least, cost = (statistics.median(taken) for taken in times.values())
            what = f"claim_next of {asked or 'all'} names, {waiting}"
            yield Figure(store, what, cost * 1e6, "us", f"{_FEW} jobs", least * 1e6, cost / least)


def _fill_trash(board: JobBoard, count: int) -> None:
    for _ in range(0, count, _BATCH):
        board.post_many([Posting("broken") for _ in range(_BATCH)])
        for job in board.claim_next("bench", limit=_BATCH):
            board.trash(job, "bench")
