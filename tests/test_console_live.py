"""A page hears of what happens by a request that waits, of which there is a bound, and which holds no thread."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from helpers.console import asking, served
from helpers.console_jobs import ask_as, board
from helpers.serving import serving

from jobboard import JobBoard, fetch
from jobboard.console import shared
from jobboard.console.pages import changes
from jobboard.console.view import View
from jobboard.operate.sampling import Sampler
from jobboard.testing import eventually

__all__ = ["board"]


def _later(act: Callable[[], object]) -> threading.Timer:
    timer = threading.Timer(0.3, act)
    timer.start()
    return timer


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> list[changes.Waiting]:
    """What counts the requests that wait, once there was one."""
    made = list[changes.Waiting]()

    class Seen(changes.Waiting):
        def __init__(self, board: JobBoard) -> None:
            super().__init__(board)
            made.append(self)

    monkeypatch.setattr(changes, "Waiting", Seen)
    return made


@pytest.fixture
def client(board: JobBoard) -> Any:
    with served({"jobs": board}) as url, httpx.Client(base_url=f"{url}/b/jobs", timeout=60) as client:
        yield client


def _asked(client: httpx.Client, **query: Any) -> int:
    return int(client.get("/changes", params=query).json()["total"])


def test_the_first_request_is_answered_at_once_and_the_next_one_when_something_happens(
    board: JobBoard, client: httpx.Client
) -> None:
    first = _asked(client)
    timer = _later(lambda: board.post("mail"))
    assert _asked(client, since=first) > first
    timer.join()
    assert _asked(client, since="a page that knows nothing") > first


def test_where_nothing_happens_the_answer_is_the_same_number(
    board: JobBoard, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_TIMEOUT", 0.5)
    first = _asked(client)
    assert _asked(client, since=first) == first


def test_what_shows_the_status_waits_for_the_next_look_and_not_for_events(
    board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sampler of this console looks when the test says so."""
    monkeypatch.setattr(changes, "_TIMEOUT", 1.0)
    monkeypatch.setattr(Sampler, "start", lambda _: None)
    seen = list[Sampler]()

    def sampler_of(view: View) -> Sampler:
        seen.append(shared.sampler_of(view))
        return seen[-1]

    monkeypatch.setattr(changes, "sampler_of", sampler_of)
    with served({"jobs": board}) as url, httpx.Client(base_url=f"{url}/b/jobs", timeout=60) as client:
        first = _asked(client, of="looks")
        board.post("mail")
        assert _asked(client, of="looks", since=first) == first
        for number in (1, 2, 3):
            timer = _later(seen[-1].look)
            assert _asked(client, of="looks", since=first + number - 1) == first + number
            timer.join()


@pytest.mark.parametrize("page", ["", "names", "health"])
def test_pages_of_what_the_sampler_saw_wait_for_looks(board: JobBoard, page: str) -> None:
    assert 'data-live="/b/jobs/changes?of=looks"' in ask_as(board).get(f"/b/jobs/{page}").text


def test_of_one_job_only_its_own_events_count(
    board: JobBoard, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = board.post("mail")
    first = _asked(client, job=job.uuid)
    monkeypatch.setattr(changes, "_TIMEOUT", 1.5)
    began = time.monotonic()
    timer = _later(lambda: board.post("other"))
    heard = _asked(client, job=job.uuid, since=first)
    assert time.monotonic() - began > 1.4, "another job's event must not be told"
    timer.join()
    monkeypatch.setattr(changes, "_TIMEOUT", 60.0)
    timer = _later(lambda: board.claim(job, "worker"))
    assert _asked(client, job=job.uuid, since=heard) > heard
    timer.join()


def test_of_too_many_that_wait_the_next_one_is_refused_and_no_thread_is_held(
    waiting: list[changes.Waiting], board: JobBoard, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "MAX_WAITING", 12)
    first = _asked(client)
    answers = list[int]()
    browsers = [
        threading.Thread(target=lambda: answers.append(client.get("/changes", params={"since": first}).status_code))
        for _ in range(12)
    ]
    for browser in browsers:
        browser.start()
    eventually(lambda: waiting[0].number == 12, within=20)
    assert client.get("/changes").status_code == 429
    # More wait than there are threads for a board; another page is shown at once.
    assert client.get("/jobs").status_code == 200
    board.post("mail")
    for browser in browsers:
        browser.join(20)
    assert answers == [200] * 12
    assert client.get("/changes").status_code == 200, "their places are free again"


def test_a_browser_that_goes_away_frees_its_place(
    waiting: list[changes.Waiting], board: JobBoard, client: httpx.Client
) -> None:
    first = _asked(client)
    with pytest.raises(httpx.ReadTimeout):
        client.get("/changes", params={"since": first}, timeout=1.0)
    eventually(lambda: waiting[0].number == 0, within=20)


def test_a_server_that_stops_waits_for_none_of_them(tmp_path: Path) -> None:
    uri, said = f"sqlite:///{tmp_path}/jobs.db", list[str]()
    with fetch("b", uri):
        pass  # it is there now
    with serving("--board", uri, "--name", "b", said=said) as url:
        first = httpx.get(f"{url}/b/b/changes", timeout=60).json()["total"]
        browser = socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0), 60)
        browser.sendall(f"GET /b/b/changes?since={first} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        # What was sent before is read before.
        assert httpx.get(f"{url}/b/b/jobs", timeout=60).status_code == 200
    with browser:
        assert browser.recv(1000).startswith(b"HTTP/1.1 200 ")
    assert "Cancel" not in "".join(said)
    assert "Traceback" not in "".join(said)


def test_without_rates_nothing_is_live(board: JobBoard) -> None:
    ask = asking({"jobs": board}, rates=False)
    assert ask.get("/b/jobs/changes").status_code == 404
    page = ask.get("/b/jobs/jobs").text
    assert "data-live" not in page
    assert 'value="live"' not in page
    live = ask_as(board).get("/b/jobs/jobs").text
    assert 'data-live="/b/jobs/changes"' in live
    assert '<option value="live" selected>' in live


def test_who_may_not_look_hears_nothing(board: JobBoard) -> None:
    assert asking({"jobs": board}, access=lambda _request: None).get("/b/jobs/changes").status_code == 403
