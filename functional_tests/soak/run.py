"""One soak from its start to its figures."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from histories.stores import STORES, Site

from jobboard import BoardUnavailable, Every, JobBoard, Posting, Schedule, fetch
from jobboard.testing import eventually

from . import diary

EXECUTORS = ("thread", "process", "asyncio")
_NAMES = ("succeed", "succeed", "fail", "resume")
_BOARD = "soak"
#: Seconds between two faults; their clients connect anew, which must leave nothing behind.
_FAULTS_EVERY = 20.0
_FAULTS = ("cut the lines", "restart a server", "failover")
#: Seconds until the board must be empty once nobody posts any more.
_EMPTY_WITHIN = 120.0
#: Jobs that wait, beyond which no more are posted: the machine is too slow for more.
_ENOUGH = 200


class Crew:
    """A process for each executor, with a conductor and a scheduler in each."""

    def __init__(self, site: Site, folder: Path) -> None:
        self._processes = {executor: self._launch(site, executor, folder) for executor in EXECUTORS}
        self._log = folder

    def _launch(self, site: Site, executor: str, folder: Path) -> subprocess.Popen[bytes]:
        settings = {"uri": site.uri, "board": _BOARD, "options": _options_of(site), "executor": executor}
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parent.parent),
            diary.VARIABLE: str(folder / "diary"),
        }
        with (folder / f"{executor}.log").open("ab") as log:
            command = [sys.executable, "-m", "soak.worker", json.dumps(settings)]
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def measure(self) -> dict[str, float]:
        """Return the memory, the open files and the threads of each process and its children."""
        figures: dict[str, float] = {}
        for executor, process in self._processes.items():
            assert process.poll() is None, (self._log / f"{executor}.log").read_text()[-3000:]
            main = psutil.Process(process.pid)
            family = [main, *main.children(recursive=True)]
            figures[f"{executor} MB"] = sum(member.memory_info().rss for member in family) / 1e6
            figures[f"{executor} files"] = sum(member.num_fds() for member in family)
            figures[f"{executor} threads"] = sum(member.num_threads() for member in family)
        return figures

    def stop(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _options_of(site: Site) -> dict[str, object]:
    return {"retention": 1.0, "expiry": 5.0, **site.options}


@dataclass(frozen=True)
class Soak:
    """What was measured, a hundred times over the run, and what broke a promise."""

    samples: list[dict[str, float]]
    violations: list[str]


def run(store: str, seconds: float, folder: Path, tell: Callable[[str], None], rate: float) -> Soak:
    """Let them work for the given time.

    :param rate: jobs posted a second.
    """
    posted: list[str] = []
    with STORES[store](folder) as site, fetch(_BOARD, site.calm_uri, **_options_of(site)) as board:
        for number in range(5):
            schedule = Schedule(f"every-{number}", Every(seconds=1), "tick", coalesce="all", max_instances=None)
            board.schedules.add(schedule)
        crew = Crew(site, folder)
        try:
            with (
                _in_background(lambda stop: _post(board, rate, posted, stop)),
                _in_background(lambda stop: _harm(site, stop)),
            ):
                samples = list(_samples(crew, site, seconds, tell))
            board.schedules.remove_all()
            eventually(lambda: _is_empty(board), within=_EMPTY_WITHIN, every=0.2)
        finally:
            crew.stop()
        trashed = [f"{job.uuid} is in the trash: {job.last_error}" for job in board.trashed()]
        found = [f"the audit found {finding}" for finding in board.audit()]
    return Soak(samples, [*trashed, *found, *diary.violations(folder / "diary", posted)])


def _is_empty(board: JobBoard) -> bool:
    try:
        return board.job_count == 0
    except BoardUnavailable:
        return False


def _samples(
    crew: Crew, site: Site, seconds: float, tell: Callable[[str], None]
) -> Iterator[dict[str, float]]:  # fmt: skip
    start, pause = time.monotonic(), threading.Event()
    while (past := time.monotonic() - start) < seconds:
        pause.wait(seconds / 100)
        sample = crew.measure()
        sample["store items"] = eventually(lambda: _items(site), within=60, every=0.2)
        tell(f"{past:.0f} of {seconds:.0f} s: " + ", ".join(f"{name} {value:.0f}" for name, value in sample.items()))
        yield sample


def _items(site: Site) -> int | None:
    """Count what the store holds; None while its server is being restarted, which each client says by its own error."""
    try:
        return sum(site.holds(_BOARD).values())
    except Exception:
        return None


@contextmanager
def _in_background(work: Callable[[threading.Event], None]) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _post(board: JobBoard, rate: float, posted: list[str], stop: threading.Event) -> None:
    numbers = random.Random(1)
    while not stop.wait(1.0):
        try:
            if board.stats().unclaimed < _ENOUGH:
                count = max(1, round(rate))
                # Conductors that wait are woken by single ones and by batches.
                posted.append(board.post("succeed", details={"n": count}).uuid)
                batch = [Posting(numbers.choice(_NAMES), details={"n": n}) for n in range(count)]
                posted += [job.uuid for job in board.post_many(batch)]
        except BoardUnavailable:
            continue  # the server is being restarted


def _harm(site: Site, stop: threading.Event) -> None:
    chance = random.Random(1)
    faults = [fault for kind, fault in sorted(site.disturbances.items()) if kind in _FAULTS]
    while faults and not stop.wait(_FAULTS_EVERY):
        chance.choice(faults)(0.5, chance.random())
