"""The console in a window as narrow as a phone: what can be tapped there, what comes first, and where lines end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from harnesses.browser import DEADLINE, DESKTOP, PHONE, Browser, browser
from harnesses.console_in_process import console_in_process
from harnesses.console_scenes import night, shop

from jobboard import JobBoard
from jobboard.console import RIGHTS, allow
from jobboard.testing import eventually

pytestmark = pytest.mark.timeout(400)

_SMALL = """
const targets = document.querySelectorAll("tr a, dd a, .findings a, .card > a, button, input, select, summary");
const height = (one) => one.getBoundingClientRect().height;
return [...targets].filter((one) => height(one) > 1 && height(one) < 24).map((one) => one.outerHTML.slice(0, 200));
"""
_HEADS = "return [...document.querySelectorAll('.sorts thead')].map((one) => one.clientHeight)"
_BROKEN = """
const isBroken = (word) => word.textContent.length < 20 && word.getBoundingClientRect().height > 26;
return [...document.querySelectorAll(".command > span")].filter(isBroken).map((word) => word.textContent);
"""
_TOPS = "return ['.panels', '.past'].map((one) => document.querySelector(one).getBoundingClientRect().top)"


@pytest.fixture(scope="module")
def orders() -> Iterator[JobBoard]:
    with night() as (board, _failed):
        yield board


@pytest.fixture(scope="module")
def web(orders: JobBoard) -> Iterator[Browser]:
    with contextlib.ExitStack() as opened:
        boards = {"shop": opened.enter_context(shop())[0], "orders": orders}
        web = opened.enter_context(browser())
        web.root = opened.enter_context(console_in_process(boards, access=allow(*RIGHTS), who=lambda _: "ada"))
        yield web


@pytest.fixture
def phone(web: Browser) -> Iterator[Browser]:
    web.resize(PHONE)
    yield web
    web.resize(DESKTOP)


@pytest.mark.parametrize("board", ["shop", "orders"])
@pytest.mark.parametrize("page", ["", "jobs", "trash", "names", "lanes", "conductors", "schedules"])
def test_what_is_tapped_is_large_enough_and_rows_begin_at_once(phone: Browser, board: str, page: str) -> None:
    """Success criterion 2.5.8 of WCAG 2.2; links in sentences are exempt."""
    phone.open(f"/b/{board}/{page}")
    assert phone.script(_SMALL) == []
    assert all(height <= 40 for height in phone.script(_HEADS))


def test_what_is_now_comes_before_what_was(phone: Browser) -> None:
    phone.open("/b/orders/")
    names, past = phone.script(_TOPS)
    phone.resize(DESKTOP)
    on_desktop = phone.script(_TOPS)
    assert (names < past, on_desktop[0] > on_desktop[1]) == (True, True)


def test_no_option_of_a_command_is_broken(web: Browser) -> None:
    web.open("/b/orders/")
    assert len(web.find(".command")) > 0
    for width in range(390, 1290, 50):
        web.resize((width, 900))
        assert web.script(_BROKEN) == [], width
    web.resize(DESKTOP)


def test_nothing_ticked_leads_back_to_the_list(web: Browser, orders: JobBoard) -> None:
    job = orders.post("nothing ticked")
    web.open("/b/orders/jobs?name=nothing+ticked")
    web.click("Cancel …", within="[aria-label='The ticked jobs']")
    eventually(lambda: "Tick the jobs first" in web.text(), within=DEADLINE)
    assert job.uuid[-8:] in web.text()
