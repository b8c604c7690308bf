"""A conductor or a scheduler that works while the process forks: a child can start it and leaves the parent's alone."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from helpers.chores import handlers
from helpers.forks import FORKS, in_child

from jobboard import At, Conductor, Schedule, Scheduler, backend, scheduler
from jobboard.testing.deadline import DEADLINE, eventually


@FORKS
@pytest.mark.parametrize("executor", ["thread", "asyncio", "process"])
def test_a_conductor_does_not_work_in_a_child_until_it_is_started_there(executor: str) -> None:
    def work() -> None:
        assert (conductor.healthy, conductor.handled, conductor.unsent, conductor.wait(0)) == (False, 0, [], True)
        assert "stopped" in repr(conductor)
        board.connect()
        conductor.start()
        # In memory the child has a copy of the board, on which the parent does nothing.
        assert board.post("pid").wait(DEADLINE)
        assert conductor.healthy
        assert conductor.who != who
        assert conductor.stop(timeout=DEADLINE)
        assert conductor.healthy

    with backend("work", f"memory://forks-{executor}") as board:
        conductor = Conductor("worker", board, handlers, executor=executor)
        who = conductor.who
        with conductor:
            assert board.post("pid").wait(DEADLINE)
            assert in_child(work) == 0
            assert board.post("pid").wait(DEADLINE)
            assert (conductor.who, conductor.healthy, conductor.handled) == (who, True, 2)


@FORKS
def test_a_conductor_that_was_stopped_is_healthy_in_a_child() -> None:
    def work() -> None:
        assert conductor.healthy
        assert conductor.stop()

    with backend("work", "memory://forks-stopped") as board:
        conductor = Conductor("worker", board, handlers)
        assert in_child(work) == 0
        with conductor:
            pass
        assert in_child(work) == 0


#: A child that ends as programs end, which calls what they have registered for that.
ENDING = """
import os, sys
from helpers.chores import handlers
from jobboard import Conductor, fetch
from jobboard.testing import eventually

board = fetch("work", "memory://forks-ending")
board.connect()
conductor = Conductor("worker", board, handlers, executor="process")
conductor.start()
job = board.post("endure", {"until": sys.argv[1]})
eventually(lambda: job.checkpoint)
if not (pid := os.fork()):
    sys.exit()
os.waitpid(pid, 0)
open(sys.argv[1], "w").close()
print(job.get_result(60), job.attempts)
conductor.stop()
"""


def test_a_child_that_ends_kills_no_worker_of_its_parent(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    command = [sys.executable, "-W", "ignore", "-c", ENDING, str(tmp_path / "note")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "endured 1\n", done.stderr


@FORKS
def test_a_scheduler_does_not_work_in_a_child_until_it_is_started_there(monkeypatch: pytest.MonkeyPatch) -> None:
    # It must hear of the schedule, and not find it when it looks.
    monkeypatch.setattr(scheduler, "_MAX_SLEEP", 10 * DEADLINE)

    def work() -> None:
        assert not clock.healthy
        assert "stopped" in repr(clock)
        board.connect()
        clock.start()
        assert clock.healthy
        assert clock.who != who
        board.schedules.add(Schedule("once", At(datetime.now(UTC)), "pid"))
        eventually(lambda: board.job_count == 1)
        assert clock.stop(DEADLINE)
        assert clock.healthy

    with backend("work", "memory://forks-scheduler") as board, Scheduler(board) as clock:
        who = clock.who
        assert in_child(work) == 0
        assert (clock.who, clock.healthy) == (who, True)
