"""Two engines of one flow: what TaskFlow documents and never prevents, and what stops the late one here.

An engine is stopped (SIGSTOP) in the middle of a flow until its claim is over; another one resumes the flow and
completes it; then the first one goes on.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harnesses.logged_processes import logged_processes
from harnesses.taskflow_engines import GATE, LINES, STACKS, STEPS
from servers.redis_servers import RedisServer

from jobboard.testing import eventually

# Several Python processes start one after the other.
pytestmark = [pytest.mark.timeout(400), pytest.mark.turn_of("suites of TaskFlow")]

#: Seconds, on a machine that is busy elsewhere.
WITHIN = 100

Run = Callable[[str, str, str], subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def run(server: RedisServer, tmp_path: Path) -> Iterator[Run]:
    with server.client() as client:
        client.flushall()
    here = str(Path(__file__).parent)
    with logged_processes(tmp_path) as start:

        def run(engine: str, role: str, stack: str) -> subprocess.Popen[bytes]:
            # Not as __main__, in which TaskFlow could not find the factory of the flow again.
            code = f"from harnesses.taskflow_engines import main; main({role!r}, {stack!r}, {str(tmp_path)!r})"
            variables = {"PYTHONPATH": here, "PYTHONWARNINGS": "ignore", "REDIS_URI": server.uri, "ENGINE": engine}
            return start([sys.executable, "-c", code], **variables)

        yield run


@pytest.mark.parametrize("stack", STACKS)
def test_an_engine_that_comes_late(server: RedisServer, run: Run, tmp_path: Path, stack: str) -> None:
    with server.client(decode_responses=True) as client:

        def lines_of(engine: str) -> list[str]:
            lines = [line.partition(" ") for line in client.lrange(LINES, 0, -1)]
            return [what for who, _, what in lines if who == engine]

        assert run("poster", "post", stack).wait(WITHIN) == 0
        first = run("first", "conduct", stack)
        assert eventually(lambda: "begins two" in lines_of("first"), within=WITHIN)
        first.send_signal(signal.SIGSTOP)
        second = run("second", "conduct", stack)
        assert eventually(lambda: "begins two" in lines_of("second"), within=WITHIN)
        client.set(GATE, "open")
        assert second.wait(WITHIN) == 0
        assert lines_of("second") == [*(f"begins {step}" for step in STEPS[1:]), "ends SUCCESS", "is through"]
        first.send_signal(signal.SIGCONT)
        assert first.wait(WITHIN) == 0
        late = lines_of("first")[2:]
    log = (tmp_path / "log-1").read_text()
    if stack == "TaskFlow":
        # It repeats the rest, and is sure that it has done the work.
        assert late == ["begins three", "begins four", "ends SUCCESS", "is through"]
    else:
        assert late == ["is through"]
        assert "does not hold any more" in log
