"""What conductor and scheduler processes tell of themselves: health, metrics, logs; and options by environment."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from jobboard import JobBoard, Scheduler, fetch
from jobboard.cli.health import health_routes
from jobboard.cli.http_server import HttpServer
from jobboard.testing import eventually

HANDLERS = """
from jobboard import Handlers, RunningJob
handlers = Handlers()

@handlers.handler("resize")
def resize(job: RunningJob) -> None:
    pass

@handlers.handler("failing", max_attempts=1)
def failing(job: RunningJob) -> None:
    raise RuntimeError("no disk")
"""


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture
def uri(tmp_path: Path) -> str:
    (tmp_path / "crew.py").write_text(HANDLERS)
    return f"sqlite:///{tmp_path}/jobs.db"


class Process:
    """A command that runs until a signal; its standard error is read line by line."""

    def __init__(self, *arguments: str, folder: Path, uri: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jobboard", *arguments],
            cwd=folder,
            env={**os.environ, "JOBBOARD_URI": uri, "PYTHONUNBUFFERED": "1", **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        found = None
        while found is None:
            line = self.process.stderr.readline()
            assert line, f"it ended with {self.process.wait()}"
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
        self.port = int(found[1])

    def stop(self) -> list[str]:
        self.process.send_signal(signal.SIGTERM)
        _, rest = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, rest
        return rest.splitlines()


@pytest.fixture
def started() -> Iterator[list[Process]]:
    processes: list[Process] = []
    yield processes
    for each in processes:
        if each.process.poll() is None:
            each.process.kill()
            each.process.communicate()


def test_a_conductor_tells_of_its_health_its_metrics_and_its_jobs(
    tmp_path: Path, uri: str, started: list[Process]
) -> None:
    options = {"JOBBOARD_CONCURRENCY": "3", "JOBBOARD_HEALTH_PORT": "0", "JOBBOARD_LOG_FORMAT": "json"}
    conductor = Process("conductor", "crew:handlers", folder=tmp_path, uri=uri, JOBBOARD_LOG_LEVEL="debug", **options)
    started.append(conductor)
    with fetch("jobs", uri) as board:
        good, bad = board.post("resize", details={"secret": "s3cret"}), board.post("failing")
        eventually(lambda: _done(board))
        slots = [entity.metadata["concurrency"] for entity in board.entities()]
    assert slots == [3]
    assert get(conductor.port, "/livez") == (200, "ok\n")
    assert get(conductor.port, "/readyz") == (200, "ok\n")
    assert get(conductor.port, "/jobs") == (404, "there are: /livez /metrics /readyz\n")
    status, metrics = get(conductor.port, "/metrics")
    assert status == 200
    assert 'jobboard_ended_total{board="jobs",name="resize",outcome="consumed"} 1.0' in metrics
    lines = [json.loads(line) for line in conductor.stop() if line.startswith("{")]
    [consumed] = [line for line in lines if line.get("outcome") == "consumed"]
    assert (consumed["level"], consumed["uuid"], consumed["attempt"]) == ("INFO", good.uuid, 1)
    [trashed] = [line for line in lines if line.get("outcome") == "trashed"]
    assert (trashed["level"], trashed["uuid"], trashed["reason"]) == ("ERROR", bad.uuid, "RuntimeError: no disk")
    assert any(line["level"] == "DEBUG" and line.get("uuid") == good.uuid for line in lines)
    assert "s3cret" not in json.dumps(lines)


def _done(board: JobBoard) -> bool:
    stats = board.stats()
    return stats.trashed == 1 and stats.unclaimed == stats.claimed == 0


def test_metrics_are_served_before_the_board_can_be_opened(tmp_path: Path, uri: str, started: list[Process]) -> None:
    metrics = Process("metrics", "--port", "0", folder=tmp_path, uri=uri)
    started.append(metrics)
    assert 'jobboard_up{board="jobs"} 0.0' in get(metrics.port, "/metrics")[1]
    assert get(metrics.port, "/scale")[0] == 503
    with fetch("jobs", uri) as board:
        board.post("resize")
    eventually(lambda: 'jobboard_up{board="jobs"} 1.0' in get(metrics.port, "/metrics")[1], 30)
    assert get(metrics.port, "/scale")[0] == 200
    metrics.stop()


def test_a_scheduler_tells_of_its_health(tmp_path: Path, uri: str, started: list[Process]) -> None:
    scheduler = Process("scheduler", "--health-port", "0", folder=tmp_path, uri=uri)
    started.append(scheduler)
    assert get(scheduler.port, "/livez") == (200, "ok\n")
    assert get(scheduler.port, "/readyz") == (200, "ok\n")
    scheduler.stop()


def test_a_store_that_does_not_answer_is_not_ready(tmp_path: Path) -> None:
    board = fetch("main", f"sqlite:///{tmp_path}/jobs.db")
    board.connect()
    with closing(HttpServer("127.0.0.1", 0, health_routes(board, lambda: True))) as server:
        assert get(server.port, "/readyz") == (200, "ok\n")
        board.close()
        assert get(server.port, "/readyz") == (503, "the store does not answer\n")
        assert get(server.port, "/livez") == (200, "ok\n")


def test_a_conductor_whose_ends_are_refused_lives_and_is_not_ready(tmp_path: Path) -> None:
    refused = ["7a3b"]
    with (
        fetch("main", f"sqlite:///{tmp_path}/jobs.db") as board,
        closing(HttpServer("127.0.0.1", 0, health_routes(board, lambda: True, lambda: refused))) as server,
    ):
        assert get(server.port, "/readyz") == (503, "the store refuses the ends of jobs: 7a3b\n")
        assert get(server.port, "/livez") == (200, "ok\n")
        refused.clear()
        assert get(server.port, "/readyz") == (200, "ok\n")


def test_a_conductor_that_makes_what_its_handlers_need_lives_and_is_not_ready(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import os, time\nfrom jobboard import Handlers\nhandlers = Handlers()\n"
        "handlers.add('nothing', lambda job: None)\n"
        "@handlers.lifespan\ndef lease():\n"
        "    while not os.path.exists('there'):\n        time.sleep(0.01)\n    yield\n"
    )
    process = Process(
        "conductor", "slow:handlers", "--health-port", "0", folder=tmp_path, uri=f"sqlite:///{tmp_path}/jobs.db"
    )
    try:
        assert get(process.port, "/livez") == (200, "ok\n")
        assert get(process.port, "/readyz") == (503, "it is starting\n")
        (tmp_path / "there").touch()
        eventually(lambda: get(process.port, "/readyz") == (200, "ok\n"), 30)
        process.stop()
    finally:
        process.process.kill()


def test_a_conductor_that_is_stuck_does_not_live(tmp_path: Path) -> None:
    lives = [True]
    with (
        fetch("main", f"sqlite:///{tmp_path}/jobs.db") as board,
        closing(HttpServer("127.0.0.1", 0, health_routes(board, lambda: lives[0]))) as server,
    ):
        assert get(server.port, "/livez")[0] == 200
        lives[0] = False
        assert get(server.port, "/livez") == (503, "it does not work; start it again\n")


def test_a_scheduler_is_healthy_until_its_thread_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    with fetch("of health", "memory://") as board:
        scheduler = Scheduler(board)
        assert scheduler.healthy
        scheduler.start()
        assert scheduler.healthy
        monkeypatch.setattr("jobboard.scheduler._MAX_SILENCE", 0.0)
        assert not scheduler.healthy
        assert scheduler.stop()
        assert scheduler.healthy
