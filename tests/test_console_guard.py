"""What the console refuses before any page is asked, and what each answer carries."""

from __future__ import annotations

import hashlib
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import httpx
import pytest
from helpers.console import Asking, asking, links_of, served, text_of
from helpers.counted_requests import count_requests
from helpers.memory_board import board
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount
from starlette.types import Message

from jobboard import BoardUnavailable, Entity, JobBoard, Posting, fetch
from jobboard.console import RIGHTS, allow, app
from jobboard.console.guard import Guard
from jobboard.console.static_files import static_files
from jobboard.errors import MissingExtra

__all__ = ["board"]


def _refuse(*_: object) -> None:
    raise BoardUnavailable("no route to it")


VENDOR = Path(__file__).parent.parent / "jobboard" / "console" / "static" / "vendor"


@pytest.fixture
def changes() -> Asking:
    """What asks an app that answers any method with "changed", behind the console's guard."""

    async def answer(request: Request) -> Response:
        return PlainTextResponse("changed")

    inner = Starlette()
    inner.add_route("/", answer, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
    return Asking(Guard(inner, ["localhost"]))


def test_no_websocket_reaches_the_app_behind_the_guard() -> None:
    """Browsers let pages of any site open one, and it would carry none of the headers that the guard looks at."""
    sent: list[Message] = []

    async def refuse(*_: object) -> None:
        raise AssertionError("the app was asked")

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    anyio.run(Guard(refuse, ["*"]), {"type": "websocket", "path": "/", "headers": []}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"}, 403),
        ({}, 403),
        ({"Origin": "http://localhost"}, 200),
        ({"Origin": "http://localhost:81"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "https://localhost"}, 403),
        ({"Origin": "ftp://localhost"}, 403),
        ({"Origin": "//localhost"}, 403),
        ({"Origin": "HTTP://LOCALHOST"}, 200),
        ({"Origin": "http://localhost/"}, 403),
        ({"Origin": "http://evil@localhost"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Origin": "http://localhost, http://evil.example"}, 403),
        ([("Origin", "http://localhost"), ("Origin", "http://evil.example")], 403),
        ([("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "cross-site")], 403),
    ],
)
def test_changes_come_from_pages_of_the_console_only(
    changes: Asking, method: str, headers: dict[str, str] | list[tuple[str, str]], status: int
) -> None:
    answer = changes.ask(method, "/", headers=headers)
    assert (answer.status_code, answer.text == "changed") == (status, status == 200)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "application/json"}, 200),
        ({"Content-Type": "Application/JSON; charset=utf-8"}, 200),
        ({"Content-Type": "text/plain; application/json"}, 403),
        ({"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "application/json", "Origin": "http://evil.example"}, 403),
        ({"Content-Type": "application/json", "Host": "evil.example"}, 403),
    ],
)
def test_json_comes_from_programs_too(changes: Asking, headers: dict[str, str], status: int) -> None:
    assert changes.ask("POST", "/", headers=headers).status_code == status


def test_the_origin_of_a_console_by_tls_is_https(board: JobBoard) -> None:
    """An attacker on the network could serve a page of the same host without TLS."""
    ask = asking({"b": board}, access=allow("resume"))
    for origin, status in (("http://localhost", 403), ("https://localhost", 200)):
        headers, form = {"Origin": origin}, {"action": "resume", "name": "mail"}
        assert ask.post("https://localhost/b/b/names", form, headers=headers).status_code == status


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("LOCALHOST:8910", 200), ("127.0.0.1:8910", 200), ("[::1]:8910", 200), ("[::1]", 200),
        ("evil.example", 403), ("localhost.evil.example", 403), ("evil.example:8910", 403), ("", 403),
        ("localhost:evil.example", 403),
    ],
)  # fmt: skip
def test_only_known_hosts_are_answered(board: JobBoard, host: str, status: int) -> None:
    for path in ("/", f"/static/console.css?v={static_files()['console.css'].version}"):
        assert asking(board).get(path, headers={"Host": host}).status_code == status
    assert asking(board, hosts=["ops.example.com"]).get("/", headers={"Host": host}).status_code == 403
    assert asking(board, hosts=["*"]).get("/", headers={"Host": "any.example"}).status_code == 200


def test_a_mistyped_address_leads_on(board: JobBoard) -> None:
    ask = asking({"shop": board})
    page = ask.get("/b/shop/jbos/x")
    assert (page.status_code, "there is no such page" in page.text) == (404, True)
    assert 'href="/b/shop/jobs"' in page.text
    assert '<p><a href="/b/shop/">Overview of' in page.text
    for path, what in (("/b/shpo/jobs", "board"), ("/b/shpo/", "board"), ("/jobs", "page"), ("/b/shop", "page")):
        page = ask.get(path)
        assert (page.status_code, f"there is no such {what}" in page.text) == (404, True), path
        assert '<a href="/">The board</a>' in page.text, path
        assert ask.post(path).status_code in (404, 405)


def test_two_hosts_are_none(board: JobBoard) -> None:
    assert asking(board).get("/", headers=[("Host", "localhost"), ("Host", "localhost")]).status_code == 403


def test_every_answer_has_the_headers_that_browsers_need(board: JobBoard) -> None:
    ask = asking(board)
    answers = [ask.get("/"), ask.get("/none"), ask.get("/b/none/jobs"), ask.post("/", headers={})]
    assert [answer.status_code for answer in answers] == [200, 404, 404, 403]
    for answer in [*answers, ask.get("/static/console.css")]:
        policy = answer.headers["Content-Security-Policy"]
        assert policy == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        )
        assert (answer.headers["X-Content-Type-Options"], answer.headers["Referrer-Policy"]) == (
            "nosniff",
            "same-origin",
        )
    assert {answer.headers["Cache-Control"] for answer in answers} == {"no-store"}


