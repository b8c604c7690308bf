"""Five scheduler processes on a real store, killed one after the other: each fire time is posted exactly once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from harnesses.fixtures import a_store
from servers.durable_stores import STORES, Store

from jobboard import AnyOf, BoardUnavailable, Cron, Every, JobBoard, Schedule, fetch
from jobboard.testing import eventually

pytestmark = pytest.mark.in_turn(2)

#: How long the schedules fire; ``JOBBOARD_CRASH_SECONDS=30`` for the long run.
SECONDS = float(os.environ.get("JOBBOARD_CRASH_SECONDS", "5"))
KILL_EVERY = max(1.0, SECONDS / 10)
SCHEDULERS = 5

#: What processes may take to start, and to catch up, on a machine that is busy with other things.
PATIENCE = 100.0

#: How far the schedulers' clocks are ahead; a short run tries the harder case only.
CLOCKS = {"clocks-2s-apart": (0.0, 2.0, 0.0, 2.0, 1.0)}
if SECONDS >= 30:
    CLOCKS["one-clock"] = (0.0,) * SCHEDULERS

Fire = tuple[str, datetime]


store = a_store(STORES)


@pytest.fixture
def board(store: Store) -> Iterator[JobBoard]:
    with fetch(f"crash-{uuid.uuid4()}", store.uri, expiry=2.0) as board:
        yield board


class Crew:
    """Scheduler processes of which any one may be killed and replaced; forked by one that has everything imported."""

    def __init__(self, uri: str, name: str, ahead: tuple[float, ...], folder: Path) -> None:
        command = [sys.executable, str(Path(__file__).parent / "harnesses" / "scheduler_process.py"), uri, name]
        self._ahead = ahead
        self.log = folder / "schedulers.log"
        with self.log.open("ab") as log:
            self._parent = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1
            )
        self._members = [self._tell(f"start {seconds}") for seconds in ahead]

    def _tell(self, line: str) -> int:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(f"{line}\n")
        return int(self._parent.stdout.readline())

    def kill_and_replace(self, number: int) -> None:
        os.kill(self._members[number], signal.SIGKILL)
        assert self._tell(f"wait {self._members[number]}") == -signal.SIGKILL
        self._members[number] = self._tell(f"start {self._ahead[number]}")

    def are_at_work(self, board: JobBoard) -> bool:
        """Whether all of them have come so far that operators see them."""
        try:
            seen = {entity.metadata["pid"] for entity in board.entities()}
        except BoardUnavailable:
            return False
        return set(self._members) <= seen

    def stop(self) -> list[int]:
        """End all in order; return what they ended with."""
        for member in self._members:
            os.kill(member, signal.SIGTERM)
        return [self._tell(f"wait {member}") for member in self._members]

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        # Closes its standard input, with which all end.
        self._parent.__exit__(None, None, None)


class Consumer:
    """Takes every job off the board as soon as it is there, so that one that is posted again would be a second one."""

    def __init__(self, board: JobBoard) -> None:
        self._board = board
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        #: By job, since one whose end could not be told in time is claimed again.
        self.fires: dict[str, Fire] = {}
        self.least_delay = float("inf")

    def _work(self) -> None:
        while not self._done.wait(0.02):
            try:
                jobs = self._board.claim_next("consumer", limit=100)
                for job in jobs:
                    assert job.schedule_id is not None
                    assert job.fire_time is not None
                    self.fires[job.uuid] = (job.schedule_id, job.fire_time)
                    self.least_delay = min(self.least_delay, time.time() - job.fire_time.timestamp())
                self._board.consume_many(jobs, "consumer")
            except BoardUnavailable:
                continue  # the server is being restarted

    def __enter__(self) -> Consumer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def schedules_from(first: datetime) -> list[Schedule]:
    """Return schedules that fire every second or nearly so, spread over the second."""
    end = first + timedelta(seconds=SECONDS)
    times = {"start": first, "end": end, "coalesce": "all", "max_instances": None}
    spread = [
        Schedule(f"every-{n}", Every(seconds=1, start=first + timedelta(seconds=n / 5)), "tick", **times)
        for n in range(5)
    ]
    twice = AnyOf(Every(seconds=2, start=first), Every(seconds=3, start=first))
    return [
        *spread,
        Schedule("cron", Cron("* * * * * *"), "tick", **times),
        Schedule("any", twice, "tick", **times),
        Schedule("jitter", Every(seconds=1, start=first), "tick", jitter=0.5, **times),
    ]


def expected_of(schedules: list[Schedule]) -> list[Fire]:
    """Return the fire times from the moment on at which each was added; on a busy machine that may be a later one."""
    expected = []
    for schedule in schedules:
        assert schedule.start is not None
        assert schedule.end is not None
        assert schedule.progress is not None
        added_at = datetime.fromtimestamp(schedule.progress.settled, UTC)
        found = schedule.trigger.next_fire_time(max(added_at, schedule.start - timedelta(microseconds=1)))
        while found is not None and found <= schedule.end:
            expected.append((schedule.id, found))
            found = schedule.trigger.next_fire_time(found)
    return expected


def crash(crew: Crew, store: Store, first: datetime) -> None:
    """Kill a process every few seconds near a fire time, and once in between the server."""
    chance, pause = random.Random(), threading.Event()
    kills = int(SECONDS / KILL_EVERY)
    for number in range(kills):
        # Kills come when they come: mostly while a step is taken, some time before and after as well.
        moment = first.timestamp() + number * KILL_EVERY + chance.choice((0.0, 0.2, 0.4, 0.6, 0.8))
        pause.wait(max(0.0, moment + chance.uniform(-0.02, 0.04) - time.time()))
        crew.kill_and_replace(chance.randrange(SCHEDULERS))
        if number == kills // 2 and store.restart is not None:
            store.restart()


def are_finished(board: JobBoard) -> bool:
    try:
        return all(schedule.state == "finished" for schedule in board.schedules) and board.job_count == 0
    except BoardUnavailable:
        return False


@pytest.mark.parametrize("ahead", CLOCKS.values(), ids=CLOCKS)
def test_each_fire_time_is_posted_exactly_once_whoever_dies(
    store: Store, board: JobBoard, tmp_path: Path, ahead: tuple[float, ...]
) -> None:
    with Crew(store.uri, board.name, ahead, tmp_path) as crew, Consumer(board) as consumer:
        eventually(lambda: crew.are_at_work(board), within=PATIENCE, every=0.1)
        # Late enough for all to be added before, and for those whose clocks are ahead.
        first = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2 + max(ahead))
        schedules = [board.schedules.add(schedule) for schedule in schedules_from(first)]
        crash(crew, store, first)
        eventually(lambda: are_finished(board) and crew.are_at_work(board), within=PATIENCE + SECONDS, every=0.1)
        assert crew.stop() == [0] * SCHEDULERS, crew.log.read_text()
    seen, expected = Counter(consumer.fires.values()), Counter(expected_of(schedules))
    assert (expected - seen, seen - expected) == (Counter(), Counter()), crew.log.read_text()
    progress = {schedule.id: schedule.progress for schedule in board.schedules}
    counts = Counter(id for id, _ in expected_of(schedules))
    assert {id: (made.runs, made.missed, made.skipped) for id, made in progress.items() if made} == {
        id: (count, 0, 0) for id, count in counts.items()
    }
    if board.capabilities.clock == "store":
        assert consumer.least_delay > 0
