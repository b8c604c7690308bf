"""The overview of the console: a verdict, and charts that have a table beside them."""

from __future__ import annotations

import functools
import re
import shlex
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from html import unescape
from typing import Any

import httpx
import pytest
from helpers.console import Asking, asking, links_of, served, text_of
from helpers.counted_requests import count_requests
from helpers.memory_seam import fresh_name

from jobboard import BoardUnavailable, Entity, JobBoard, JobState, Posting, fetch
from jobboard.backends.memory import MemoryBackend
from jobboard.board import client_of
from jobboard.cli.app import run
from jobboard.console import allow, mending
from jobboard.console.charting import SPANS
from jobboard.console.shared import counted
from jobboard.operate.sampling import Bucket, Figures, Sampler
from jobboard.operate.sampling.lease import LEASE_BOOK
from jobboard.operate.verdict import Limits
from jobboard.testing import eventually

MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with fetch(fresh_name(), "memory://") as board:
        yield board


@pytest.fixture
def sampler(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sampler]:
    """The one that the console uses; it looks as often as the test says."""
    sampler = Sampler(board, interval=3600.0)
    monkeypatch.setattr("jobboard.console.pages.overview.sampler_of", lambda _view: sampler)
    yield sampler
    sampler.stop(20)


@pytest.fixture
def console(board: JobBoard, sampler: Sampler) -> Asking:
    return asking({"shop": board})


def test_the_overview_is_the_first_page_and_begins_with_a_verdict(board: JobBoard, console: Asking) -> None:
    board.post_many([Posting("mail")] * 3)
    (job,) = board.claim_next("me")
    board.trash(job, "me", reason="ValueError: no address 17")
    page = console.get("/")
    assert page.status_code == 200
    text = text_of(page)
    assert "2 warnings" in text
    assert "2 jobs named 'mail' wait" in text
    assert "Unclaimed 2" in text
    assert "ValueError" in text
    assert any(link.endswith("/b/shop/trash?name=mail") for link in links_of(page))
    assert any(link.endswith("/b/shop/names?q=mail") for link in links_of(page))


def test_problems_and_warnings_are_counted_and_marked(board: JobBoard, sampler: Sampler, console: Asking) -> None:
    unhealthy = {"names": ["mail"], "healthy": False, "fault": "no fork"}
    board.register_entity(Entity("conductor", "worker", unhealthy, 600))
    for name in ("mail", "resize"):
        board.trash(board.post(name), by="me")
    page = console.get("/")
    assert "1 problem, 2 warnings Problem worker can't run anything" in text_of(page)
    assert page.text.count('<li class="bad">') == 1
    assert page.text.count('<li class="warn">') == 1
    status = {"findings": [{"verdict": "BAD"}, {"verdict": "ATTENTION"}], "left_out": {"findings": 1234}}
    assert counted(status) == "1 problem, 1,235 warnings"


def test_what_is_alike_is_one_line_and_three_lines_are_shown_at_once(
    board: JobBoard, sampler: Sampler, console: Asking
) -> None:
    for name in ("a", "b", "c", "d", "e"):
        board.trash(board.post(name), by="me")
    said = text_of(console.get("/b/shop/"))
    assert "5 warnings Warning 5 names have jobs in the trash: a, b, c, d and 1 more 1 job named 'a' in" in said
    for number in range(5):
        unhealthy = {"names": ["mail"], "healthy": False, "fault": "no fork"}
        board.register_entity(Entity("conductor", f"worker-{number}", unhealthy, 600))
    sampler.look()
    page = asking({"shop": board}).get("/b/shop/").text
    before, _, folded = page.partition('<li class="more"><details><summary>7 more</summary>')
    assert (before.count('<li class="bad">'), folded.count('<li class="bad">')) == (3, 2)


def test_a_uuid_in_a_sentence_is_a_link(board: JobBoard, sampler: Sampler, console: Asking) -> None:
    parent = board.post("resize")
    board.post("publish", after=[parent])
    board.trash(parent, by="me")
    page = console.get("/b/shop/")
    assert f'<code title="{parent.uuid}">{parent.uuid[-8:]}</code></a>' in page.text
    assert f"/b/shop/jobs/{parent.uuid}" in links_of(page)


