"""What the console's pages say of a board on which nothing is: what to do."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from html import unescape

import pytest
from helpers.console import Asking, asking, links_of, text_of
from helpers.memory_seam import fresh_name

from jobboard import fetch
from jobboard.cli.app import run
from jobboard.console import RIGHTS, allow

#: What each page offers: a command, or the way back to all.
COMMANDS = {
    "": "post", "names": "post", "jobs": "post", "lanes": "limits", "conductors": "conductor", "schedules": "schedule",
}  # fmt: skip


@pytest.fixture(scope="module")
def console() -> Iterator[Asking]:
    with fetch(fresh_name(), "memory://") as board:
        yield asking({"shop": board}, access=allow(*RIGHTS))


@pytest.mark.parametrize("path", COMMANDS)
def test_an_empty_page_has_a_command_that_there_is(
    console: Asking, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = console.get(f"/b/shop/{path}").text
    parts = re.findall(r'<div class="nothing">.*?</div>', page, re.DOTALL)
    commands = [unescape(text) for part in parts for text in re.findall(r"<code>(.*?)</code>", part)]
    assert any(command.startswith(f"jobboard {COMMANDS[path]}") for command in commands)
    for command in commands:
        assert run([*shlex.split(command)[1:], "--help"]) == 0, command
    assert "Usage" in capsys.readouterr().out
    assert path == "" or "<table" not in page


@pytest.mark.parametrize(
    ("path", "back"),
    [
        ("names?q=x", "names"),
        ("conductors?q=x", "conductors"),
        ("schedules?q=x", "schedules"),
        ("events?name=x", "events"),
        ("trash?name=x", "trash"),
        ("jobs?state=trashed&name=x", "jobs?state=trashed"),
    ],
)
def test_a_search_that_finds_nothing_leads_back_to_all(console: Asking, path: str, back: str) -> None:
    page = console.get(f"/b/shop/{path}")
    (part,) = re.findall(r'<div class="nothing">.*?</div>', page.text, re.DOTALL)[:1]
    assert f'href="/b/shop/{back}"' in part, text_of(page)
    assert f"/b/shop/{back}" in links_of(page)


@pytest.mark.parametrize("state", ["claimed", "delayed", "blocked", "trashed", "complete"])
def test_each_state_says_what_would_be_there(console: Asking, state: str) -> None:
    said = text_of(console.get(f"/b/shop/jobs?state={state}"))
    assert re.search(r"(No job|No record|The trash) .*[.] .*[.]|No job is blocked, by its lane", said)


def test_a_key_that_no_job_on_the_board_has_leads_to_those_that_ended() -> None:
    with fetch(fresh_name(), "memory://") as board:
        ask = asking({"shop": board})
        trashed, done, other = (board.post(name, key="4711") for name in ("invoice", "mail", "sms"))
        board.trash(trashed, by="me", reason="no customer <17>")
        board.claim(done, "w")
        board.consume(done, "w")
        board.cancel(board.post("call", key="4712"))
        path = "/b/shop/jobs?key=4711"
        assert "ended had this key" not in text_of(ask.get(path))
        board.cancel(other)
        page = ask.get(path)
        assert "Jobs that ended had this key: " in text_of(page)
        assert "UTC: no customer <17>" in text_of(page)
        assert {f"/b/shop/jobs/{job.uuid}" for job in (trashed, done)} <= set(links_of(page))
        for other_path in ("jobs?key=4712", "jobs?key=4711&state=trashed", "jobs?key_prefix=4711"):
            assert "ended had this key" not in text_of(ask.get(f"/b/shop/{other_path}"))
