"""Job stores on servers, which APScheduler itself filled, are imported; nothing in them changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import pytest
from apscheduler.jobstores.base import BaseJobStore
from apscheduler.jobstores.redis import RedisJobStore
from apscheduler.jobstores.zookeeper import ZooKeeperJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from harnesses.fixtures import a_server
from harnesses.zookeeper_harness import plain_client
from servers.redis_servers import RedisServer
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import At, Cron, Every, Schedule, fetch
from jobboard.apscheduler.stores import open_store
from jobboard.cli.app import run

redis_server = a_server(RedisServer)
zookeeper_server = a_server(ZooKeeperServer)

FUNCTION = f"{__name__}:report"
SOON = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)


def report(**details: Any) -> None:
    raise AssertionError("an import runs nothing")


class Still(BackgroundScheduler):
    """Runs nothing, also not at its end."""

    def _process_jobs(self) -> None:
        return None


def fill(store: BaseJobStore) -> None:
    scheduler = Still(jobstores={"default": store}, timezone=ZoneInfo("Europe/Berlin"))
    scheduler.start(paused=True)
    scheduler.add_job(report, "date", run_date=SOON, id="date", kwargs={"to": "a"})
    scheduler.add_job(report, "interval", hours=1, start_date=SOON, id="interval")
    scheduler.add_job(report, "cron", hour=3, id="cron", misfire_grace_time=None)
    scheduler.add_job(print, "cron", hour=3, id="print")
    scheduler.shutdown()


@pytest.fixture
def call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[dict[str, Any]]]:
    """Import into a board of the test's own; returns a row for each job."""

    def call(*arguments: str, status: int) -> list[dict[str, Any]]:
        board = ["--board", f"sqlite:///{tmp_path}/jobs.db", "--name", "test", "--json"]
        assert run([*board, "schedule", "import", *arguments, "--map", f"{FUNCTION}=report"]) == status
        rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out or "[]")
        return rows

    return call


def check(call: Callable[..., list[dict[str, Any]]], tmp_path: Path, *source: str) -> None:
    refused = {"print": "refused", "broken": "refused"}
    keep = "--if-exists=keep"
    for option, outcome in (("--dry-run", "importable"), (keep, "imported"), (keep, "kept")):
        outcomes = {row["id"]: row["outcome"] for row in call("--from", *source, option, status=1)}
        assert outcomes == dict.fromkeys(("date", "interval", "cron"), outcome) | refused
    with fetch("test", f"sqlite:///{tmp_path}/jobs.db") as board:
        grace: dict[str, Any] = {"misfire_grace": 1.0}
        assert {schedule.id: schedule for schedule in board.schedules} == {
            "date": Schedule("date", At(SOON), "report", {"to": "a"}, **grace),
            "interval": Schedule("interval", Every(hours=1, start=SOON), "report", **grace),
            "cron": Schedule("cron", Cron("0 3 * * *", "Europe/Berlin"), "report"),
        }


def test_a_store_on_redis_is_imported(redis_server: RedisServer, call: Any, tmp_path: Path) -> None:
    place = urlsplit(redis_server.uri)
    for keys, source in (({}, []), ({"jobs_key": "mine", "run_times_key": "times"}, ["--jobs-in", "mine"])):
        fill(RedisJobStore(host=place.hostname, port=place.port, **keys))
        client = redis_server.client()
        key = keys.get("jobs_key", "apscheduler.jobs")
        client.hset(key, "broken", b"cos\nsystem\n(S'touch mark'\ntR.")
        before = client.hgetall(key)
        check(call, tmp_path, redis_server.uri, *source)
        assert client.hgetall(key) == before
        (tmp_path / "jobs.db").unlink()
        client.close()


def test_a_store_on_zookeeper_is_imported(zookeeper_server: ZooKeeperServer, call: Any, tmp_path: Path) -> None:
    host = urlsplit(zookeeper_server.uri).netloc
    fill(ZooKeeperJobStore(hosts=host, close_connection_on_exit=True))
    with plain_client(zookeeper_server.uri) as client:
        client.create("/apscheduler/broken", b"cos\nsystem\n(S'touch mark'\ntR.")
        check(call, tmp_path, f"zookeeper://{host}")
        assert sorted(client.get_children("/apscheduler")) == ["broken", "cron", "date", "interval", "print"]
    assert call("--from", f"zookeeper://{host}/none", status=2) == []


def test_a_job_that_runs_for_the_last_time_while_its_store_is_read_is_left_out(
    redis_server: RedisServer, zookeeper_server: ZooKeeperServer
) -> None:
    with redis_server.client() as client:
        client.hset("leaving", mapping={"going": b"1", "staying": b"2"})
        with open_store(redis_server.uri, "leaving") as both:
            client.hdel("leaving", "going")
            assert (both.count, list(both.jobs)) == (2, [("staying", b"2")])
    with plain_client(zookeeper_server.uri) as client:
        for id in ("going", "staying"):
            client.create(f"/leaving/{id}", b"2", makepath=True)
        with open_store(zookeeper_server.uri, "/leaving") as both:
            client.delete("/leaving/going")
            assert (both.count, list(both.jobs)) == (2, [("staying", b"2")])


@pytest.mark.parametrize("scheme", ["redis", "postgresql", "mysql"])
def test_a_store_that_is_not_there_is_told(scheme: str, call: Any) -> None:
    # Port 1 is nobody's.
    assert call("--from", f"{scheme}://127.0.0.1:1/0", status=3) == []
