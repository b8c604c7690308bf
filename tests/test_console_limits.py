"""Limits are set, changed and removed in the console: what changes is shown first, and by whom it was is kept."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from helpers.console import Asking, fields_of, links_of, text_of
from helpers.console_jobs import ask_as, board, on_both

from jobboard import Job, JobBoard, JobState, Limit, Posting, Rate
from jobboard.console import RIGHTS

__all__ = ["board"]

_PATH = "/b/jobs/lanes/limit"
_MARKUP = "<script>alert(1)</script>"


def _confirmed(ask: Asking, form: dict[str, str], action: str = "set") -> tuple[httpx.Response, httpx.Response]:
    """Send the form, and what the page sends that it leads to; return both answers."""
    asked = ask.post(_PATH, form | {"action": action})
    assert asked.status_code == 200, text_of(asked)
    return asked, ask.post(_PATH, fields_of(asked) | {"action": action})


def _blocked(board: JobBoard) -> list[Job]:
    return list(board.iterjobs(states={JobState.BLOCKED}))


@on_both
def test_a_limit_is_set_changed_and_removed_and_each_change_is_shown_first(board: JobBoard) -> None:
    told: list[tuple[Any, ...]] = []
    ask = ask_as(board, "limits", on_action=lambda *action: told.append(action))
    form = fields_of(ask.get(_PATH, params={"lane": "tenant:*"}))
    assert form == {"lane": "tenant:*", "running": "", "rate": "", "burst": "", "reason": ""}
    asked, done = _confirmed(ask, form | {"running": "2", "reason": "fair shares"})
    assert (
        "Set the limit of the lanes tenant:* ? What changes Term Now Then May run at a time any number 2 "
        in text_of(asked)
    )
    assert str(done.url).endswith("/b/jobs/lanes#limits")
    assert re.search(r"lane tenant:\* 2 - free by ann \d+s ago : fair shares", text_of(done))
    board.post_many([Posting("mail", lane="tenant:1")] * 4)
    assert len(_blocked(board)) == 2

    page = ask.get(_PATH, params={"lane": "tenant:*"})
    assert re.search(r"It was set by ann \d+s ago : fair shares", text_of(page))
    form = fields_of(page)
    assert form["running"] == "2"
    asked, _ = _confirmed(ask, form | {"running": "3", "rate": "30/1m", "burst": "5", "order": "strict"})
    assert "May run at a time 2 3 Rate of starts any 30 per 60 s, burst 5 Order free strict" in text_of(asked)
    limit = board.limits.get(lane="tenant:*")
    assert limit is not None
    assert (limit.running, limit.rate, limit.order, limit.by) == (3, Rate(30, 60, 5), "strict", "ann")
    assert len(_blocked(board)) == 1
    form = fields_of(ask.get(_PATH, params={"lane": "tenant:*"}))
    assert {term: form[term] for term in ("running", "rate", "burst", "order")} == {
        "running": "3", "rate": "30/60s", "burst": "5", "order": "strict"
    }  # fmt: skip

    asked, _ = _confirmed(ask, {"lane": "tenant:*"}, "remove")
    assert (
        "Remove the limit of the lanes tenant:* ? What changes Term Now Then May run at a time 3 any number"
        in text_of(asked)
    )
    assert list(board.limits) == []
    assert _blocked(board) == []
    assert told == [("ann", "limits", ["lane tenant:*"])] * 3


def test_a_limit_of_a_name_has_a_number_only_and_shows_its_use(board: JobBoard) -> None:
    board.post_many([Posting("mail")] * 3)
    for job in list(board.iterjobs())[:2]:
        board.claim(job, "worker")
    ask = ask_as(board, "limits")
    assert f"{_PATH}?name=mail" in links_of(ask.get("/b/jobs/names"))
    page = ask.get(_PATH, params={"name": "mail"})
    assert "2 of its jobs are claimed now." in text_of(page)
    form = fields_of(page)
    assert set(form) == {"name", "running", "reason"}
    asked, done = _confirmed(ask, form | {"running": "1"})
    assert "2 of its jobs are claimed now: what runs goes on, and nothing starts until it fits." in text_of(asked)
    assert "name mail 2 of 1 - free by ann" in text_of(done)
    assert board.limits.get(name="mail").running == 1  # type: ignore[union-attr]
    assert f"{_PATH}?name=mail" in links_of(done)
    asked, _ = _confirmed(ask, form | {"running": "0"})
    assert "Nothing of it starts until another limit is set." in text_of(asked)


def test_the_limit_of_a_prefix_is_told_of_its_lanes(board: JobBoard) -> None:
    board.limits.set(lane="tenant:*", running=2, order="strict")
    board.post_many([Posting("mail", lane="tenant:1")] * 3)
    ask = ask_as(board, "limits")
    assert f"{_PATH}?lane=tenant%3A1" in links_of(ask.get("/b/jobs/lanes"))
    text = text_of(ask.get(_PATH, params={"lane": "tenant:1"}))
    assert "As long as it has none, that of tenant:* holds: 2 running, strict order. 2 of its slots are taken" in (
        text.replace("May run at a time Rate of starts Burst Order free strict Why, for the history Set … Back ", "")
    )
    asked, _ = _confirmed(ask, {"lane": "tenant:1", "running": "3"})
    assert "Now the limit of tenant:* holds for it: 2 running, strict order. Then it does not." in text_of(asked)
    asked, _ = _confirmed(ask, {"lane": "tenant:1"}, "remove")
    assert "Then the limit of tenant:* holds for it: 2 running, strict order." in text_of(asked)


def test_a_pause_stays_and_is_no_limit(board: JobBoard) -> None:
    board.pause(lane="tenant:1", by="bob")
    ask = ask_as(board, "limits")
    assert "It has no limit of its own." in text_of(ask.get(_PATH, params={"lane": "tenant:1"}))
    assert ask.post(_PATH, {"action": "remove", "lane": "tenant:1"}).status_code == 409
    _confirmed(ask, {"lane": "tenant:1", "running": "3"})
    limit = board.limits.get(lane="tenant:1")
    assert limit is not None
    assert (limit.running, limit.paused) == (3, True)
    _confirmed(ask, {"lane": "tenant:1"}, "remove")
    assert [(limit.running, limit.paused) for limit in board.limits] == [(None, True)]


def test_what_somebody_else_has_changed_meanwhile_is_shown_again(board: JobBoard) -> None:
    board.limits.set(lane="stripe", running=2)
    ask = ask_as(board, "limits")
    asked = ask.post(_PATH, {"action": "set", "lane": "stripe", "running": "5"})
    board.limits.set(lane="stripe", running=9, by="bob")
    page = ask.post(_PATH, fields_of(asked) | {"action": "set"})
    assert page.status_code == 409
    assert "somebody else has changed it since. Look at it again." in text_of(page)
    assert "May run at a time 9 5" in text_of(page)
    assert board.limits.get(lane="stripe").running == 9  # type: ignore[union-attr]
    ask.post(_PATH, fields_of(page) | {"action": "set"})
    assert board.limits.get(lane="stripe").running == 5  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("form", "status", "said"),
    [
        ({"lane": "a", "running": "x"}, 400, "'x' is no whole number"),
        ({"lane": "a", "running": "-1"}, 400, "'-1' is no whole number"),
        ({"lane": "a", "running": "9" * 10}, 400, "running must be"),
        ({"lane": "a", "rate": "30"}, 400, "'30' is no rate, such as 30/60s or 1/5m"),
        ({"lane": "a", "burst": "3"}, 400, "a burst belongs to a rate"),
        ({"lane": "a", "running": "1", "order": "x"}, 400, "order must be"),
        ({"lane": "a"}, 400, "the limit says nothing"),
        ({"name": "mail", "rate": "1/1s"}, 400, "a rate and a strict order are of lanes"),
        ({"name": "mail:*", "running": "1"}, 400, "a limit of a name is of exactly that name"),
        ({"lane": "there", "running": "4"}, 409, "it has this limit already"),
    ],
)
def test_what_is_no_limit_is_told_and_kept_in_the_form(
    board: JobBoard, form: dict[str, str], status: int, said: str
) -> None:
    board.limits.set(lane="there", running=4)
    page = ask_as(board, "limits").post(_PATH, form | {"action": "set", "reason": "why"})
    assert page.status_code == status
    assert f"Nothing was changed: {said}" in text_of(page)
    kept = fields_of(page)
    assert {name: kept[name] for name in form if name in kept and name != "order"} == {
        name: value for name, value in form.items() if name in kept and name != "order"
    }
    assert kept["reason"] == "why"
    assert [limit.running for limit in board.limits] == [4]


def test_what_can_have_no_limit_is_no_page(board: JobBoard) -> None:
    ask = ask_as(board, "limits")
    for wrong in ({}, {"lane": "a", "name": "b"}, {"lane": "a:"}, {"lane": "*"}, {"name": "x" * 300}, {"lane": "\0"}):
        assert ask.get(_PATH, params=wrong).status_code == 400
        assert ask.post(_PATH, wrong | {"action": "set", "running": "1", "confirmed": "yes"}).status_code == 400
    assert ask.post(_PATH, {"lane": "a", "running": "1", "action": "x"}).status_code == 400
    assert list(board.limits) == []


def test_without_the_right_or_from_another_site_nothing_is_changed(board: JobBoard) -> None:
    board.limits.set(lane="a", running=1)
    reader = ask_as(board, *(set(RIGHTS) - {"limits"}))
    form = {"action": "remove", "lane": "a", "confirmed": "yes", "before": "running=1"}
    assert reader.get(_PATH, params={"lane": "a"}).status_code == 403
    assert reader.post(_PATH, form).status_code == 403
    for page in ("lanes", "names"):
        assert "/lanes/limit" not in reader.get(f"/b/jobs/{page}").text
    anybody = ask_as(board, *RIGHTS)
    for headers in ({}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}):
        assert anybody.post(_PATH, form, headers=headers).status_code == 403
    assert [limit.running for limit in board.limits] == [1]
    assert anybody.post(_PATH, form).status_code == 200
    assert list(board.limits) == []


@on_both
def test_a_job_that_waits_for_a_limit_leads_to_its_form_with_what_is_advised(board: JobBoard) -> None:
    board.limits.set(lane="tenant:*", running=1, order="strict")
    board.limits.set(name="mail", running=1)
    board.post_many([Posting("mail", lane="tenant:1"), Posting("mail", lane="tenant:1"), Posting("mail")])
    first, *_ = board.iterjobs()
    board.claim(first, "worker")
    (blocked,) = _blocked(board)
    for job in board.iterjobs(states={JobState.BLOCKED, JobState.UNCLAIMED}):
        page = ask_as(board, "limits").get(f"/b/jobs/jobs/{job.uuid}")
        assert "jobboard limits set" not in text_of(page)
        links = {link for link in links_of(page) if link.startswith(_PATH)}
        lanes = {f"{_PATH}?lane=tenant%3A%2A&running=2"} if job == blocked else set()
        assert links == lanes | {f"{_PATH}?name=mail&running=2"}
        for link in links:
            form = fields_of(ask_as(board, "limits").get(link))
            assert form["running"] == "2"
            assert form.get("order", "strict") == "strict"
        page = ask_as(board).get(f"/b/jobs/jobs/{job.uuid}")
        assert ("jobboard limits set" in text_of(page), _PATH in page.text) == (True, False)


def test_markup_in_what_a_limit_is_of_and_why_is_shown_as_text(board: JobBoard) -> None:
    ask = ask_as(board, "limits")
    for target in ({"lane": _MARKUP}, {"name": _MARKUP}):
        asked, done = _confirmed(ask, target | {"running": "1", "reason": _MARKUP})
        for page in (ask.get(_PATH, params=target), asked, done):
            assert page.status_code == 200
            assert _MARKUP not in page.text
    assert [limit.reason for limit in board.limits] == [_MARKUP] * 2
    assert [type(limit) for limit in board.limits] == [Limit] * 2