def test_static_files_are_kept_by_their_content_and_are_no_way_out(board: JobBoard) -> None:
    ask = asking(board)
    found = ask.get(f"/static/console.js?v={static_files()['console.js'].version}")
    assert (found.headers["Content-Type"], found.headers["Content-Encoding"]) == (
        "text/javascript; charset=utf-8",
        "gzip",
    )
    assert "immutable" in found.headers["Cache-Control"]
    assert ask.get("/static/console.js?v=other").headers["Cache-Control"] == "no-cache"
    plain = ask.get("/static/console.js", headers={"Accept-Encoding": "identity"})
    assert (plain.content, plain.headers.get("Content-Encoding")) == (found.content, None)
    for path in ("../console.js", "%2e%2e/application.py", "/etc/passwd", "vendor/SHA256SUMS", "none.js"):
        assert ask.get(f"/static/{path}").status_code == 404


def test_vendored_files_are_those_that_were_packed() -> None:
    lines = [line.split() for line in (VENDOR / "SHA256SUMS").read_text().splitlines()]
    assert {name: digest for digest, name in lines} == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.iterdir()
        if path.name not in ("SHA256SUMS", "README.rst")
    }
    assert {"LICENSE.htmx", "LICENSE.uplot", "htmx.min.js", "hx-sse.min.js", "uPlot.iife.min.js"} <= {
        n for _, n in lines
    }


def test_a_page_with_all_that_it_loads_is_light(board: JobBoard) -> None:
    files = sum(len(file.compressed) for file in static_files().values())
    raw = httpx.Headers({"Accept-Encoding": "gzip"})
    page = int(asking(board).get("/", headers=raw).headers["Content-Length"])
    assert files + page <= 60_000


class TestAccess:
    def test_rights_are_none_by_default_and_none_means_no_look(self, board: JobBoard) -> None:
        assert asking(board).get("/").status_code == 200
        assert asking(board, access=lambda request: None).get("/").status_code == 403
        assert asking(board, access=lambda request: {"release"}).get("/").status_code == 200

    def test_access_may_be_a_coroutine(self, board: JobBoard) -> None:
        async def access(request: Request) -> set[str] | None:
            return set() if request.headers.get("x-team") == "ops" else None

        ask = asking(board, access=access)
        assert [ask.get("/", headers=headers).status_code for headers in ({}, {"X-Team": "ops"})] == [403, 200]

    def test_a_right_that_does_not_exist_is_told(self, board: JobBoard) -> None:
        with pytest.raises(ValueError, match=r"there is no right 'relaese'; there are details, cancel,"):
            allow("relaese")
        with pytest.raises(ValueError, match="relaese"):
            asking(board, access=lambda request: {"relaese"}).get("/")

    @pytest.mark.parametrize("rights", ["details", 7])
    def test_what_is_no_set_of_rights_is_told(self, board: JobBoard, rights: object) -> None:
        with pytest.raises(TypeError, match=rf"access= returned is wrong: .* not {type(rights).__name__}"):
            asking(board, access=lambda request: rights).get("/")

    def test_all_rights_are_known(self) -> None:
        assert allow(*RIGHTS) is not None

    def test_a_right_may_be_written_like_its_command(self, board: JobBoard) -> None:
        access = allow("run-now", "release")
        assert access(Request({"type": "http"})) == {"run_now", "release"}
        assert asking(board, access=access).get("/").status_code == 200


def test_each_page_has_a_key_of_its_own(board: JobBoard) -> None:
    other = fetch("other", "memory")
    page = asking([board, other]).get("/b/other/health").text
    keys = re.findall(r'data-go="(.)"', page)
    assert sorted(set(keys)) == sorted(keys)
    assert {"o", "j", "t", "b"} < set(keys)
    assert re.findall(r"<kbd>g</kbd> <kbd>(.)</kbd>", page) == [*keys[1:], keys[0]]
    other.close()


