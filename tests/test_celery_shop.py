"""The example ``celery_shop``: what the move from Celery takes away, and that the shop works as before, on SQLite."""

from __future__ import annotations

import importlib
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from jobboard import Conductor, Cron, EventKind, Job, JobBoard, JobState, Scheduler
from jobboard.testing import eventually

SHOP = Path(__file__).parent.parent / "examples" / "celery_shop"
ORDERS = 6
#: The handlers of each conductor, by its label.
ROUTES = {"orders": {"charge", "call_courier"}, "mails": {"send_mail"}, "reports": {"close_day", "sum_region"}}


def lines_of(part: str) -> list[str]:
    """Return the lines of code: neither blank ones, nor comments, nor the docstrings of modules."""
    lines = [
        line for file in sorted((SHOP / part).iterdir()) if file.is_file() for line in file.read_text().split("\n")
    ]
    return [line for line in lines if line.strip() and not line.startswith(('"""', "#"))]


def glue_of(part: str) -> list[str]:
    return [line for line in lines_of(part) if line.endswith("# glue")]


def test_the_move_halves_the_glue() -> None:
    assert (len(glue_of("before")), len(lines_of("before"))) == (31, 54)
    assert (len(glue_of("after")), len(lines_of("after"))) == (13, 35)


@pytest.mark.parametrize("part", ["before", "after"])
def test_every_line_that_names_the_task_system_is_marked_as_glue(part: str) -> None:
    """All but the decorators without options, which each task has before and after."""
    system = re.compile(
        r"celery(?!_shop)|\bapp\b|\bself\b|counters|\.delay\(|\.apply_async\(|retry"
        r"|jobboard|Handlers\(|\.post|RunAgain\(|Posting|JobState"
    )
    plain = re.compile(r"@(app\.task|(orders|mails|reports)\.handler)|def call_courier\(self|def \w+\(job: RunningJob")
    unmarked = [
        line for line in lines_of(part) if system.search(line) and not line.endswith("# glue") and not plain.match(line)
    ]
    assert unmarked == []


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobBoard]:
    monkeypatch.setenv("SHOP_DB", f"{tmp_path}/shop.db")
    monkeypatch.setenv("JOBBOARD_URI", f"sqlite:///{tmp_path}/jobs.db")
    monkeypatch.setenv("JOBBOARD_NAME", "shop")
    environment_path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    monkeypatch.setenv("PATH", environment_path)
    checkout = importlib.import_module("celery_shop.after.checkout")
    try:
        with checkout.board as board:
            yield board
    finally:
        del sys.modules["celery_shop.after.checkout"]


def effects(tmp_path: Path) -> list[tuple[str, str, float]]:
    """Return what the shop has done, to which order or day, and when."""
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        return database.execute("SELECT what, about, at FROM done ORDER BY at").fetchall()


def test_the_shop_works_as_before(shop: JobBoard, tmp_path: Path) -> None:
    subprocess.run(["sh", SHOP / "after" / "deploy.sh"], check=True, timeout=60)
    tasks = importlib.import_module("celery_shop.after.tasks")
    check_out = sys.modules["celery_shop.after.checkout"].check_out
    data = importlib.import_module("celery_shop.shop")
    with data.database() as database:
        database.execute("INSERT INTO outages VALUES (1)")
    with ExitStack() as working:
        for label in ROUTES:
            conductor = Conductor(label, shop, getattr(tasks, label), concurrency=4)
            working.callback(conductor.stop)
            conductor.start()
        scheduler = Scheduler(shop)
        working.callback(scheduler.stop)
        scheduler.start()
        for number in range(ORDERS):
            check_out(data.Order(number, 100))
        make_due(shop, "close-day")
        eventually(lambda: len(effects(tmp_path)) == 3 * ORDERS + 1, 60)
        eventually(lambda: not list(shop.iterjobs()), 60)
    check(shop, tmp_path)


def make_due(board: JobBoard, id: str) -> None:
    """Let the schedule fire now, as it does at 3 in the morning."""
    schedule = board.schedules.get(id)
    assert schedule.trigger == Cron("0 3 * * *", tz="Europe/Berlin")
    board.schedules.remove(id)
    board.schedules.add(schedule, next_run_time=datetime.now(UTC))


def check(board: JobBoard, tmp_path: Path) -> None:
    done = effects(tmp_path)
    about = {str(number) for number in range(ORDERS)}
    for what in ("charged", "mailed", "called"):
        assert sorted(told for kind, told, _ in done if kind == what) == sorted(about)

    jobs = list(board.iterjobs(states=set(JobState)))
    assert {job.record.state for job in jobs} == {JobState.COMPLETE}
    failures = Counter(job.name for job in jobs if job.record.attempts > 1)
    assert failures["charge"] == 1, "the bank did not answer once, and the charge was tried again"

    (closed,) = [job for job in jobs if job.name == "close_day"]
    assert (closed.schedule_id, closed.fire_time is not None) == ("close-day", True)
    assert Counter(job.name for job in jobs)["sum_region"] == 3
    assert [told for kind, told, _ in done if kind == "reported"] == [f"{closed.created_on.date()}: 300"]

    calls = [at for kind, _, at in done if kind == "called"]
    assert min(later - earlier for earlier, later in pairwise(calls)) >= 0.2
    assert any(has_waited(job) for job in jobs if job.name == "call_courier"), "some had to wait for the courier"

    assert {job.name: str(job.record.owner).partition("@")[0] for job in jobs} == {
        name: label for label, names in ROUTES.items() for name in names
    }


def has_waited(job: Job) -> bool:
    return any(line.kind is EventKind.ABANDONED for line in job.history)
