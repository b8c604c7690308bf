"""The console in a real browser, on a board whose texts are markup, escapes, 200 KB long, or written from the right."""

from __future__ import annotations

import contextlib
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from harnesses.browser import DEADLINE, DESKTOP, PHONE, Browser, browser
from harnesses.console_process import console
from harnesses.hostile_board import fill
from harnesses.other_site import other_site
from selenium.webdriver import ActionChains, Keys

from jobboard import Every, Posting, Schedule, fetch
from jobboard.testing import eventually

# Each page is loaded several times.
pytestmark = [pytest.mark.timeout(400), pytest.mark.turn_of("the console in a browser")]

#: More kinds of pages there are not; a link that makes ever more of them would end the crawl here.
_MAX_PAGES = 80
_LINKS = "return [...document.links].map((link) => link.href)"
_NAMES_IN_ROWS = """
const inRows = document.querySelectorAll("tbody button, tbody a.button, td[data-label=Do] a");
return [...inRows].map((one) => one.textContent.trim());
"""
#: Whether the chart of jobs has a pixel in the colour of its first line, #0550ae.
_DRAWN = """
const canvas = document.querySelector("#chart-jobs canvas");
if (!canvas) { return false; }
const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
return data.some((red, at) => at % 4 === 0 && red === 5 && data[at + 1] === 80 && data[at + 2] === 174);
"""
#: What is chosen in a row of links, and where that and the row begin and end.
_CHOSEN = """
const row = document.querySelector(arguments[0]), chosen = row.querySelector("[aria-current]");
const [inner, outer] = [chosen, row].map((one) => one.getBoundingClientRect());
return [chosen.innerText, inner.left, inner.right, outer.left, outer.right];
"""
#: What the markup on the board would have made.
_MADE = """
return [window.pwned, document.querySelectorAll("img, script:not([src]), [onerror]").length];
"""


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('console')}/jobs.db"


@pytest.fixture(scope="module")
def uuids(uri: str) -> list[str]:
    with fetch("hostile", uri) as board:
        return [job.uuid for job in fill(board)]


@pytest.fixture(scope="module")
def web(uri: str, uuids: list[str]) -> Iterator[Browser]:
    allowed = ("--allow", "all", "--allow-host", "ops.example")
    with (
        browser("--host-resolver-rules=MAP *.example 127.0.0.1") as web,
        console("--board", uri, "--name", "hostile", *allowed) as web.root,
    ):
        yield web


@pytest.fixture(scope="module")
def pages(web: Browser, uuids: list[str]) -> list[str]:
    """Each path that links lead to, with a query and without."""
    web.open("/")
    # The last job is part of a graph, and the fourth is in the trash; the crawl may meet others first.
    special = [f"{web.root}/b/hostile/jobs/{path}" for path in (f"{uuids[-1]}/graph", f"{uuids[3]}/retry")]
    found = {_kind_of(url): url for url in [web.driver.current_url, *special]}
    seen = set[str]()
    while left := [url for url in found.values() if url not in seen]:
        assert len(found) < _MAX_PAGES, sorted(found)
        web.driver.get(left[0])
        seen.add(left[0])
        for link in web.script(_LINKS):
            if link.startswith(f"{web.root}/b/"):
                found.setdefault(_kind_of(link), link)
    return list(found.values())


def _jobs(web: Browser, uuids: list[str]) -> list[str]:
    return [f"{web.root}/b/hostile/jobs/{uuid}" for uuid in uuids]


def _kind_of(url: str) -> str:
    return f"{_path_of(url)}{'?' * bool(urlsplit(url).query)}"


def _path_of(url: str) -> str:
    """Return the path of a page, whichever job, name or schedule it is about."""
    return re.sub(r"^(/b/[^/]+/[^/]+)/[^/]+", r"\1/*", urlsplit(url).path)


_POST = """
const form = document.createElement("form");
form.method = "post";
form.action = arguments[0];
document.body.append(form);
form.submit();
"""