class TestBoards:
    def test_several_boards_are_listed(self) -> None:
        boards = [fetch(name, "memory") for name in ("a board", "b", "b")]
        page = asking(boards).get("/")
        for slug, title in (("a-board", "a board"), ("b", "b"), ("b-2", "b-2")):
            assert f'href="/b/{slug}/"><bdi>{title}</bdi></a>' in page.text
            assert asking(boards).get(f"/b/{slug}/jobs").status_code == 200
        for each in boards:
            each.close()

    def test_each_board_has_a_verdict_and_numbers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _well, bad, dead = boards = [fetch(name, f"memory://{name}") for name in ("well", "bad", "dead")]
        bad.connect()
        bad.post_many([Posting("mail")] * 3)
        bad.register_entity(Entity("conductor", "worker", {"names": ["mail"], "healthy": False, "fault": "x"}, 600))
        monkeypatch.setattr(dead, "connect", _refuse)
        ask = asking(boards)
        page = ask.get("/")
        rows = {
            name: text_of(row) for name, row in re.findall(r'<tr id="board-(\w+)">(.*?)</tr>', page.text, re.DOTALL)
        }
        assert list(rows)[-1] == "well"
        assert "All is well" in rows["well"]
        assert "1 problem worker can't run anything" in rows["bad"]
        assert re.search(r"3 unclaimed on bad \S+ 0 claimed on bad .* 1 conductors of bad \ds ago", rows["bad"])
        assert "1 problem" in rows["dead"]
        assert "no route to it" in rows["dead"]
        assert "/b/bad/jobs?state=unclaimed" in links_of(page)
        sent = count_requests(bad, monkeypatch)
        ask.get("/")
        assert sent == []
        for each in boards:
            each.close()

    def test_what_is_no_board_is_refused(self, board: JobBoard) -> None:
        for wrong in ("board", [1], {"a": 1}, 1):
            with pytest.raises(TypeError):
                app(wrong)  # type: ignore[arg-type]
        for empty in ([], {}, {"a/b": board}, {"..": board}, {"": board}):
            with pytest.raises(ValueError, match="board"):
                app(empty)
        for option in ("access", "on_action", "who", "format_details"):
            with pytest.raises(TypeError, match=option):
                app(board, **{option: "x"})
        with pytest.raises(TypeError, match="hosts"):
            app(board, hosts="localhost")

    def test_a_store_that_is_not_there_is_a_page(self, tmp_path: Path) -> None:
        board = fetch("b", f"sqlite:///{tmp_path}/none/jobs.db")
        page = asking(board).get("/b/b/jobs")
        assert page.status_code == 503
        assert "none; create it first" in page.text
        (tmp_path / "none").mkdir()
        assert asking(board).get("/b/b/jobs").status_code == 200
        board.close()


def test_a_store_that_hangs_holds_up_no_other_board(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, entered = threading.Event(), threading.Semaphore(0)
    slow, quick = fetch("slow", "memory"), fetch("quick", "memory")

    def connect(timeout: float = 10.0) -> None:
        entered.release()
        assert go_on.wait(60)

    monkeypatch.setattr(slow, "connect", connect)
    monkeypatch.setattr("jobboard.console.pages.boards._FIRST_LOOK", 0.2)
    with ThreadPoolExecutor() as browsers, served([slow, quick]) as url:
        waiting = [browsers.submit(httpx.get, f"{url}/b/slow/jobs", timeout=60) for _ in range(20)]
        try:
            assert entered.acquire(timeout=60)
            assert httpx.get(f"{url}/b/quick/jobs", timeout=60).status_code == 200
            assert "no answer yet" in httpx.get(url, timeout=60).text
        finally:
            go_on.set()
        assert {answer.result().status_code for answer in waiting} == {503}
    quick.close()


@pytest.mark.parametrize("prefix", ["/jobs", "/a/b"])
def test_links_lead_to_where_it_is_mounted(board: JobBoard, prefix: str) -> None:
    outer = Starlette(routes=[Mount(prefix, app(board))])
    page = Asking(outer, prefix).get("/")
    assert page.status_code == 200
    links = [part.split('"')[0] for part in page.text.split('href="')[1:]]
    assert {link[: len(prefix) + 1] for link in links if link[0] == "/"} == {f"{prefix}/"}
    (style,) = (link for link in links if "console.css" in link)
    assert Asking(outer).get(style).status_code == 200


def test_without_its_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import runpy

    monkeypatch.setitem(__import__("sys").modules, "starlette", None)
    with pytest.raises(MissingExtra, match=r"pip install 'jobboard\[console\]'"):
        runpy.run_path(str(VENDOR.parent.parent / "__init__.py"))
