"""The gauges of a board, what autoscalers ask, and the dashboard and the alerts that stand on the metrics."""

from __future__ import annotations

import json
import math
import re
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers.counted_requests import count_requests
from prometheus_client import CollectorRegistry

from jobboard import (
    Conductor,
    Entity,
    Every,
    Handlers,
    JobBoard,
    Posting,
    Rate,
    RunningJob,
    Schedule,
    Scheduler,
    fetch,
    telemetry,
)
from jobboard.backends.rows import Abandonment, Fence
from jobboard.board import client_of
from jobboard.cli.http_server import HttpServer
from jobboard.cli.measuring import exposition, routes_of
from jobboard.operate.gauges import MAX_BLOCKED, MAX_KINDS, MAX_LANES, BoardGauges
from jobboard.operate.overview import scale_of
from jobboard.telemetry.labels import MAX_NAMES
from jobboard.telemetry.prometheus import PrometheusRecorder
from jobboard.testing import eventually

MONITORING = Path(__file__).parent.parent / "doc" / "monitoring"


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with fetch("main", f"memory://{uuid.uuid4().hex}") as board:
        yield board


@pytest.fixture
def registry(board: JobBoard) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(BoardGauges([board]))
    return registry


def value(registry: CollectorRegistry, gauge: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"jobboard_{gauge}", {"board": "main", **labels})


def test_the_gauges_say_how_the_board_is(board: JobBoard, registry: CollectorRegistry) -> None:
    board.post_many([Posting("resize"), Posting("resize"), Posting("rotate", delay=60), Posting("broken")])
    board.limits.set(lane="tenant:*", running=1)
    board.post_many([Posting("resize", lane="tenant:1")] * 2)
    [broken] = board.claim_next("alice", ["broken"])
    board.trash(broken, "alice", reason="no disk")
    board.pause("rotate")
    board.schedules.add(Schedule("often", Every(hours=1), "resize"))
    handlers = Handlers()
    handlers.add("other", lambda job: None)
    conductor = Conductor("crew", board, handlers, concurrency=3)
    conductor.start()
    try:
        eventually(lambda: value(registry, "entities", kind="conductor", alive="true") == 1)
        assert value(registry, "up") == 1
        assert value(registry, "jobs", name="resize", state="unclaimed") == 3
        assert value(registry, "jobs", name="resize", state="blocked") == 1
        assert value(registry, "lane_jobs", lane="tenant:1", state="unclaimed") == 1
        assert value(registry, "lane_jobs", lane="tenant:1", state="blocked") == 1
        assert value(registry, "lane_limit", lane="tenant:1") == 1
        assert value(registry, "jobs", name="rotate", state="delayed") == 1
        assert value(registry, "jobs", name="broken", state="trashed") == 1
        assert value(registry, "paused", name="rotate") == 1
        assert value(registry, "paused", name="resize") == 0
        assert value(registry, "conductors", name="resize") == 0
        assert value(registry, "slots", state="all") == 3
        assert value(registry, "schedules", state="active") == 1
        assert value(registry, "schedule_overdue_seconds") == 0
    finally:
        conductor.stop()


def test_a_store_that_does_not_answer_is_down(board: JobBoard, registry: CollectorRegistry) -> None:
    board.close()
    assert value(registry, "up") == 0
    assert value(registry, "jobs", name="resize", state="unclaimed") is None


def test_ten_thousand_names_are_two_hundred_and_one(board: JobBoard, registry: CollectorRegistry) -> None:
    board.post_many([Posting(f"job {number}") for number in range(10_000)])
    samples = [sample for family in registry.collect() for sample in family.samples if sample.name == "jobboard_jobs"]
    waiting = {sample.labels["name"]: sample.value for sample in samples if sample.labels["state"] == "unclaimed"}
    assert len(waiting) == MAX_NAMES + 1
    assert waiting["other"] == 10_000 - MAX_NAMES


