"""What the peers' scripts share. Imported by a peer's own Python, under whatever that has: standard library only.

A script says by a :class:`System` how its library posts and which command runs one worker process, and calls
:func:`measure`. Its no-op calls :func:`ran`, its ping calls :func:`picked_up`; both tell the script by a datagram.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count as numbers
from typing import Any

_REPORTS, _COUNT, _EVERY = "BENCH_REPORTS", "BENCH_COUNT", "BENCH_EVERY"
_LONGEST = 120.0
_WARM_UP = 5
_BATCH = 100
#: A rate, in starts a second, that no worker reaches: what keeping it costs is measured, and not how long it lets wait.
_RATE = 1_000_000

_number = numbers(1)
_reporter: socket.socket | None = None


class System:
    """How a library does the work; a worker is a command, since each library has its own program for that."""

    #: Such as ``"rq 2.0"``.
    version: str
    #: Whether :meth:`post_many` is there.
    has_batches = False
    #: Whether :meth:`claim_and_consume` is there.
    has_pairs = False
    #: Whether :meth:`limit` is there.
    has_limits = False
    #: Whether :meth:`fan_in` is there.
    has_graphs = False

    def clean(self) -> None:
        """Leave nothing behind of earlier measurements."""
        raise NotImplementedError

    def post(self, count: int) -> None:
        """Post that many no-ops, one by one; each is in the store when the call for it has returned."""
        raise NotImplementedError

    def post_many(self, count: int) -> None:
        """Post that many no-ops in batches of 100, by what the library has for that."""
        raise NotImplementedError

    def claim_and_consume(self, count: int, batch: int) -> None:
        """Claim that many no-ops and end them, in batches of that size, by what a worker calls."""
        raise NotImplementedError

    def limit(self, running: int | None, rate: int | None) -> None:
        """Until the next clean let so many no-ops run at once, or start in a second, in all workers together."""
        raise NotImplementedError

    def fan_in(self, count: int) -> None:
        """Post that many no-ops and one job that waits for all of them, by what the library has for that."""
        raise NotImplementedError

    def ping(self, at: float) -> None:
        """Post one ping, which carries this moment."""
        raise NotImplementedError

    def worker(self) -> list[str]:
        """Return the command of one worker process that runs until SIGTERM."""
        raise NotImplementedError

    def look_for_each(self, count: int) -> None:
        """Look for the next job, claim it and consume it, that many times."""
        raise NotImplementedError

    def look_for_all(self, count: int) -> None:
        """Claim and consume that many jobs, one after the other as one look at the board shows them."""
        raise NotImplementedError


# -- in the worker -----------------------------------------------------------------------------------------------------


def ran() -> None:
    """Say that a no-op has run: of the first and the last one, or of each so many."""
    number = next(_number)
    every = os.environ.get(_EVERY)
    if number % int(every) == 0 if every else number in (1, int(os.environ[_COUNT])):
        _tell(time.time())


def picked_up(at: float) -> None:
    """Say that the ping of that moment is running."""
    _tell(time.time() - at)


def _tell(value: float) -> None:
    global _reporter
    if _reporter is None:
        _reporter = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        _reporter.connect(os.environ[_REPORTS])
    _reporter.send(repr(value).encode())


def forward(command: list[str]) -> None:
    """Be the worker of a library in another language, whose program prints a line for each value to tell."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        for line in program.stdout:
            _tell(float(line))


# -- in the script -----------------------------------------------------------------------------------------------------


