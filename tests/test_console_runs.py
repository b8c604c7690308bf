"""What the console's lists say of jobs that run, and of those that have run."""

from __future__ import annotations

import re
from typing import Any

import pytest
from helpers.console import text_of
from helpers.console_jobs import ask_as, board
from helpers.counted_requests import count_requests

from jobboard import JobBoard, Posting
from jobboard.testing import clock_of, memory_board

__all__ = ["board"]

OWNER = "worker@host:17:c0ffee00"


def test_lists_say_for_how_long_jobs_run_or_ran_and_who_runs_them() -> None:
    with memory_board("runs") as board:
        board.post_many([Posting("mail", key=f"{n}") for n in range(3)])
        jobs = board.claim_next(OWNER, limit=3, expiry=86_400)
        clock_of(board).move(7800)
        page = ask_as(board).get("/b/jobs/jobs?state=claimed")
        assert len(re.findall(r'data-label="Runs for">\d', page.text)) == 3
        assert page.text.count(f'title="{OWNER}"><bdi>worker@host</bdi> <small>17</small>') == 3
        for job in jobs:
            board.consume(job, OWNER)
        ended = ask_as(board).get("/b/jobs/jobs?state=complete")
        assert re.findall(r'data-label="Ran">([^<]*)<', ended.text) == ["2h10m"] * 3
        assert "What to know" not in text_of(ended)
        # The tab says it once.
        assert 'class="state' not in ended.text


def test_the_beginning_of_a_run_is_asked_for_once(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    board.post_many([Posting("mail") for _ in range(4)])
    board.claim_next("me", limit=3)
    ask, sent = ask_as(board), count_requests(board, monkeypatch)
    for _ in range(3):
        ask.get("/b/jobs/jobs?state=claimed")
    assert sent.count("history") == 3
    board.claim_next("me")
    ask.get("/b/jobs/jobs?state=claimed")
    assert sent.count("history") == 4


def test_pages_say_which_jobs_of_how_many_they_have_and_lead_back(board: JobBoard) -> None:
    board.post_many([Posting("mail") for _ in range(120)])
    ask, path, places = ask_as(board), "/b/jobs/jobs?name=mail", []
    for _ in range(3):
        page = ask.get(path)
        places.append(re.search(r"\d+-\d+ of \d+", text_of(page))[0])  # type: ignore[index]
        following = re.search(r'rel="next" href="([^"]*)"', page.text)
        path = following[1].replace("&amp;", "&") if following else ""
    assert places == ["1-50 of 120", "51-100 of 120", "101-120 of 120"]
    (back,) = re.findall(r'rel="prev" href="([^"]*)"', page.text)
    assert "51-100 of 120" in text_of(ask.get(back.replace("&amp;", "&")))


@pytest.mark.parametrize(
    ("report", "said", "has_json"),
    [
        ({"done": 2000, "total": 4000, "text": "rows"}, "Progress of its last run: 2,000 of 4,000, 50 % rows", False),
        ({"done": 7}, "Progress of its last run: 7 ", False),
        ({"done": 1, "total": 2, "stage": "copy"}, "Progress of its last run: 1 of 2, 50 %", True),
        ({"stage": "copy"}, "", True),
    ],
)
def test_its_last_progress_is_a_bar_and_a_text(
    board: JobBoard, report: dict[str, Any], said: str, has_json: bool
) -> None:
    job = board.post("mail")
    board.claim(job, "w")
    board.extend_many([job], "w", progress=[report])
    board.abandon(job, "w")
    page = ask_as(board, "details").get(f"/b/jobs/jobs/{job.uuid}")
    assert said in text_of(page)
    assert page.text.count("<progress") == int("total" in report)
    assert ("stage" in text_of(page)) is has_json
