"""The console's page on lanes and limits, and what other pages show of them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from helpers.console import links_of, text_of
from helpers.console_jobs import ask_as, board, on_both, uuids_in

from jobboard import JobBoard, JobState, Posting, Rate
from jobboard.console import RIGHTS

__all__ = ["board"]

MARKUP = "<script>alert(1)</script>"


def fill(board: JobBoard) -> None:
    """Let one of four jobs of tenant:1 run, of two that may."""
    board.limits.set(lane="tenant:*", running=2, by="bob", reason="fair shares")
    board.limits.set(lane="stripe", rate=Rate(30, 60), order="strict")
    board.limits.set(name="mail", running=7)
    board.post_many([Posting("mail", lane="tenant:1")] * 4 + [Posting("mail", lane="stripe")] * 2)
    board.claim(next(job for job in board.iterjobs(lane="tenant:1")), "worker")


@on_both
def test_the_longest_lanes_are_shown_with_their_limits(board: JobBoard) -> None:
    fill(board)
    text = text_of(ask_as(board).get("/b/jobs/lanes"))
    assert "tenant:1 tenant:* 2 of 2 1 claimed of tenant:1 1 0 2 blocked of tenant:1 " in text
    assert "stripe stripe strict order 1 0 1 0 1 blocked of stripe " in text
    assert "30 per 60 s" in text
    assert "Those with jobs; the one with most blocked jobs first" in text
    assert text.index("tenant:1") < text.index("stripe")
    assert "name mail 1 of 7 - free" in text
    assert re.search(r"lane tenant:\* 2 - free by bob \d+s ago", text)
    assert ": fair shares" in text
    assert "Pause" not in text
    cancelling = links_of(ask_as(board, "cancel").get("/b/jobs/lanes"))
    assert "/b/jobs/bulk?action=cancel&lane=tenant%3A1" in cancelling


def test_of_more_than_twenty_lanes_one_is_searched_for(board: JobBoard) -> None:
    board.limits.set(lane="tenant:*", running=1)
    board.post_many(
        Posting("mail", lane=f"tenant:{number:02}") for number in range(30) for _ in range(1 + (number < 25))
    )
    page = ask_as(board).get("/b/jobs/lanes")
    assert page.text.count('<tr id="lane-') == 20
    assert "The 20 with most blocked jobs" in text_of(page)
    found = text_of(ask_as(board).get("/b/jobs/lanes?q=tenant:29"))
    assert "tenant:29 tenant:* 1 of 1 0 1 0 0 " in found
    assert "tenant:01" not in found
    assert "nobody - 0 0 0 0 0 - -" in text_of(ask_as(board).get("/b/jobs/lanes?q=nobody"))
    for wrong in ("tenant:", "a*", "x" * 300):
        assert ask_as(board).get("/b/jobs/lanes", params={"q": wrong}).status_code == 400


@on_both
def test_slots_that_retries_keep_are_told_of(board: JobBoard) -> None:
    board.limits.set(lane="order:*", running=2, order="strict")
    jobs = board.post_many([Posting("mail", lane="order:1")] * 5)
    for text in ("2 of 2 0 1 1 keeps 1 slot 3 blocked", "2 of 2 0 0 2 keep 2 slots 3 blocked"):
        job = jobs.pop(0)
        board.claim(job, "worker")
        board.abandon(job, "worker", delay=60)
        assert text in text_of(ask_as(board).get("/b/jobs/lanes"))


@on_both
def test_a_lane_is_paused_with_a_reason_and_resumed(board: JobBoard) -> None:
    fill(board)
    told: list[tuple[Any, ...]] = []
    ask = ask_as(board, "pause", "resume", on_action=lambda *action: told.append(action))
    page = ask.post("/b/jobs/lanes?q=tenant:1", {"action": "pause", "lane": "tenant:1", "reason": "unpaid"})
    assert str(page.url).endswith("/b/jobs/lanes?q=tenant%3A1")
    assert "tenant:1 paused" in text_of(page)
    assert re.search(r"by ann \d+s ago", text_of(page))
    assert ": unpaid" in text_of(page)
    assert [job.record.state for job in board.iterjobs(lane="tenant:1")].count(JobState.BLOCKED) == 3
    text = text_of(ask.post("/b/jobs/lanes", {"action": "resume", "lane": "tenant:1"}))
    assert "tenant:1 paused" not in text
    assert [job.record.state for job in board.iterjobs(lane="tenant:1")].count(JobState.UNCLAIMED) == 1
    text = text_of(ask.post("/b/jobs/lanes", {"action": "pause", "lane": "tenant:*"}))
    assert "tenant:1 paused" in text
    assert "lane tenant:* paused" in text
    assert told == [
        ("ann", "pause", ["lane tenant:1"]),
        ("ann", "resume", ["lane tenant:1"]),
        ("ann", "pause", ["lane tenant:*"]),
    ]


@on_both
def test_the_end_of_a_pause_is_shown(board: JobBoard) -> None:
    fill(board)
    board.pause(lane="tenant:1", until=datetime(2090, 1, 31, 9, tzinfo=UTC))
    text = text_of(ask_as(board, *RIGHTS).get("/b/jobs/lanes"))
    assert "tenant:1 paused until 2090-01-31 09:00:00 UTC" in text
    assert "lane tenant:1 paused until 2090-01-31 09:00:00 UTC" in text


def test_a_lane_of_a_paused_prefix_offers_no_resume_of_its_own(board: JobBoard) -> None:
    fill(board)
    board.pause(lane="tenant:*")
    page = ask_as(board, *RIGHTS).get("/b/jobs/lanes")
    assert "Resume tenant:1" not in text_of(page)
    assert "Resume tenant:*, its rule" in text_of(page)


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_without_the_right_or_from_another_site_nothing_is_changed(board: JobBoard, action: str) -> None:
    fill(board)
    if action == "resume":
        board.pause(lane="tenant:1")
    before = list(board.limits)
    reader = ask_as(board, *(set(RIGHTS) - {"pause", "resume"}))
    form = {"action": action, "lane": "tenant:1"}
    assert '<button name="action"' not in reader.get("/b/jobs/lanes").text
    assert reader.post("/b/jobs/lanes", form).status_code == 403
    anybody = ask_as(board, *RIGHTS)
    assert anybody.post("/b/jobs/lanes", form, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert anybody.post("/b/jobs/lanes", {**form, "action": "x"}).status_code == 400
    for wrong in ("", "tenant:", "a*b", "x" * 300, "a\0b"):
        assert anybody.post("/b/jobs/lanes", {**form, "lane": wrong}).status_code == 400
    assert list(board.limits) == before


def test_a_job_leads_to_its_lane_and_the_lane_to_its_jobs(board: JobBoard) -> None:
    fill(board)
    ask = ask_as(board)
    (job, *_) = board.iterjobs(states={JobState.BLOCKED}, lane="tenant:1")
    page = ask.get(f"/b/jobs/jobs/{job.uuid}")
    assert "Why it does not run" in text_of(page)
    (link,) = [link for link in links_of(page) if "/lanes?" in link]
    (jobs,) = [link for link in links_of(ask.get(link)) if "/jobs?lane" in link]
    assert len(uuids_in(ask.get(jobs))) == 4
    assert len(uuids_in(ask.get(f"{jobs}&state=blocked"))) == 2


def test_names_show_their_limits(board: JobBoard) -> None:
    fill(board)
    (row,) = [part for part in ask_as(board).get("/b/jobs/names").text.split("<tr ") if 'id="name-mail"' in part]
    assert 'data-label="Claimed">1 of 7</td>' in row


def test_markup_in_lanes_and_reasons_is_shown_as_text(board: JobBoard) -> None:
    board.post_many([Posting("mail", lane=MARKUP)] * 3)
    board.limits.set(lane=MARKUP, running=1, by=MARKUP, reason=MARKUP)
    board.pause(lane=MARKUP, by=MARKUP, reason=MARKUP)
    for path in ("lanes", f"lanes?q={MARKUP}", f"jobs?lane={MARKUP}", "events"):
        page = ask_as(board, *RIGHTS).get(f"/b/jobs/{path}")
        assert page.status_code == 200
        assert MARKUP not in page.text


def test_a_board_without_lanes_says_so(board: JobBoard) -> None:
    board.post("mail")
    text = text_of(ask_as(board).get("/b/jobs/lanes"))
    assert "No job has a lane." in text
    assert "No limits." in text
