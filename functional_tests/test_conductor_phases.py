"""Conductors killed in each phase of a job, on every executor and every store: another one does it, exactly once.

Every pair of them would show no more: an executor knows nothing of the store, and the store nothing of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from harnesses import conductor_phases
from harnesses.conductor_phases import PHASES, handlers_for
from servers.durable_stores import Store, running

from jobboard import Conductor, Job, JobBoard, JobState, fetch
from jobboard.testing import eventually

pytestmark = pytest.mark.in_turn(2)

PAIRS = [
    ("sqlite", "thread"), ("sqlite", "process"), ("sqlite", "asyncio"), ("redis", "process"), ("etcd", "asyncio"),
    ("postgresql", "process"), ("mariadb", "thread"), ("zookeeper", "thread"),
]  # fmt: skip

#: Whose result each job has in the end; only one is left to chance.
DONE_BY = {phase: {"second"} for phase in PHASES} | {
    "while the end is sent": {"first", "second"},
    "after the end arrived": {"first"},
}


@pytest.fixture(scope="module")
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with running(request.param, tmp_path_factory.mktemp("store")) as store:
        yield store


@pytest.fixture
def board(store: Store) -> Iterator[JobBoard]:
    with fetch(f"phases-{uuid.uuid4()}", store.uri) as board:
        yield board


class Crew:
    """Conductors that die each in another phase, with all that they started, which has their mark."""

    def __init__(self, folder: Path) -> None:
        self._mark = str(folder)
        self._ends = folder / "ends"

    def die(self, store: Store, board: JobBoard, executor: str) -> dict[str, int]:
        """Return how each of them ended."""
        # Claims on ZooKeeper end with the session at the latest, and the default one is long.
        uri = f"{store.uri}?session_timeout={conductor_phases.EXPIRY}" if store.name == "zookeeper" else store.uri
        with self._ends.open("w") as ends:
            subprocess.run(
                [sys.executable, conductor_phases.__file__, uri, board.name, executor],
                env=os.environ | {"KILLED_CONDUCTORS": self._mark},
                stdout=ends,
                timeout=100,
                check=True,
            )
        return dict(json.loads(self._ends.read_text()))

    def left(self) -> list[psutil.Process]:
        """Return what still lives of them."""
        return [process for process in psutil.process_iter() if self._is_of_them(process)]

    def _is_of_them(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get("KILLED_CONDUCTORS") == self._mark
        except psutil.Error:
            return False


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path)
    yield crew
    for process in crew.left():
        with contextlib.suppress(psutil.Error):
            process.kill()


def check_end(board: JobBoard, job: Job) -> None:
    """One claim after the other was lost, and the last one ended."""
    found = board.get(job.uuid)
    record = found.record
    assert record.state is JobState.COMPLETE
    assert found.result in DONE_BY[job.name]
    # One, but for a machine that is so busy that the first conductor lost a claim before it died.
    lost = record.attempts - 1
    assert lost >= (found.result == "second")
    told = [(line.kind.value, (line.who or "").partition("@")[0]) for line in found.history]
    assert told == [
        ("POSTED", ""),
        *[("CLAIMED", "first"), ("EXPIRED", "first")] * lost,
        ("CLAIMED", found.result),
        ("CONSUMED", found.result),
    ]


@pytest.mark.parametrize(("store", "executor"), PAIRS, indirect=["store"])
def test_a_job_is_consumed_once_whatever_its_conductor_was_killed_in(
    store: Store, board: JobBoard, crew: Crew, executor: str
) -> None:
    jobs = {phase: board.post(phase) for phase in PHASES}
    assert crew.die(store, board, executor) == dict.fromkeys(PHASES, -signal.SIGKILL)
    handlers = handlers_for(executor, list(PHASES), "second")
    conductor = Conductor("second", board, handlers, executor=executor)
    conductor.start()
    try:
        assert next((phase for phase, job in jobs.items() if not job.wait(30)), None) is None
    finally:
        conductor.stop()
    for job in jobs.values():
        check_end(board, job)
    assert board.audit() == []
    eventually(lambda: not crew.left(), 20)
