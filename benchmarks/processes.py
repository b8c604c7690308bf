"""Draining by one conductor process and by two of them, in turn."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

from benchmarks.boards import post
from benchmarks.figures import Figure, compare
from benchmarks.space import Space

#: Says that it is connected, works when it is told to, and ends with its input.
_CONDUCTOR = """
import sys, time, jobboard
uri, name, cpu = sys.argv[1:]
handlers = jobboard.Handlers()
def compute(job):
    end = time.thread_time() + float(cpu)
    while time.thread_time() < end:
        pass
handlers.handler("bench")(compute if float(cpu) else lambda job: None)
with jobboard.backend(name, uri) as board:
    conductor = jobboard.Conductor("bench", board, handlers, concurrency=64)
    print("ready", flush=True)
    sys.stdin.readline()
    conductor.start()
    sys.stdin.readline()
    conductor.stop()
"""
_ROUNDS = 3
_LOOK_EVERY = 0.01


def measure_processes(store: str, space: Space, scale: float) -> Iterator[Figure]:
    """From the word to go until the board is empty; up to 20,000 no-op jobs."""
    if space.uri is None:
        return
    two, one, ratio = compare(lambda: drain_by(2, space, scale), lambda: drain_by(1, space, scale), _ROUNDS)
    yield Figure(store, "drain by 2 processes", two, "/s", "by 1", one, ratio)


def drain_by(processes: int, space: Space, scale: float, cpu: float = 0) -> float:
    """Return the jobs a second of this many processes, of 64 slots each.

    :param cpu: for how many seconds of a processor each job computes.
    """
    assert space.uri is not None
    count = int(min(20_000, space.largest_backlog / 50) * scale)
    with space.open(f"processes-{uuid.uuid4()}") as board:
        post(board, count, 1000)
        conductors = [
            subprocess.Popen(
                [sys.executable, "-c", _CONDUCTOR, space.uri, board.name, str(cpu)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for _ in range(processes)
        ]
        try:
            for conductor in conductors:
                assert conductor.stdout is not None
                conductor.stdout.readline()
            begin = time.perf_counter()
            for conductor in conductors:
                assert conductor.stdin is not None
                conductor.stdin.write("go\n")
                conductor.stdin.flush()
            while board.job_count:
                time.sleep(_LOOK_EVERY)
            return count / (time.perf_counter() - begin)
        finally:
            for conductor in conductors:
                conductor.communicate(timeout=30)