@pytest.mark.parametrize(
    ("of_page", "target", "answer"),
    [
        # The address has pages for GET only, so a request to change something gets that answer.
        ("127.0.0.1", "127.0.0.1", "Method Not Allowed"),
        # Without TLS, and not on this machine: browsers send no Sec-Fetch-Site there.
        ("ops.example", "ops.example", "Method Not Allowed"),
        ("localhost", "127.0.0.1", "asked for by a page of another site"),
        ("ops.example", "127.0.0.1", "asked for by a page of another site"),
        ("127.0.0.1", "evil.example", "does not answer to the host 'evil.example'"),
    ],
)
def test_only_its_own_pages_may_change_anything(web: Browser, of_page: str, target: str, answer: str) -> None:
    with other_site() if of_page != target else contextlib.nullcontext(web.root) as site:
        web.driver.get(site.replace("127.0.0.1", of_page))
        web.script(_POST, f"{web.root}/".replace("127.0.0.1", target))
        eventually(lambda: answer in web.text(), within=DEADLINE)
    web.messages()


def test_a_change_without_the_headers_of_a_browser_is_refused(web: Browser) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(f"{web.root}/", method="POST", data=b""), timeout=60)
    assert refused.value.code == 403
    assert b"neither Sec-Fetch-Site nor Origin" in refused.value.read()


def test_what_is_written_on_the_board_is_shown_as_text(web: Browser, pages: list[str], uuids: list[str]) -> None:
    for url in [*pages, *_jobs(web, uuids)]:
        web.driver.get(url)
        assert web.messages() == [], url
        assert web.script(_MADE) == [None, 0], url
        assert web.overflow() == 0, url
        web.resize(PHONE)
        assert web.overflow() == 0, f"{url} on a phone"
        web.resize(DESKTOP)
        assert len(web.driver.page_source) < 500_000, url


def test_everybody_can_use_each_page(web: Browser, pages: list[str]) -> None:
    """By the rules of axe-core: contrast, labels, headings, names of what can be clicked."""
    for url in {_path_of(url): url for url in pages}.values():
        web.driver.get(url)
        assert web.faults_of_access() == [], url
        web.prefer("dark")
        assert web.faults_of_access("color-contrast") == [], f"{url} in the dark"
        web.prefer("light")
    assert web.messages() == []


def test_what_changes_something_says_what_when_it_is_read_alone(web: Browser) -> None:
    """Screen readers list links and buttons without their rows."""
    for page in ("trash", "schedules", "names", "lanes", "conductors"):
        web.open(f"/b/hostile/{page}")
        names = web.script(_NAMES_IN_ROWS)
        assert sorted(set(names)) == sorted(names) != [], page


def test_each_page_works_without_javascript(web: Browser, pages: list[str]) -> None:
    for url in {_path_of(url): url for url in pages}.values():
        with web.without_javascript():
            web.driver.get(url)
            (heading,) = web.find("main h1")
            assert len(web.find("main")[0].text) > len(heading.text) > 0, url


@pytest.mark.parametrize(
    ("page", "row", "chosen"),
    [
        ("health", "header nav", "Health"),
        ("schedules", "header nav", "Schedules"),
        ("", "header nav", "Overview"),
        ("jobs?state=complete", ".tabs", "complete"),
        ("?span=14d", ".tabs", "14 days"),
    ],
)
def test_what_is_chosen_is_in_sight_on_a_phone(web: Browser, page: str, row: str, chosen: str) -> None:
    web.resize(PHONE)
    web.open(f"/b/hostile/{page}")
    said, left, right, first, last = web.script(_CHOSEN, row)
    web.resize(DESKTOP)
    assert said.startswith(chosen)
    assert first - 1 <= left < right <= last + 1


def test_no_card_is_narrower_than_what_is_in_it(web: Browser) -> None:
    web.resize(PHONE)
    web.open("/b/hostile/health")
    web.script("document.querySelector('.card .state').textContent = 'words and more words and still more words'")
    fits = web.script("return [...document.querySelectorAll('.card')].map((one) => one.scrollWidth <= one.clientWidth)")
    web.resize(DESKTOP)
    assert fits == [True] * 4


