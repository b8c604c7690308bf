"""What recorders get of requests to the store and of pick-ups, and the exemplars of traces."""

from __future__ import annotations

import re
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from helpers.conducting import lossy_board
from helpers.work import QUICK
from prometheus_client import CollectorRegistry

from jobboard import (
    BoardUnavailable,
    Conductor,
    Every,
    Handlers,
    JobBoard,
    LogBook,
    Posting,
    Schedule,
    fetch,
    telemetry,
)
from jobboard.board import client_of
from jobboard.cli.http_server import HttpServer
from jobboard.cli.measuring import exposition, routes_of
from jobboard.operate import bulk
from jobboard.telemetry.prometheus import PrometheusRecorder
from jobboard.testing import eventually

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


class Requests(telemetry.Recorder):
    """Writes down each request, and the trace of each post is the same."""

    def __init__(self, traceparent: str = "") -> None:
        self.received: list[tuple[str, str, int | None]] = []
        self.picked: list[tuple[str, float]] = []
        self._trace = {"traceparent": traceparent}

    def trace_of_post(self, board: str, name: str) -> dict[str, str]:
        return self._trace

    def requested(self, board: str, operation: str, outcome: str, seconds: float, size: int | None) -> None:
        assert (board, seconds >= 0) == ("work", True)
        self.received.append((operation, outcome, size))

    def picked_up(self, job: telemetry.RunningJob, seconds: float) -> None:
        self.picked.append((job.name, seconds))


@pytest.fixture
def requests() -> Iterator[Requests]:
    requests = Requests()
    remove = telemetry.add(requests)
    yield requests
    remove()


@pytest.fixture(params=["memory", "sqlite"])
def board(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JobBoard]:
    uri = f"memory://{uuid.uuid4().hex}" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    with fetch("work", uri) as board:
        yield board


def worked_off(board: JobBoard, handlers: Handlers) -> None:
    conductor = Conductor("crew", board, handlers, concurrency=2)
    conductor.start()
    try:
        eventually(lambda: board.job_count == 0)
    finally:
        assert conductor.stop()


def test_each_request_is_told_with_its_operation(board: JobBoard, requests: Requests) -> None:
    jobs = board.post_many([Posting("resize") for _ in range(3)])
    claimed = board.claim_next("alice", limit=5)
    board.consume_many(claimed[:2], "alice")
    board.schedules.add(Schedule("often", Every(hours=1), "resize"))
    board.pause("resize")
    board.save_book(LogBook("journal"))
    board.entities()
    bulk.ACTIONS["cancel"].act(board, bulk.targets_of(jobs[2:]), by="ada")
    received = [one for one in requests.received if one[0] not in ("now", "maintenance.tidy")]
    assert received == [
        ("post", "answered", 3),
        ("claim_next", "answered", 3),
        ("consume", "answered", 2),
        ("schedules.read", "answered", 1),
        ("schedules.step", "answered", 1),
        ("maintenance.pause", "answered", None),
        ("books.save", "answered", None),
        ("entities.all", "answered", 0),
        ("cancel", "answered", 1),
    ]


def test_each_try_is_told_with_its_outcome(requests: Requests) -> None:
    with lossy_board(patience=10.0) as (board, lossy):
        lossy.lose("post", "reply")
        board.post("resize")
        lossy.lose("stats", "refused")
        with pytest.raises(BoardUnavailable):
            board.stats()
    assert requests.received == [
        ("post", "reply_lost", None),
        ("post", "answered", 1),
        ("stats", "unavailable", None),
    ]


def test_requests_without_a_recorder_are_left_alone() -> None:
    with lossy_board() as (board, lossy):
        assert client_of(board)._recorded(lossy.jobs.stats) == lossy.jobs.stats


def test_a_pick_up_is_told_of_the_first_attempt(board: JobBoard, requests: Requests) -> None:
    handlers, attempts = Handlers(), list[int]()

    def fail_once(job: telemetry.RunningJob) -> None:
        attempts.append(job.attempts)
        if job.attempts == 1:
            raise RuntimeError("no disk")

    handlers.add("resize", fail_once, max_attempts=2, backoff=QUICK)
    board.post("resize", delay=0.2)
    worked_off(board, handlers)
    assert attempts == [1, 2]
    [(name, seconds)] = requests.picked
    assert name == "resize"
    assert 0 <= seconds < 600


@pytest.mark.parametrize(
    ("traceparent", "is_kept"),
    [("00-" + "ab" * 16 + "-" + "cd" * 8 + "-01", True), ("00-" + "ab" * 16 + "-" + "cd" * 8 + "-00", False)],
)
def test_sampled_traces_are_exemplars(traceparent: str, is_kept: bool) -> None:
    registry, handlers = CollectorRegistry(), Handlers()
    handlers.add("resize", lambda job: None)
    removes = [telemetry.add(PrometheusRecorder(registry)), telemetry.add(Requests(traceparent))]
    try:
        with (
            fetch("work", f"memory://{uuid.uuid4().hex}") as board,
            closing(HttpServer("127.0.0.1", 0, routes_of(board, registry))) as server,
        ):
            board.post("resize")
            worked_off(board, handlers)
            scrape = urllib.request.Request(f"http://127.0.0.1:{server.port}/metrics", headers={"Accept": OPEN_METRICS})
            with urllib.request.urlopen(scrape, timeout=30) as answer:
                kind, scraped = answer.headers["Content-Type"], answer.read().decode()
    finally:
        for remove in removes:
            remove()
    assert kind.startswith("application/openmetrics-text")
    found = re.findall(r'^jobboard_(\w+)_seconds_bucket\{.*# \{trace_id="(\w+)"\}', scraped, re.MULTILINE)
    assert sorted(found) == ([("pickup", "ab" * 16), ("run", "ab" * 16)] if is_kept else [])
    assert "trace_id" not in exposition(registry).body.decode()