def test_what_mends_a_finding_is_a_button_or_else_a_command(board: JobBoard, sampler: Sampler) -> None:
    board.pause("mail one")
    board.pause()
    board.limits.set(lane="tenant:*", running=1)
    board.pause(lane="tenant:3")
    parent = board.post("resize")
    child = board.post("publish", after=[parent])
    for job in (parent, board.post("mail")):
        board.trash(job, by="me")
    told = text_of(asking({"shop": board}).get("/b/shop/"))
    for command in ("resume 'mail one'", "resume", "resume --lane tenant:3"):
        assert f" jobboard {command} " in told, command
    user = asking({"shop": board}, access=allow("resume", "restore"), who=lambda _: "ann")
    page = user.get("/b/shop/")
    assert not re.search("jobboard (resume|restore)", text_of(page))
    forms = re.findall(r'<form class="inline" method="post" action="([^"]*)">(.*?)</form>', page.text, re.DOTALL)
    assert len(forms) == 4
    for action, fields in forms:
        hidden = dict(re.findall(r'name="(\w+)" value="([^"]*)"', fields))
        assert user.post(unescape(action), hidden).status_code == 200
    assert (board.paused(), [limit.lane for limit in board.limits if limit.paused]) == (set(), [])
    assert (parent.state, child.state) == (JobState.UNCLAIMED, JobState.BLOCKED)


def test_who_went_away_and_who_has_all_slots_lead_to_their_pages(
    board: JobBoard, sampler: Sampler, console: Asking
) -> None:
    sampler._limits = Limits(wait=0)
    board.post_many([Posting("hog")] * 3)
    board.claim_next("dead", limit=2, expiry=600)
    slots = {"names": ["hog", "mail"], "concurrency": 2, "running": 2, "running_names": {"hog": 2}}
    board.register_entity(Entity("conductor", "alive", slots, 600))
    board.register_entity(Entity("conductor", "dead", {"names": ["hog"]}, 0.001))
    board.post("mail")
    eventually(lambda: not all(entity.alive for entity in board.entities()))
    page = console.get("/b/shop/")
    assert "If it is dead, give them back now with: jobboard release --owner dead" in text_of(page)
    assert "Jobs named 'hog' have all 2 slots of 1 conductor, while 1 job named 'mail' waits" in text_of(page)
    for where in ("conductors?q=dead", "names?q=hog"):
        assert any(link.endswith(f"/b/shop/{where}") for link in links_of(page)), where
    user = asking({"shop": board}, access=allow("limits"))
    (where,) = (link for link in links_of(user.get("/b/shop/")) if "/limit" in link)
    assert "Limit of the name hog" in text_of(user.get(where))


def test_each_command_that_mends_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(mending.COMMANDS) <= set(mending.PAGES)
    for command in mending.COMMANDS.values():
        assert run([*shlex.split(mending.filled(command, "x"))[1:], "--help"]) == 0, command
    assert "Usage" in capsys.readouterr().out


def test_a_board_without_jobs_is_well_and_a_console_says_who_would_run_them(
    board: JobBoard, sampler: Sampler, console: Asking
) -> None:
    page = console.get("/b/shop/")
    assert "All is well, and no conductor is alive" in text_of(page)
    assert "Blocked 0 Trashed 0" in text_of(page)
    assert "There were no jobs in this time, so there are no charts." in text_of(page)
    assert ("message good" in page.text, "Each point" in page.text, "as a table" in page.text) == (False,) * 3
    board.register_entity(Entity("conductor", "worker", {"names": ["mail"], "concurrency": 1}, ttl=600.0))
    sampler.look()
    page = asking({"shop": board}).get("/b/shop/")
    assert ("message good" in page.text, "no conductor is alive" in page.text) == (True, False)


def test_names_have_all_states_on_the_overview(board: JobBoard, sampler: Sampler, console: Asking) -> None:
    board.limits.set(name="mail", running=2)
    parent, _ = board.post_many([Posting("mail"), Posting("mail")])
    board.claim(parent, "w")
    board.post_many([Posting("resize", after=[parent]), Posting("resize", after=[parent]), Posting("remind", delay=60)])
    said = text_of(console.get("/b/shop/"))
    assert "Name Unclaimed Next waits Delayed Blocked Claimed Trashed Conductors " in said
    assert re.search(r"mail 1 \S+ 0 0 1 of 2 0 0 ", said)
    assert "remind 0 - 1 0 0 0 0 " in said
    assert "resize 0 - 0 2 0 0 0 " in said


