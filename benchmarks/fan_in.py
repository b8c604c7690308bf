"""What the end of one of many parents costs, beside that of one of a few, and of a job that is nobody's parent."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from benchmarks.figures import Figure
from benchmarks.space import Space
from jobboard import JobBoard, Posting

_FEW, _MANY, _BATCH, _ROUNDS = 200, 5000, 10, 15


def measure_fan_in(store: str, space: Space, scale: float) -> Iterator[Figure]:
    """Post 200 and thousands of parents of one job, and plain jobs; end 10 of each in turn."""
    counts = {"plain jobs": 0, "few": _FEW, "many": max(_FEW, int(_MANY * scale))}
    posts: dict[str, float] = {}
    with space.open("plain") as plain, space.open("few") as few, space.open("many") as many:
        boards = {"plain jobs": plain, "few": few, "many": many}
        for what, board in boards.items():
            posts[what] = _time_of_posts(board, counts[what])
        ends: dict[str, list[float]] = {what: [] for what in boards}
        for _ in range(_ROUNDS):
            for what, board in boards.items():
                ends[what].append(_time_of_ends(board))
    beside = f"{_FEW} parents"
    label = f"post of {counts['many']:,} parents of a job, each"
    yield Figure(store, label, posts["many"] * 1e6, "us", beside, posts["few"] * 1e6, posts["many"] / posts["few"])
    medians = {what: statistics.median(taken) for what, taken in ends.items()}
    for other, beside in (("few", f"of {_FEW} parents"), ("plain jobs", "of plain jobs")):
        label = f"claim and end of one of {counts['many']:,} parents"
        ratio = medians["many"] / medians[other]
        yield Figure(store, label, medians["many"] * 1e6, "us", beside, medians[other] * 1e6, ratio)


def _time_of_posts(board: JobBoard, parents: int) -> float:
    """Return the seconds for each parent of one job; without any, plain jobs are posted."""
    postings = [Posting("part") for _ in range(parents or _ROUNDS * _BATCH)]
    began = time.perf_counter()
    board.post_many([*postings, *([Posting("report", after=postings)] if parents else [])])
    return (time.perf_counter() - began) / len(postings)


def _time_of_ends(board: JobBoard) -> float:
    """Return the seconds for each of a batch of claims and ends."""
    began = time.perf_counter()
    jobs = board.claim_next("bench", limit=_BATCH)
    if len(jobs) != _BATCH or any(board.consume_many(jobs, "bench")):
        raise AssertionError("a claim was lost in a benchmark")
    return (time.perf_counter() - began) / _BATCH