def test_blocked_jobs_are_counted_by_what_they_wait_for(board: JobBoard, registry: CollectorRegistry) -> None:
    def blocked() -> dict[str, float]:
        families = {family.name: family.samples for family in registry.collect()}
        return {sample.labels["reason"]: sample.value for sample in families["jobboard_blocked_jobs"]}

    assert blocked() == {"parents": 0, "signal": 0, "lane": 0, "unread": 0}
    board.limits.set(lane="tenant:1", running=1)
    parent = board.post("resize")
    board.post_many([Posting("resize", lane="tenant:1")] * 3)
    board.post_many([Posting("page", after=[parent], lane="tenant:1")] * 4)
    [job] = board.claim_next("w1", ["resize"])
    client = client_of(board)
    wish = Abandonment(Fence(job.uuid, "w1", job.token or 0), counted=False, signal="approved")
    client.call(client.backend.jobs.abandon, [wish])
    assert blocked() == {"parents": 4, "signal": 1, "lane": 2, "unread": 0}
    board.post_many([Posting("page", after=[parent])] * MAX_BLOCKED)
    numbers = blocked()
    assert sum(numbers.values()) == MAX_BLOCKED + 7
    assert numbers["lane"] == 2
    assert 0 < numbers["unread"] <= 7


def test_steps_and_signals_are_counted(board: JobBoard) -> None:
    registry = CollectorRegistry()
    remove = telemetry.add(PrometheusRecorder(registry))
    handlers = Handlers()

    @handlers.handler("order")
    def order(job: RunningJob) -> None:
        job.step("charge", int)
        job.step("ship", int)
        job.wait_for("approved")

    conductor = Conductor("crew", board, handlers)
    conductor.start()
    try:
        jobs = [board.post("order") for _ in range(3)]
        for job in jobs:
            board.signal(job, "approved")
        assert board.signal(jobs[0], "paid")
        assert all(job.wait(30) for job in jobs)
        # Each wait is recorded twice: that it began, and what came.
        eventually(lambda: value(registry, "steps_total", name="order") == 3 * 4)
        assert value(registry, "step_seconds_count", name="order") == 3 * 2
        assert value(registry, "signals_total", outcome="done") == 4
    finally:
        conductor.stop()
        remove()


def test_only_the_longest_lanes_have_series(board: JobBoard, registry: CollectorRegistry) -> None:
    board.limits.set(lane="tenant:*", running=1)
    board.limits.set(lane="quick", rate=Rate(1, 60))
    for number in range(40):
        board.post_many([Posting("resize", lane=f"tenant:{number}")] * (number + 1))
    board.post_many([Posting("resize", lane="quick")] * 100)
    board.pause(lane="tenant:39")
    families = {family.name: family.samples for family in registry.collect()}
    blocked = {s.labels["lane"]: s.value for s in families["jobboard_lane_jobs"] if s.labels["state"] == "blocked"}
    assert blocked == {"quick": 99, "tenant:39": 40} | {f"tenant:{number}": number for number in range(21, 39)}
    limits = {s.labels["lane"]: s.value for s in families["jobboard_lane_limit"]}
    assert limits == {lane: float(lane != "tenant:39") for lane in blocked if lane != "quick"}
    assert len(families["jobboard_lane_oldest_blocked_seconds"]) == MAX_LANES == 20


def test_kinds_of_participants_have_a_bounded_number_of_series(board: JobBoard, registry: CollectorRegistry) -> None:
    """Every participant chooses its own."""
    for number in range(400):
        board.register_entity(Entity(f"kind {number:03}", "a", ttl=math.inf))
    for name in ("a", "b", "c"):
        board.register_entity(Entity("kind 399", name))
        board.register_entity(Entity("conductor", name))
    [family] = [family for family in registry.collect() if family.name == "jobboard_entities"]
    numbers = {(sample.labels["kind"], sample.labels["alive"]): sample.value for sample in family.samples}
    assert len(numbers) == 2 + MAX_KINDS + 1
    assert sum(numbers.values()) == 405
    assert (numbers["conductor", "true"], numbers["scheduler", "true"], numbers["kind 399", "true"]) == (3, 0, 3)
    assert numbers["other", "true"] == 400 - MAX_KINDS


def test_autoscalers_always_get_four_numbers(board: JobBoard) -> None:
    for name in ("resize", None):
        assert scale_of(board, name) == {"waiting": 0, "running": 0, "oldest": 0, "wanted": 0}
    board.post_many([Posting("resize"), Posting("resize"), Posting("rotate")])
    board.claim_next("alice", ["resize"])
    assert scale_of(board, "resize") == {"waiting": 1, "running": 1, "oldest": 0, "wanted": 2}
    assert scale_of(board, None) == {"waiting": 2, "running": 1, "oldest": 0, "wanted": 3}