def test_a_refresh_leaves_the_focus_on_its_row(web: Browser, uri: str) -> None:
    focused = "const at = document.activeElement; return [at.textContent, at.closest('tr')?.id]"
    first = "return document.querySelector('tbody tr').innerText.includes('focus-a')"
    with fetch("hostile", uri) as board:
        for hours, id in (1000, "focus-a"), (2000, "focus-b"):
            board.schedules.add(Schedule(id, Every(hours=hours), "focused"))
        web.open("/b/hostile/schedules?q=focus-")
        web.choose("#refresh select", "1")
        assert web.script(first)
        web.script("document.querySelectorAll('tbody tr')[1].querySelector('summary').focus()")
        before = web.script(focused)
        assert before == ["Pause … focus-b", "schedule-focus-b"]
        board.schedules.pause("focus-a")
        eventually(lambda: not web.script(first), within=DEADLINE)
        assert web.script(focused) == before
        for id in ("focus-a", "focus-b"):
            board.schedules.remove(id)
    web.choose("#refresh select", "5")
    assert web.messages() == []


def test_rows_are_ticked_with_shift_and_stay_so(web: Browser, uri: str) -> None:
    ticks = "return [...document.querySelectorAll('[name=job]')].map((box) => box.checked)"
    with fetch("hostile", uri) as board:
        board.post_many([Posting("ticked") for _ in range(5)])
        web.open("/b/hostile/jobs?name=ticked")
        web.choose("#refresh select", "1")
        boxes = web.find("[name=job]")
        boxes[1].click()
        ActionChains(web.driver).key_down(Keys.SHIFT).click(boxes[3]).key_up(Keys.SHIFT).perform()
        assert web.script(ticks) == [False, True, True, True, False]
        board.post("ticked")
        threading.Event().wait(1.5)  # a refresh would come
        assert web.script(ticks) == [False, True, True, True, False]
        web.find(".tick-all")[0].click()
        assert web.script(ticks) == [True] * 5
        web.find(".tick-all")[0].click()
        boxes[0].click()
        web.click("Cancel …", within="main form:has(table)")
        eventually(lambda: "Cancel 1 job named 'ticked'?" in web.text(), within=DEADLINE)
        web.click("Cancel 1")
        eventually(lambda: "1 job named 'ticked' cancelled." in web.text(), within=DEADLINE)
        assert sum(job.name == "ticked" for job in board.iterjobs()) == 5
    web.open("/b/hostile/jobs")
    web.choose("#refresh select", "5")
    assert web.messages() == []


def test_a_limit_is_set_and_a_job_posted_once_by_clicks(web: Browser, uri: str) -> None:
    with fetch("hostile", uri) as board:
        web.open("/b/hostile/lanes")
        web.find("form[action$=limit] [name=lane]")[0].send_keys("clicked:*")
        web.click("Set a limit …", within="main")
        web.type("running", "2")
        web.click("Set …", within="main")
        web.click("Set the limit", within="main")
        eventually(lambda: [str(limit) for limit in board.limits if limit.lane == "clicked:*"], within=DEADLINE)
        web.open("/b/hostile/names/post?name=clicked")
        web.type("key", "once")
        # Who clicks twice sends two requests.
        web.script("const button = document.querySelector('main button'); button.click(); button.click()")
        eventually(lambda: "/b/hostile/jobs/" in web.driver.current_url, within=DEADLINE)
        assert [job.key for job in board.iterjobs(names={"clicked"})] == ["once"]
        assert web.driver.current_url.endswith(next(board.iterjobs(names={"clicked"})).uuid)
        board.limits.remove(lane="clicked:*")
    assert web.messages() == []


def test_the_refresh_can_be_paused(web: Browser, uri: str) -> None:
    web.open("/b/hostile/jobs?name=refreshed")
    shown = "return document.querySelectorAll('tbody tr').length"
    with fetch("hostile", uri) as board:
        web.choose("#refresh select", "1")
        board.post("refreshed")
        eventually(lambda: web.script(shown) == 1, within=DEADLINE)
        web.choose("#refresh select", "0")
        # The next document begins with what was chosen.
        web.driver.refresh()
        board.post("refreshed")
        assert web.script("return document.querySelector('#refresh select').value") == "0"
        requests = "return performance.getEntriesByType('resource').length"
        before = web.script(requests)
        threading.Event().wait(1.5)  # a refresh that is on would come
        assert web.script(requests) == before
        web.choose("#refresh select", "5")