class Reports:
    """Hears what the handlers say, in whatever process they run."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="jobboard-peer-")
        self.path = os.path.join(self._folder, "reports")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)

    def next(self, timeout: float = _LONGEST) -> float:
        self._socket.settimeout(timeout)
        return float(self._socket.recv(100))

    def waiting(self) -> int:
        """Hear what has been said by now, and return how often."""
        self._socket.settimeout(0)
        for heard in numbers(0):
            try:
                self._socket.recv(100)
            except BlockingIOError:
                return heard
        raise AssertionError("numbers have no end")

    def close(self) -> None:
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class Worker:
    """One worker process in a group of its own, which is gone when the block ends."""

    def __init__(self, command: list[str], reports: Reports, count: int, every: int = 0) -> None:
        environment = {**os.environ, _REPORTS: reports.path, _COUNT: str(count), _EVERY: str(every) if every else ""}
        self._process = subprocess.Popen(
            command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=_worker_log()
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()

    def cpu(self) -> float:
        """Return the seconds of CPU that its processes have had, in steps of a hundredth; Linux counts them."""
        ticks = 0
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(path) as file:
                    # The name of a program may have spaces; behind it come the state, the parent and the group.
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == self._process.pid:
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


def _worker_log() -> int | None:
    """Workers are noisy; ``BENCH_VERBOSE`` lets them be heard."""
    return None if os.environ.get("BENCH_VERBOSE") else subprocess.DEVNULL


def tell(what: str, value: float | str, unit: str = "") -> None:
    """Print one result for the runner."""
    print(json.dumps({"what": what, "value": value, "unit": unit}), flush=True)


def rate_of(work: Callable[[int], None], count: int) -> float:
    begin = time.perf_counter()
    work(count)
    return count / (time.perf_counter() - begin)


def measure(system: System, count: int, pings: int) -> None:
    """Measure rates with that many jobs, and that many pick-ups in an idle worker process; none of what is 0."""
    tell("version", system.version)
    system.clean()
    if count:
        measure_rates(system, count)
        system.clean()
    if pings:
        measure_pickup(system, pings)
        system.clean()


def measure_rates(system: System, count: int) -> None:
    """Post and end by batches and one by one, and drain by one worker process what was posted one by one."""
    if system.has_batches:
        tell("post in batches of 100", rate_of(system.post_many, count), "/s")
        if system.has_pairs:
            singles = max(1, count // 10)
            tell("claim and consume one by one", rate_of(lambda many: system.claim_and_consume(many, 1), singles), "/s")
            rest = count - singles
            tell("claim and consume in 100s", rate_of(lambda many: system.claim_and_consume(many, 100), rest), "/s")
        system.clean()
    tell("post one by one", rate_of(system.post, count), "/s")
    measure_drain(system, count)
    if system.has_limits:
        measure_limits(system, count)
    if system.has_graphs:
        system.clean()
        tell("add the parents of a job", rate_of(system.fan_in, count), "/s")
        measure_drain(system, count, what="drain of the parents of a job")


def measure_limits(system: System, count: int) -> None:
    """Drain by one worker process what may run one at a time, and what has a rate that doesn't bind."""
    for what, running, rate in (("drain, one at a time", 1, None), ("drain, under a rate", None, _RATE)):
        system.clean()
        system.limit(running, rate)
        system.post(count)
        measure_drain(system, count, what=what)


def measure_loops(system: System, count: int) -> None:
    """Work through what was posted by the loop that the library's guide has, in this process."""
    tell("version", system.version)
    for what, loop in (("a look for each job", system.look_for_each), ("a look for all jobs", system.look_for_all)):
        system.clean()
        system.post(count)
        tell(what, rate_of(loop, count), "/s")
    system.clean()


def measure_lives(system: System, rate: float, seconds: float) -> None:
    """Post in batches of 100 at this rate while one worker process runs; tell each second how many jobs have run."""
    system.clean()
    reports, done, posted, told = Reports(), 0, 0, 0.0
    try:
        with Worker(system.worker(), reports, 0, every=_BATCH):
            began = time.perf_counter()
            while (elapsed := time.perf_counter() - began) < seconds:
                if elapsed - told >= 1:
                    done, told = done + _BATCH * reports.waiting(), elapsed
                    tell("done", done)
                system.post_many(_BATCH)
                posted += _BATCH
                time.sleep(max(0.0, posted / rate - (time.perf_counter() - began)))
    finally:
        reports.close()


def measure_drain(system: System, count: int, what: str = "drain") -> None:
    """From the first handler's run to the last one's, so that no start of a process counts."""
    reports = Reports()
    try:
        with Worker(system.worker(), reports, count) as worker:
            first, spent = reports.next(), worker.cpu()
            tell(what, (count - 1) / (reports.next() - first), "/s")
            tell(f"{what}: CPU of the worker for a job", (worker.cpu() - spent) / count * 1e6, "us")
    finally:
        reports.close()


def measure_pickup(system: System, pings: int) -> None:
    """From before the call that posts to the start of the handler in another process, which waits for work."""
    reports, latencies = Reports(), []
    try:
        with Worker(system.worker(), reports, 0):
            for index in range(_WARM_UP + pings):
                system.ping(time.time())
                latencies.append(reports.next())
                # At no fixed distance from any polling.
                time.sleep(0.01 + index % 7 * 0.013)
    finally:
        reports.close()
    kept = sorted(latencies[_WARM_UP:])
    tell("pick-up p50", statistics.median(kept) * 1e3, "ms")
    tell("pick-up p99", kept[min(len(kept) - 1, int(len(kept) * 0.99))] * 1e3, "ms")


def main(
    make: Callable[[str], System], work: Callable[..., None], more: Callable[[Any], None] = lambda _system: None
) -> None:
    """Be a peer's script: work as its worker, or measure the loops, lives, or everything and then ``more``."""
    if sys.argv[1] == "work":
        work(*sys.argv[2:])
    elif sys.argv[1] == "loop":
        measure_loops(make(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1] == "live":
        # So that its worker ends too.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        measure_lives(make(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
    else:
        uri, count, pings = arguments()
        system = make(uri)
        measure(system, count, pings)
        more(system)


def arguments() -> tuple[str, int, int]:
    """Return what the runner says: the store's URI, the number of jobs, and that of pings."""
    uri, count, pings = sys.argv[1:4]
    return uri, int(count), int(pings)