def test_autoscalers_want_no_workers_for_jobs_that_may_not_start(
    board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.limits.set(name="resize", running=2)
    board.limits.set(name="never", running=0)
    board.post_many([Posting(name) for name in ("resize", "never", "rotate", "rotate") for _ in range(5)])
    claimed = board.claim_next("alice", ["resize", "rotate"], limit=4)
    assert [job.name for job in claimed] == ["resize", "resize", "rotate", "rotate"]
    assert [scale_of(board, name)["wanted"] for name in ("resize", "never", "rotate", None)] == [2, 0, 10, 12]
    assert scale_of(board, "resize") == {"waiting": 3, "running": 2, "oldest": 0, "wanted": 2}
    board.limits.set(name="resize", running=1)
    assert scale_of(board, "resize")["wanted"] == 2
    board.limits.set(name="resize", running=4)
    board.pause("rotate")
    # A pause that ends by itself costs one request more.
    board.pause(lane="tenant", duration=3600)
    assert [scale_of(board, name)["wanted"] for name in ("resize", "rotate", None)] == [4, 2, 6]
    sent = count_requests(board, monkeypatch)
    scale_of(board, "resize")
    assert len(sent) == 6
    board.pause()
    assert [scale_of(board, name)["wanted"] for name in ("resize", "rotate", None)] == [2, 2, 4]


def test_scrapes_and_autoscalers_are_answered_by_http(board: JobBoard, registry: CollectorRegistry) -> None:
    board.post("resize")
    with closing(HttpServer("127.0.0.1", 0, routes_of(board, registry))) as server:
        url = f"http://127.0.0.1:{server.port}"
        with urllib.request.urlopen(f"{url}/scale?name=resize", timeout=30) as answer:
            assert json.load(answer) == {"waiting": 1, "running": 0, "oldest": 0, "wanted": 1}
        with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
            assert b'jobboard_jobs{board="main",name="resize",state="unclaimed"} 1.0' in answer.read()


# -- the dashboard and the alerts --------------------------------------------------------------------------------------


def expressions() -> list[str]:
    dashboard: dict[str, Any] = json.loads((MONITORING / "grafana.json").read_text())
    found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    found += [variable["query"]["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    return found + re.findall(r"^ +expr: (.+)$", (MONITORING / "alerts.yaml").read_text(), re.MULTILINE)


def test_each_series_of_the_dashboard_and_the_alerts_is_in_a_scrape(
    board: JobBoard, registry: CollectorRegistry
) -> None:
    handlers = Handlers()
    handlers.add("resize", lambda job: None)
    remove = telemetry.add(recorder := PrometheusRecorder(registry))
    try:
        board.limits.set(lane="tenant:*", running=1)
        board.post_many([Posting("resize"), Posting("resize", delay=3600)])
        board.post_many([Posting("unhandled", lane="tenant:1")] * 2)
        board.schedules.add(Schedule("often", Every(seconds=1), "resize"))
        conductor, scheduler = Conductor("crew", board, handlers), Scheduler(board)
        conductor.start()
        scheduler.start()
        eventually(lambda: registry.get_sample_value("jobboard_fires_total", {"board": "main"}))
        eventually(
            lambda: registry.get_sample_value("jobboard_wait_seconds_count", {"board": "main", "name": "resize"})
        )
        conductor.stop()
        scheduler.stop()
        lost = type("Lost", (), {"board_name": "main", "name": "resize", "uuid": "", "attempts": 1, "trace": {}})()
        recorder.ended(lost, "lost", 0.0)
        recorder.requested("main", "post", "unavailable", 0.0, None)
    finally:
        remove()
    scraped = exposition(registry).body.decode()
    wanted = {series for expression in expressions() for series in re.findall(r"jobboard_\w+", expression)}
    assert len(wanted) > 15
    assert [series for series in sorted(wanted) if not re.search(rf"^{series}\{{", scraped, re.MULTILINE)] == []