def test_a_live_page_shows_what_happens_but_not_while_somebody_selects(web: Browser, uri: str) -> None:
    shown = "return document.querySelectorAll('tbody tr').length"
    waits = "return performance.getEntriesByType('resource').filter(({ name }) => name.includes('/changes')).length"
    with fetch("hostile", uri) as board:
        web.open("/b/hostile/jobs?name=heard")
        web.choose("#refresh select", "live")
        eventually(lambda: web.script(waits) > 0, within=DEADLINE)
        board.post("heard")
        eventually(lambda: web.script(shown) == 1, within=DEADLINE)
        web.script("getSelection().selectAllChildren(document.querySelector('h1'))")
        before = web.script(waits)
        board.post("heard")
        eventually(lambda: web.script(waits) > before, within=DEADLINE)
        threading.Event().wait(2.5)  # a refresh would come
        assert web.script(shown) == 1
        web.script("getSelection().removeAllRanges()")
        eventually(lambda: web.script(shown) == 2, within=DEADLINE)
    web.choose("#refresh select", "5")
    assert web.messages() == []


@pytest.mark.parametrize("page", ["", "health"])
def test_pages_of_numbers_are_live_and_change_in_place(web: Browser, uri: str, page: str) -> None:
    """What stands there stays the same element: nothing is taken away and drawn anew, which would flash."""
    waits = "return performance.getEntriesByType('resource').filter(({ name }) => name.includes('/changes?of=')).length"
    numbers = "document.querySelectorAll('#main h1, #main .card, #main dd, #chart-jobs canvas')"
    with fetch("hostile", uri) as board:
        web.open(f"/b/hostile/{page}")
        web.choose("#refresh select", "live")
        if not page:
            eventually(lambda: web.script(_DRAWN), within=DEADLINE)
        refreshed = "document.addEventListener('jobboard:refreshed', () => { window.times = (window.times ?? 0) + 1; })"
        web.script(f"{refreshed}; for (const one of {numbers}) {{ one.marked = true; }}")
        eventually(lambda: web.script(waits) > 0, within=DEADLINE)
        for _ in range(3):
            board.post("counted")
        web.script("getSelection().selectAllChildren(document.querySelector('h1'))")
        before = web.script(waits)
        eventually(lambda: web.script(waits) >= before + 2, within=DEADLINE)
        assert web.script("return window.times ?? 0") == 0
        web.script("getSelection().removeAllRanges()")
        eventually(lambda: web.script("return window.times ?? 0") >= 2, within=DEADLINE)
        if not page:
            eventually(
                lambda: web.script("return document.querySelector('[id=name-counted]') !== null"), within=DEADLINE
            )
        assert web.script(f"return [...{numbers}].every((one) => one.marked)")
    web.choose("#refresh select", "5")
    assert web.messages() == []


def test_keys_find_go_and_list_and_can_be_turned_off(web: Browser) -> None:
    def press(*keys: str) -> None:
        ActionChains(web.driver).send_keys(*keys).perform()

    focused = "return document.activeElement.name ?? ''"
    web.open("/b/hostile/health")
    press("g", "n")
    eventually(lambda: web.driver.current_url.endswith("/names"), within=DEADLINE)
    press("/")
    assert web.script(focused) == "q"
    press("gj?")
    assert web.script("return document.activeElement.value") == "gj?"
    web.open("/b/hostile/health")
    press("/")
    assert web.script(focused) == "q"
    press("focus", Keys.ENTER)
    eventually(lambda: "/jobs" in web.driver.current_url, within=DEADLINE)
    web.script("document.activeElement.blur()")
    press("?")
    assert web.script("return document.getElementById('keys').open")
    assert web.faults_of_access() == []
    web.find("#keys [type=checkbox]")[0].click()
    press(Keys.ESCAPE)
    press("g", "t", "?")
    assert not web.script("return document.getElementById('keys').open")
    assert "/jobs" in web.driver.current_url
    web.find("#list-keys")[0].click()
    web.find("#keys [type=checkbox]")[0].click()
    web.click("Close")
    press("g", "t")
    eventually(lambda: web.driver.current_url.endswith("/trash"), within=DEADLINE)
    assert web.messages() == []