def test_a_dead_store_is_a_verdict_and_no_error(
    board: JobBoard, sampler: Sampler, console: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BoardUnavailable("connection refused")

    monkeypatch.setattr(client_of(board).backend.jobs, "stats", refuse)
    page = console.get("/b/shop/")
    assert page.status_code == 200
    assert "1 problem Problem" in text_of(page)
    assert "connection refused" in text_of(page)


def test_charts_and_their_table_have_the_history_of_all_and_of_a_name(
    board: JobBoard, sampler: Sampler, console: Asking
) -> None:
    board.post_many([Posting("mail")] * 3)
    board.limits.set(lane="tenant:*", running=1)
    board.post_many([Posting("resize", lane="tenant:1")] * 3)
    sampler.look()
    now = sampler.minutes(0)[-1].at
    earlier = Figures(waiting=7, posted=30, finished=20, failed=2, oldest=90)
    sampler._minutes._buckets[now - 120] = Bucket(now - 120, earlier, {"mail": Figures(waiting=6)})
    lines = console.get("/b/shop/history.json").json()
    # What was before the first look has no room, but for some.
    assert len(lines["at"]) == 10
    assert lines["at"][-1] == now
    assert lines["waiting"][-4:] == [None, 7, None, 4]
    assert lines["blocked"][-4:] == [None, 0, None, 2]
    assert lines["posted"][-3:] == [30.0, None, None]
    assert console.get("/b/shop/history.json?name=mail").json()["waiting"][-3:] == [6, None, 3]
    table = text_of(console.get("/b/shop/"))
    assert "30 20 2" in table
    assert "Overview of mail" in text_of(console.get("/b/shop/?name=mail"))
    since = datetime.fromtimestamp(now - 120, UTC)
    assert f"Known since {since:%Y-%m-%d %H:%M:%S} UTC" in table
    assert "Each point is of 1m;" in table
    for span in SPANS:
        assert console.get(f"/b/shop/history.json?span={span}").json()["waiting"][-1] >= 4, "the present is shown, too"
        lines = console.get(f"/b/shop/history.json?span={span}").json()
        assert len(lines["at"]) == 10
        names = [lines.pop("names"), lines.pop("starts")][0]
        assert len({len(line) for line in [*lines.values(), *(each["waiting"] for each in names)]}) == 1
    assert len(console.get("/b/shop/history.json?span=nonsense").json()["at"]) == 10
    sampler._minutes._buckets[now - 7200] = Bucket(now - 7200, earlier, {})
    for span, number in ("1h", 10), ("6h", 121):
        assert len(asking({"shop": board}).get(f"/b/shop/history.json?span={span}").json()["at"]) == number


def test_charts_have_the_largest_names_and_when_conductors_began(
    board: JobBoard, sampler: Sampler, console: Asking
) -> None:
    board.post_many([Posting(name) for name in ("a", "b", "c", "d", "e") for _ in range(ord(name))])
    for name, uptime in ("young", 120), ("old", 7200), ("odd", -1), ("none", None):
        board.register_entity(Entity("conductor", name, {"uptime": uptime}, ttl=600.0))
    sampler.look()
    lines = console.get("/b/shop/history.json").json()
    assert [(line["name"], line["waiting"][-1]) for line in lines["names"]] == [
        ("e", 101), ("d", 100), ("c", 99), ("b", 98)
    ]  # fmt: skip
    assert [round(lines["at"][-1] - at, -2) for at in lines["starts"]] == [100]
    known = sampler.minutes(0)[-1].at - 7200
    sampler._minutes._buckets[known] = Bucket(known, Figures(), {})
    assert len(console.get("/b/shop/history.json?span=6h").json()["starts"]) == 2
    assert console.get("/b/shop/history.json?name=a").json()["names"] == []
    page = console.get("/b/shop/")
    assert "▲: a conductor began." in text_of(page)


def test_names_and_reasons_are_shown_as_text(board: JobBoard, console: Asking) -> None:
    board.post(MARKUP)
    (job,) = board.claim_next("me")
    board.trash(job, "me", reason=MARKUP)
    for path in ("", f"?name={MARKUP}", "history.json"):
        assert "<img" not in console.get(f"/b/shop/{path}").text


def test_a_hundred_browsers_cost_the_store_one_sample(
    board: JobBoard, sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.post_many([Posting("mail")] * 3)
    sent = count_requests(board, monkeypatch)
    pages: list[int] = []

    def look(url: str) -> None:
        with httpx.Client(base_url=url, timeout=60, verify=False) as browser:
            for path in ("", "history.json"):
                pages.append(browser.get(f"/b/shop/{path}").status_code)

    monkeypatch.setattr("jobboard.console.application.Sampler", lambda *_args, **_options: sampler)
    with served({"shop": board}) as url:
        sampler.status(20)
        sampler.look()
        sent.clear()
        browsers = [threading.Thread(target=look, args=(url,)) for _ in range(100)]
        for browser in browsers:
            browser.start()
        for browser in browsers:
            browser.join(60)
        assert pages == [200] * 200
        assert sent == []
        sampler.look()
        assert sent.count("stats") == 1
        # A minute that is over is saved, too.
        assert len(sent) <= 16


def _is_counted(board: JobBoard) -> bool:
    return board.connected and LEASE_BOOK in [book.uuid for book in board.books()]


def test_a_console_that_nobody_looks_at_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    boards = [fetch(fresh_name(), "memory://") for _ in range(3)]
    away = fetch(fresh_name(), "memory://")

    def refuse(*_: object) -> None:
        raise BoardUnavailable("connection refused")

    monkeypatch.setattr(away, "connect", refuse)
    with served([away, *boards]) as url:
        for board in boards:
            eventually(functools.partial(_is_counted, board), 20)
        assert "connection refused" in text_of(httpx.get(f"{url}/b/{away.name}/", timeout=60).text)
    for board in boards:
        assert board.load_book(LEASE_BOOK).meta["holder"] is None
        board.close()


def test_a_page_weighs_less_than_60_kb(board: JobBoard, console: Asking) -> None:
    board.post_many([Posting(f"name-{number}") for number in range(150)])
    page = console.get("/b/shop/")
    files = {link for link in links_of(page) if "/static/" in link}
    files |= {part.split('"')[0] for part in page.text.split('src="')[1:] if "/static/" in part.split('"')[0]}
    assert len(files) == 8
    weights = [
        int(console.get(path).headers["content-length"]) for path in ("/b/shop/", "/b/shop/history.json", *files)
    ]
    assert sum(weights) < 60_000


def test_a_console_whose_store_is_down_at_first_says_so_and_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    board = fetch(fresh_name(), "memory://")
    sampler = Sampler(board, interval=3600.0)
    monkeypatch.setattr("jobboard.console.pages.overview.sampler_of", lambda _view: sampler)
    console = asking({"shop": board})

    def refuse(*_: object) -> None:
        raise BoardUnavailable("connection refused")

    try:
        with monkeypatch.context() as patched:
            patched.setattr(MemoryBackend, "open", refuse)
            page = console.get("/b/shop/")
            assert (page.status_code, "connection refused" in text_of(page)) == (200, True)
        sampler.look()
        assert "All is well" in text_of(console.get("/b/shop/"))
    finally:
        sampler.stop(20)
        board.close()


@pytest.mark.parametrize("rates", [True, False])
def test_without_rates_a_console_listens_to_no_events(
    rates: bool, board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    listeners: list[object] = []
    subscribe = JobBoard.subscribe

    def counted(self: JobBoard, tell: Any, *args: Any) -> Callable[[], None]:
        listeners.append(tell)
        return subscribe(self, tell, *args)

    monkeypatch.setattr(JobBoard, "subscribe", counted)
    with served({"shop": board}, rates=rates) as url:
        assert httpx.get(f"{url}/b/shop/", timeout=60).status_code == 200
        eventually(lambda: len(listeners) == int(rates), 20)


@pytest.mark.parametrize(("limits", "is_well"), [(None, True), (Limits(wait=0.0), False)])
def test_how_long_jobs_may_wait_is_an_option(limits: Limits | None, is_well: bool, board: JobBoard) -> None:
    board.post("mail")
    board.register_entity(Entity("conductor", "worker", {"names": ["mail"], "concurrency": 1}, ttl=600.0))
    with served({"shop": board}, limits=limits) as url:
        said = text_of(httpx.get(f"{url}/b/shop/", timeout=60).text)
    assert ("1 warning" not in said) is is_well


def test_limits_of_another_type_are_refused(board: JobBoard) -> None:
    with pytest.raises(TypeError, match="limits must be Limits"):
        asking(board, limits=60)
