"""What the end of one of many parents costs, beside that of one of a few, and of a job that is nobody's parent."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from benchmarks.boards import claim_and_consume, post
from benchmarks.figures import Figure
from benchmarks.space import Space
from jobboard import JobBoard, Posting

_FEW, _MANY, _BATCH, _ROUNDS = 200, 5000, 10, 15


def measure_fan_in(store: str, space: Space, scale: float) -> Iterator[Figure]:
    """Post 200 and thousands of parents of one job, and plain jobs; end 10 of each in turn."""
    number = max(_FEW, int(_MANY * scale))
    with space.open("plain") as plain, space.open("few") as few, space.open("many") as many:
        boards = {"plain jobs": plain, "few": few, "many": many}
        post(plain, _ROUNDS * _BATCH, _BATCH)
        of_few, of_many = _time_of_posts(few, _FEW), _time_of_posts(many, number)
        ends: dict[str, list[float]] = {what: [] for what in boards}
        for _ in range(_ROUNDS):
            for what, board in boards.items():
                ends[what].append(_time_of_ends(board))
    beside = f"{_FEW} parents"
    label = f"post of {number:,} parents of a job, each"
    yield Figure(store, label, of_many * 1e6, "us", beside, of_few * 1e6, of_many / of_few)
    medians = {what: statistics.median(taken) for what, taken in ends.items()}
    for other, beside in (("few", f"of {_FEW} parents"), ("plain jobs", "of plain jobs")):
        label = f"claim and end of one of {number:,} parents"
        ratio = medians["many"] / medians[other]
        yield Figure(store, label, medians["many"] * 1e6, "us", beside, medians[other] * 1e6, ratio)


def _time_of_posts(board: JobBoard, count: int) -> float:
    """Return the seconds for each parent of one job."""
    parents = [Posting("part") for _ in range(count)]
    began = time.perf_counter()
    board.post_many([*parents, Posting("report", after=parents)])
    return (time.perf_counter() - began) / count


def _time_of_ends(board: JobBoard) -> float:
    """Return the seconds for each of a batch of claims and ends."""
    began = time.perf_counter()
    claim_and_consume(board, _BATCH, _BATCH)
    return (time.perf_counter() - began) / _BATCH
