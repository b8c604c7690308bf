"""Posting and claiming through the board, beside the store's own limit."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack

from benchmarks.figures import Figure, compare, rate
from benchmarks.space import Bare, Space
from jobboard import JobBoard, Posting

_NAME = "bench"
_ROUNDS = 5


def measure_rates(store: str, space: Space, scale: float) -> Iterator[Figure]:
    """Post and claim+consume, one by one and in batches."""
    many = space.batch
    sizes = ((1, int(1000 * scale), "one by one"), (many, int(5000 * scale), f"in batches of {many}"))
    for batch, count, label in sizes:
        size = max(batch, count - count % batch)
        with space.open(f"rates-{batch}") as board, space.bare() as bare:
            yield _rate_of_posts(store, board, bare, size, batch, label)
        with space.open(f"pairs-{batch}") as board, space.bare() as bare:
            yield _rate_of_pairs(store, board, bare, size, batch, label)
        if space.same is not None:
            with space.open(f"same-posts-{batch}") as board, space.same() as same:
                yield _rate_of_posts(store, board, same, size, batch, f"{label}, same requests")
            with space.open(f"same-{batch}") as board, space.same() as same:
                yield _rate_of_pairs(store, board, same, size, batch, f"{label}, same requests")
    yield from _server_cpu_of_pairs(store, space, size)


def _server_cpu_of_pairs(store: str, space: Space, size: int) -> Iterator[Figure]:
    """What a claim and its end take of the server, beside scripts that write the same and check next to nothing."""
    read, batch = space.server_cpu, space.batch
    if space.lean is None or read is None:
        return

    def cost(work: Callable[[], int]) -> float:
        begin = read()
        done = work()
        return (read() - begin) / done * 1e6

    with space.open("cpu-of-pairs") as board, space.lean() as lean:
        post(board, size * _ROUNDS, batch)
        lean.post(size * _ROUNDS, batch)
        ours, theirs, ratio = compare(
            lambda: cost(lambda: claim_and_consume(board, size, batch)),
            lambda: cost(lambda: lean.claim_and_consume(size, batch)),
            _ROUNDS,
        )
    what = f"server CPU a pair in batches of {batch}"
    yield Figure(store, what, ours, "us", lean.beside, theirs, ratio)


def _rate_of_posts(store: str, board: JobBoard, bare: Bare, size: int, batch: int, label: str) -> Figure:
    ours, limit, ratio = compare(
        lambda: rate(lambda: post(board, size, batch)), lambda: rate(lambda: bare.post(size, batch)), _ROUNDS
    )
    return Figure(store, f"post {label}", ours, "/s", bare.beside, limit, ratio)


def _rate_of_pairs(store: str, board: JobBoard, bare: Bare, size: int, batch: int, label: str) -> Figure:
    post(board, size * _ROUNDS, 100)
    bare.post(size * _ROUNDS, max(batch, 50))
    ours, limit, ratio = compare(
        lambda: rate(lambda: claim_and_consume(board, size, batch)),
        lambda: rate(lambda: bare.claim_and_consume(size, batch)),
        _ROUNDS,
    )
    return Figure(store, f"claim_next + consume {label}", ours, "/s", bare.beside, limit, ratio)


def measure_backlog(store: str, space: Space, scale: float) -> Iterator[Figure]:
    """The cost of claim_next with few and with many jobs waiting, measured in turn."""
    sizes = [
        size
        for size in (100, 10_000, 50_000, 100_000, 200_000, 1_000_000)
        if size <= space.largest_backlog * min(1.0, scale)
    ]
    times: dict[int, list[float]] = {size: [] for size in sizes}
    with ExitStack() as stack:
        boards = {size: stack.enter_context(space.open(f"backlog-{size}")) for size in sizes}
        for size, board in boards.items():
            post(board, size, 1000)
        for _ in range(int(200 * scale) or 1):
            for size, board in boards.items():
                times[size].append(time_of_claim(board))
    least = statistics.median(times[sizes[0]])
    for size in sizes:
        cost = statistics.median(times[size])
        what = f"claim_next with {size:,} waiting"
        yield Figure(store, what, cost * 1e6, "us", "with 100", least * 1e6, cost / least)


def time_of_claim(board: JobBoard, names: Collection[str] | None = None) -> float:
    """Return the seconds that a claim takes; the job is given back."""
    begin = time.perf_counter()
    (job,) = board.claim_next("bench", names)
    took = time.perf_counter() - begin
    board.abandon(job, "bench", counted=False)
    return took


def post(board: JobBoard, count: int, batch: int, name: str = _NAME) -> int:
    if batch == 1:
        for _ in range(count):
            board.post(name)
    else:
        for start in range(0, count, batch):
            board.post_many([Posting(name) for _ in range(min(batch, count - start))])
    return count


def claim_and_consume(board: JobBoard, count: int, batch: int) -> int:
    done = 0
    while done < count:
        jobs = board.claim_next("bench", limit=batch)
        if batch == 1:
            board.consume(jobs[0], "bench")
        elif any(board.consume_many(jobs, "bench")):
            raise AssertionError("a claim was lost in a benchmark")
        done += len(jobs)
    return done
