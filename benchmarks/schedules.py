"""Schedules: many that are due at once, the look-up of what is due, and how late a fire is; beside APScheduler 3."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice

from benchmarks.apschedulers import time_of_burst_in_apscheduler
from benchmarks.figures import Figure, percentile
from benchmarks.space import Space
from jobboard import Every, JobBoard, Schedule, Scheduler
from jobboard.backends.rows import Verdict
from jobboard.schedules.planning import first_fire_time
from jobboard.schedules.progress import Progress
from jobboard.schedules.transitions import change_of

_LONGEST = 300.0
_AT_ONCE = 500


def measure_schedules(store: str, space: Space, scale: float) -> Iterator[Figure]:
    """Bursts, look-ups, lateness."""
    count = max(10, int(10_000 * scale))
    with space.open("burst") as board:
        took = _time_of_burst(board, count)
    figure = Figure(store, f"{count:,} schedules due at once, until all are posted", took, "s")
    beside = time_of_burst_in_apscheduler(space.uri, count)
    if beside is not None:
        theirs, version = beside
        figure = replace(figure, beside=version, limit=theirs, ratio=theirs / took)
    yield figure
    yield from _cost_of_look_ups(store, space, scale)
    with space.open("lateness") as board:
        late = sorted(_lateness(board, max(10, int(200 * scale))))
    for share in (0.5, 0.95):
        yield Figure(store, f"lateness of a fire, p{share * 100:.0f}", percentile(late, share) * 1e3, "ms")


def _time_of_burst(board: JobBoard, count: int) -> float:
    due = datetime.now(UTC) + timedelta(seconds=2 + count / 2_000)
    put(board, (Schedule(f"burst-{n:06}", Every(hours=1, start=due), "bench", {"n": n}) for n in range(count)))
    assert datetime.now(UTC) < due, "setting up took longer than until they are due"
    scheduler = Scheduler(board)
    scheduler.start()
    deadline = due.timestamp() + _LONGEST
    while board.job_count < count:
        assert time.time() < deadline, "not all were posted"
        time.sleep(0.02)
    took = time.time() - due.timestamp()
    scheduler.stop()
    assert board.job_count == count
    return took


def _cost_of_look_ups(store: str, space: Space, scale: float) -> Iterator[Figure]:
    """One is due among few, and among many."""
    sizes = [100, max(200, int(100_000 * scale))]
    times: dict[int, list[float]] = {size: [] for size in sizes}
    now = datetime.now(UTC)
    with ExitStack() as stack:
        boards = {size: stack.enter_context(space.open(f"due-among-{size}")) for size in sizes}
        for size, board in boards.items():
            later = now + timedelta(days=1)
            put(board, (Schedule(f"later-{n:06}", Every(days=1, start=later), "bench") for n in range(size - 1)))
            put(
                board, [Schedule("due", Every(days=365, start=now - timedelta(days=1)), "bench")], now.timestamp() - 2e5
            )
        for _ in range(int(500 * scale) or 1):
            for size, board in boards.items():
                times[size].append(_time_of_look_up(board))
    least = statistics.median(times[sizes[0]])
    for size in sizes:
        cost = statistics.median(times[size])
        yield Figure(
            store, f"finding 1 due among {size:,} schedules", cost * 1e6, "us", "among 100", least * 1e6, cost / least
        )


def _time_of_look_up(board: JobBoard) -> float:
    begin = time.perf_counter()
    due = board._backend.schedules.due(_AT_ONCE)
    took = time.perf_counter() - begin
    assert [row.id for row in due.rows] == ["due"]
    return took


def _lateness(board: JobBoard, count: int) -> list[float]:
    """A schedule that fires ten times a second, at no fixed distance from anything else."""
    start = datetime.now(UTC) + timedelta(seconds=1.5)
    often = Every(seconds=0.107, start=start)
    scheduler = Scheduler(board)
    scheduler.start()
    board.schedules.add(Schedule("often", often, "bench", coalesce="all", max_instances=None, max_runs=count))
    deadline = time.time() + _LONGEST
    while board.job_count < count:
        assert time.time() < deadline, "not all were posted"
        time.sleep(0.2)
    scheduler.stop()
    return [(job.created_on - job.fire_time).total_seconds() for job in board.iterjobs() if job.fire_time]


def put(board: JobBoard, schedules: Iterable[Schedule], since: float | None = None) -> None:
    """Add many schedules in large steps; as if they had been added at the moment ``since``."""
    now = time.time() if since is None else since
    left = iter(schedules)
    while part := list(islice(left, min(_AT_ONCE, board.capabilities.largest_step))):
        steps = [
            change_of(schedule, None, Progress(now, first_fire_time(schedule, now)), now, "added") for schedule in part
        ]
        assert set(board._backend.schedules.step(steps)) == {Verdict.DONE}