def test_keys_move_tick_open_and_restore(web: Browser, uri: str) -> None:
    def press(*keys: str) -> None:
        ActionChains(web.driver).send_keys(*keys).perform()

    at = "return [...document.querySelectorAll('tbody tr')].findIndex((row) => row.classList.contains('at'))"
    with fetch("hostile", uri) as board:
        jobs = board.post_many([Posting("keyed") for _ in range(3)])
        for job in jobs:
            board.trash(job, by="me")
        web.open("/b/hostile/jobs?state=trashed&name=keyed")
        rows = web.script("return [...document.querySelectorAll('tbody tr')].map((row) => row.id.slice(4))")
        assert sorted(rows) == sorted(job.uuid for job in jobs)
        press("j", "j", "j", "j", "k")
        assert web.script(at) == 1
        press("r")
        assert "/bulk" not in web.driver.current_url
        press("x", "k", "x", "r")
        eventually(lambda: "Restore 2 jobs named 'keyed'?" in web.text(), within=DEADLINE)
        web.click("Restore 2")
        eventually(lambda: "2 jobs named 'keyed' restored." in web.text(), within=DEADLINE)
        assert sorted(job.uuid for job in board.iterjobs(names={"keyed"})) == sorted(rows[:2])
        web.open("/b/hostile/jobs?name=keyed")
        press("j", "j", Keys.ENTER)
        eventually(lambda: "/jobs/" in web.driver.current_url, within=DEADLINE)
        assert web.driver.current_url.rpartition("/")[2] in rows[:2]
        for job in board.iterjobs(names={"keyed"}):
            board.cancel(job)
    assert web.messages() == []


_BOXES = """
const box = (one) => one.getBoundingClientRect();
return [...document.querySelectorAll(".graph svg svg.node")].map((node) => {
  const { left, top, right, bottom } = box(node);
  return [node.querySelector("text").textContent, left, top, right, bottom];
});
"""


def test_a_graph_is_drawn_without_javascript_from_the_left_to_the_right(web: Browser, uri: str) -> None:
    with fetch("hostile", uri) as board:
        fetch_it = Posting("fetch")
        parts = [Posting("resize", after=[fetch_it]), Posting("scan", after=[fetch_it])]
        uuid = board.post_many([fetch_it, *parts, Posting("publish", after=parts)])[0].uuid
    with web.without_javascript():
        web.open(f"/b/hostile/jobs/{uuid}/graph")
        boxes = {name: sides for name, *sides in web.script(_BOXES)}
        assert sorted(boxes) == ["fetch", "publish", "resize", "scan"]
        left, top, right, bottom = range(4)
        assert boxes["fetch"][right] < boxes["resize"][left] == boxes["scan"][left]
        assert boxes["resize"][right] < boxes["publish"][left]
        upper, lower = sorted((boxes["resize"], boxes["scan"]), key=lambda box: box[top])
        assert upper[bottom] < lower[top]
        assert len(web.find(".graph path.edge")) == 4
        web.find(".graph a")[0].click()
        assert web.driver.current_url == f"{web.root}/b/hostile/jobs/{uuid}"


def test_the_charts_of_a_new_console_show_its_first_look(web: Browser, tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/new.db"
    with fetch("new", uri) as board, console("--board", uri, "--name", "new") as address:
        board.post("resize")
        web.driver.get(address)
        eventually(lambda: web.script(_DRAWN), within=DEADLINE)
        assert re.search(r"Known since 20\d\d-", web.text())
        # A page that looks again once the console is gone says so.
        assert web.messages() == []
