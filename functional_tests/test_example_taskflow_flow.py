"""The example ``taskflow_flow``: a conductor is killed in the middle of a flow, and the next one goes on."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest
import redis
from servers.redis_servers import RedisServer

from jobboard import JobBoard, JobState, backend
from jobboard.testing import eventually

pytest_plugins = ("harnesses.example_processes",)
# Several Python processes start one after the other.
pytestmark = pytest.mark.timeout(400)

ORDERS = ("1", "2", "3", "4")
STEPS = [f"{step} {what}" for step in ("reserve", "charge", "ship") for what in ("begun", "done")]
#: Seconds, on a machine that is busy elsewhere.
WITHIN = 100

Run = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def board(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobBoard]:
    monkeypatch.setenv("JOBBOARD_URI", server.uri)
    monkeypatch.setenv("CLAIM_LASTS", "2")
    monkeypatch.setenv("STEP_TAKES", "0.3")
    with backend("orders", server.uri) as board:
        yield board


def test_a_flow_survives_kill_9_and_no_order_is_lost(server: RedisServer, board: JobBoard, run: Run) -> None:
    client: redis.Redis = server.client(decode_responses=True)

    def steps_of(order: str) -> list[str]:
        return [str(step) for step in client.lrange(f"order:{order}", 0, -1)]

    first = run("taskflow_flow.conductor", "first")
    assert run("taskflow_flow.poster", *ORDERS).wait(WITHIN) == 0
    assert eventually(lambda: "charge begun" in steps_of("2"), within=WITHIN, every=0.001)
    first.kill()
    assert first.wait(WITHIN) == -signal.SIGKILL
    done = steps_of("2")
    second = run("taskflow_flow.conductor", "second")
    assert eventually(lambda: not list(board.iterjobs()), within=WITHIN)
    second.send_signal(signal.SIGTERM)
    assert second.wait(WITHIN) == 0
    assert [steps_of(order) for order in ("1", "3", "4")] == [STEPS] * 3
    # What the killed one had begun is done once more, unless it noted down that it is done.
    begun = max(index for index, step in enumerate(STEPS) if step in done and step.endswith("begun"))
    assert steps_of("2")[: len(done)] == done
    assert steps_of("2")[len(done) :] in (STEPS[begun:], STEPS[begun + 2 :])
    assert {job.name for job in board.iterjobs(states={JobState.COMPLETE})} == {"order"}
    # The logbooks go with the records of their jobs.
    assert {book.owner for book in board.books()} == {job.uuid for job in board.iterjobs(states={JobState.COMPLETE})}
    client.close()
