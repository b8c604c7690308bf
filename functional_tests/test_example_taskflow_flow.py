"""The example ``taskflow_flow``: a conductor is killed in the middle of a flow, and the next one goes on."""

from __future__ import annotations

import importlib
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
from harnesses.examples import WITHIN, Run
from oslo_utils import uuidutils
from servers.base import HOST
from servers.redis_servers import RedisServer
from taskflow import engines
from taskflow.jobs import backends as boards
from taskflow.persistence import backends as persistences
from taskflow.persistence import models

from jobboard import JobBoard, JobState, backend
from jobboard.testing import eventually

pytest_plugins = ("harnesses.example_processes",)
# Several Python processes start one after the other.
pytestmark = pytest.mark.timeout(400)

CONDUCTOR = ("jobboard", "conductor", "taskflow_flow.handlers:handlers", "--expiry", "2")
ORDERS = ("1", "2", "3", "4")
STEPS = [f"{step} {what}" for step in ("reserve", "charge", "ship") for what in ("begun", "done")]


@pytest.fixture
def board(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobBoard]:
    monkeypatch.setenv("JOBBOARD_URI", redis_server.uri)
    monkeypatch.setenv("CLAIM_LASTS", "2")
    monkeypatch.setenv("STEP_TAKES", "0.3")
    monkeypatch.setenv("JOBBOARD_NAME", "orders")
    with backend("orders", redis_server.uri) as board:
        yield board


@pytest.fixture
def client(redis_server: RedisServer, board: JobBoard) -> Iterator[redis.Redis]:
    with redis_server.client(decode_responses=True) as client:
        client.flushall()
        yield client


def steps_of(order: str, client: redis.Redis) -> list[str]:
    return [str(step) for step in client.lrange(f"order:{order}", 0, -1)]


def kill_while_it_charges(order: str, conductor: subprocess.Popen[bytes], client: redis.Redis) -> list[str]:
    assert eventually(lambda: "charge begun" in steps_of(order, client), within=WITHIN, every=0.001)
    conductor.kill()
    assert conductor.wait(WITHIN) == -signal.SIGKILL
    return steps_of(order, client)


def is_resumed(done: list[str], steps: list[str]) -> bool:
    """Whether what the killed one had begun was done once more, unless it had noted down that it was done."""
    begun = max(index for index, step in enumerate(STEPS) if step in done and step.endswith("begun"))
    return steps[: len(done)] == done and steps[len(done) :] in (STEPS[begun:], STEPS[begun + 2 :])


def test_a_flow_survives_kill_9_and_no_order_is_lost(board: JobBoard, client: redis.Redis, run: Run) -> None:
    first = run("taskflow_flow.conductor", "first")
    assert run("taskflow_flow.poster", *ORDERS).wait(WITHIN) == 0
    done = kill_while_it_charges("2", first, client)
    second = run("taskflow_flow.conductor", "second")
    assert eventually(lambda: not list(board.iterjobs()), within=WITHIN)
    second.send_signal(signal.SIGTERM)
    assert second.wait(WITHIN) == 0
    assert [steps_of(order, client) for order in ("1", "3", "4")] == [STEPS] * 3
    assert is_resumed(done, steps_of("2", client))
    # The logbooks go with the records of their jobs.
    complete = {job.uuid for job in board.iterjobs(states={JobState.COMPLETE})}
    assert len(complete) == len(ORDERS)
    assert {book.owner for book in board.books()} == complete


def test_a_flow_as_a_handler_survives_kill_9(board: JobBoard, client: redis.Redis, run: Run) -> None:
    job = board.post("order", details={"order": 7})
    done = kill_while_it_charges("7", run(*CONDUCTOR), client)
    run(*CONDUCTOR)
    assert job.wait(WITHIN)
    assert is_resumed(done, steps_of("7", client))


def test_jobs_of_taskflows_own_board_are_moved_with_what_was_done(
    redis_server: RedisServer,
    board: JobBoard,
    client: redis.Redis,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "examples")
    ours = {"uri": redis_server.uri, "namespace": "orders"}
    sites = {
        "old": {
            "board": {"board": "redis", "host": HOST, "port": redis_server.port, "namespace": "old"},
            "persistence": {"connection": f"sqlite:///{tmp_path}/flows.db"},
        },
        "new": {"board": {"board": "jobboard", **ours}, "persistence": {"connection": "jobboard", **ours}},
    }
    with closing(persistences.fetch(sites["old"]["persistence"])) as persistence:
        persistence.get_connection().upgrade()
        with boards.backend("old", sites["old"]["board"], persistence=persistence) as old:
            jobs = [_post_flow(old, persistence, order) for order in (1, 2)]
            # By a process that is dead, after the first step.
            old.claim(jobs[0], "dead")
            engine = engines.load_from_detail(next(iter(jobs[0].book)), store={"order": 1}, backend=persistence)
            engine.compile()
            next(step for step in engine.run_iter() if steps_of("1", client)[-1:] == ["reserve done"])
            moved = importlib.import_module("taskflow_flow.move_jobs").move_jobs
            assert [moved(sites["old"], sites["new"]) for _ in range(2)] == [2, 0]
            assert not list(old.iterjobs())
    assert [job.uuid for job in board.iterjobs()] == [job.uuid for job in jobs]
    run("taskflow_flow.conductor", "new")
    assert eventually(lambda: not list(board.iterjobs()), within=WITHIN)
    assert is_resumed(STEPS[:2], steps_of("1", client))
    assert steps_of("2", client) == STEPS


def _post_flow(board: Any, persistence: Any, order: int) -> Any:
    book, flow = models.LogBook(f"order {order}"), models.FlowDetail("order", uuidutils.generate_uuid())
    book.add(flow)
    persistence.get_connection().save_logbook(book)
    engines.save_factory_details(flow, "taskflow_flow.flows.order_flow", [], {}, backend=persistence)
    return board.post("order", book=book, details={"flow_uuid": flow.uuid, "store": {"order": order}})
