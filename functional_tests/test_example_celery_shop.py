"""The example ``celery_shop``: its conductors and scheduler as processes on Redis, one of which is killed."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from harnesses.examples import WITHIN, Run
from servers.redis_servers import RedisServer

import jobboard
from jobboard import JobBoard, JobState
from jobboard.testing import eventually

pytest_plugins = ("harnesses.example_processes",)
# Several Python processes start one after the other.
pytestmark = pytest.mark.timeout(400)

EXAMPLES = Path(__file__).parent.parent / "examples"
ORDERS = 12
ROUTES = {
    "charge": "orders",
    "call_courier": "orders",
    "send_mail": "mails",
    "close_day": "reports",
    "sum_region": "reports",
}
PLACE_ORDERS = f"""
from celery_shop.after.checkout import board, check_out
from celery_shop.shop import Order, database
with database() as connection:
    connection.execute("INSERT INTO outages VALUES (2)")
with board:
    for number in range({ORDERS}):
        check_out(Order(number, 100))
"""


@pytest.fixture
def board(redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobBoard]:
    monkeypatch.setenv("SHOP_DB", f"{tmp_path}/shop.db")
    monkeypatch.setenv("JOBBOARD_URI", redis_server.uri)
    monkeypatch.setenv("JOBBOARD_NAME", "shop")
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    with jobboard.open("shop", redis_server.uri) as board:
        yield board


def effects(tmp_path: Path) -> dict[str, list[tuple[str, float]]]:
    """Return what the shop has done: to which order or day, and when."""
    done: dict[str, list[tuple[str, float]]] = {}
    with sqlite3.connect(tmp_path / "shop.db") as database:
        for what, about, at in database.execute("SELECT what, about, at FROM done ORDER BY at"):
            done.setdefault(what, []).append((about, at))
    return done


def test_the_shop_works_on_though_a_conductor_dies(board: JobBoard, run: Run, tmp_path: Path) -> None:
    subprocess.run(
        ["sh", "-c", f'PATH="{Path(sys.executable).parent}:$PATH" sh {EXAMPLES}/celery_shop/after/deploy.sh'],
        check=True, timeout=WITHIN,
    )  # fmt: skip
    subprocess.run([sys.executable, "-c", PLACE_ORDERS], check=True, timeout=WITHIN)
    work = ("jobboard", "conductor", "--expiry", "1", "--concurrency", "4")
    first, *_ = [
        run(*work, f"celery_shop.after.tasks:{label}", "--label", label) for label in sorted(set(ROUTES.values()))
    ]
    run("jobboard", "scheduler")
    eventually(lambda: len(board.entities()) == 4, WITHIN)
    schedule = board.schedules.get("close-day")
    board.schedules.remove("close-day")
    board.schedules.add(schedule, next_run_time=datetime.now(UTC))  # as it is at 3 in the morning

    eventually(lambda: effects(tmp_path).get("mailed"), WITHIN)
    first.kill()
    run(*work, "celery_shop.after.tasks:mails", "--label", "mails")
    eventually(lambda: "reported" in effects(tmp_path) and not list(board.iterjobs()), WITHIN)

    done = effects(tmp_path)
    for what in ("charged", "mailed", "called"):
        assert {about for about, _ in done[what]} == {str(number) for number in range(ORDERS)}
    jobs = list(board.iterjobs(states=set(JobState)))
    assert {job.record.state for job in jobs} == {JobState.COMPLETE}
    assert sum(job.name == "charge" and job.record.attempts > 1 for job in jobs) >= 1
    (closed,) = [job for job in jobs if job.name == "close_day"]
    assert closed.schedule_id == "close-day"
    assert Counter(job.name for job in jobs)["sum_region"] == 3
    assert [about for about, _ in done["reported"]] == [f"{closed.created_on.date()}: 300"]
    calls = [at for _, at in done["called"]]
    assert min(later - earlier for earlier, later in pairwise(calls)) >= 0.2
    assert {(job.name, str(job.record.owner).partition("@")[0]) for job in jobs} == set(ROUTES.items())
