"""What an operator does at 3 a.m. in the browser: finds and mends what the console's guide shows, by its clicks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harnesses.browser import DEADLINE, Browser, browser
from harnesses.console_process import console
from harnesses.nights import Start, conductor
from harnesses.operator import Clicks
from servers.redis_servers import RedisServer

from jobboard import Every, Job, JobBoard, JobState, Schedule, fetch
from jobboard.testing import eventually

# Several Python processes start one after the other.
pytestmark = [pytest.mark.timeout(400), pytest.mark.turn_of("nights on the console")]


@pytest.fixture(scope="module")
def web() -> Iterator[Browser]:
    with browser() as web:
        yield web


@pytest.fixture
def board(uri: str) -> Iterator[JobBoard]:
    with fetch("night", uri) as board:
        yield board


def eventually_complete(*jobs: Job) -> None:
    eventually(lambda: all(job.state is JobState.COMPLETE for job in jobs), within=60)


def test_a_handler_hangs(web: Browser, start: Start, board: JobBoard, uri: str) -> None:
    hung = board.post("resize", details={"hang": True})
    process = conductor(start, board, uri, "broken", "--drain", "1")
    eventually(lambda: hung.state is JobState.CLAIMED)
    behind = board.post("resize")
    with console("--board", uri, "--name", "night", "--allow", "trash,restore") as web.root:
        web.open("/")
        does = Clicks(web, "A handler hangs")
        does.click("Conductors")
        web.eventually_shows("resize for ")
        does.click("job", is_called=hung.uuid[-8:])
        web.eventually_shows("It is claimed by ")
        does.click("Trash …")
        web.type("reason", "hangs in scale")
        does.click("Trash", within="main")
        eventually(lambda: hung.state is JobState.TRASHED, within=DEADLINE)
        process.terminate()
        process.communicate(timeout=60)
        conductor(start, board, uri, "mended", "--drain", "1")
        eventually_complete(behind)
        does.click("Trash")
        does.click("group", is_called="1")
        does.click("job", is_called=hung.uuid[-8:])
        web.eventually_shows("hangs in scale")
        does.click("Restore")
        eventually_complete(hung)
        does.check_all_is_done()


def test_all_jobs_of_a_kind_fail(web: Browser, start: Start, board: JobBoard, uri: str) -> None:
    invoices = [board.post("invoice") for _ in range(3)]
    process = conductor(start, board, uri, "broken", "--drain", "1")
    eventually(lambda: all(job.state is JobState.TRASHED for job in invoices), within=60)
    with console("--board", uri, "--name", "night", "--allow", "pause,resume,restore") as web.root:
        web.open("/")
        does = Clicks(web, "All jobs of a kind fail")
        web.eventually_shows("Jobs named 'invoice' fail: ")
        web.eventually_shows("LookupError: no customer 17")
        does.click("Names")
        web.eventually_shows("invoice")
        does.click("Pause …", within="tbody")
        web.type("reason", "no customer 17")
        does.click("Pause", within="tbody")
        eventually(lambda: board.paused() == {"invoice"}, within=DEADLINE)
        assert [pause.reason for pause in board.pauses()] == ["no customer 17"]
        does.click("Trash")
        does.click("group", is_called="3")
        does.click("job", is_called=invoices[0].uuid[-8:])
        web.eventually_shows('raise LookupError("no customer 17")')
        page = web.driver.current_url
        process.terminate()
        process.communicate(timeout=60)
        conductor(start, board, uri, "mended", "--drain", "1")
        does.click("Names")
        does.click("Resume", within="tbody")
        eventually(lambda: not board.paused(), within=DEADLINE)
        web.driver.get(page)
        does.click("Restore")
        eventually_complete(invoices[0])
        does.click("Trash")
        does.click("Restore all 2 …")
        web.eventually_shows("2 jobs named 'invoice'")
        does.click("Restore 2")
        eventually_complete(*invoices)
        does.check_all_is_done()


def test_nothing_fires(web: Browser, start: Start, board: JobBoard, uri: str) -> None:
    board.schedules.add(Schedule("nightly", Every(seconds=1), "report"))
    conductor(start, board, uri, "mended", "--drain", "1")
    with console("--board", uri, "--name", "night", "--allow", "schedules") as web.root:
        web.open("/")
        does = Clicks(web, "Nothing fires")
        web.eventually_shows("No scheduler is alive; active schedules: 1.")
        does.click("Schedules")
        web.eventually_shows("nightly")
        start("scheduler", "--board", uri, "--name", "night")
        eventually(lambda: board.schedules.history("nightly"), within=60)
        does.click("schedule", is_called="nightly")
        web.eventually_shows("fired")
        board.schedules.pause("nightly")
        does.click("Fire now …")
        does.click("Fire now")
        web.eventually_shows("report")
        eventually(lambda: "/jobs/" in web.driver.current_url, within=DEADLINE)
        fired = board.get(web.driver.current_url.rpartition("/")[2])
        eventually_complete(fired)
        does.check_all_is_done()


def test_the_store_is_dead(web: Browser, start: Start) -> None:
    with RedisServer({"appendonly": "yes", "appendfsync": "always"}) as server, fetch("night", server.uri) as board:
        conductor(start, board, server.uri, "mended", "--drain", "1")
        with console("--board", server.uri, "--name", "night") as web.root:
            web.open("/b/night/jobs")
            web.choose("#refresh select", "1")
            later = board.post("resize", delay=1)
            server.kill()
            web.eventually_shows(f"Redis at 127.0.0.1:{server.port} can't be reached")
            server.start()
            does = Clicks(web, "The store is dead")
            # Nobody reloads it: it tries again by itself.
            eventually(lambda: "can't be reached" not in web.text(), within=DEADLINE * 2)
            eventually_complete(later)
            does.click("Health")
            does.click("Check all records")
            eventually(lambda: "All records agree." in web.text(), within=DEADLINE)
            does.check_all_is_done()
