"""Tables of the console in the order that the URL asks for, without a script."""

from __future__ import annotations

import re

import pytest
from helpers.console import text_of
from helpers.console_jobs import ask_as, board, next_of, trash, uuids_in

from jobboard import JobBoard, Posting

__all__ = ["board"]


def _heads(html: str) -> dict[str, tuple[str, str | None]]:
    """Return the link and the order of each column that has one."""
    found = re.findall(r'<th scope="col"[^>]*?(?: aria-sort="(\w+)")?><a href="([^"]*)">([^<]*?) ?(?:<span|</a>)', html)
    return {label: (link.replace("&amp;", "&"), order or None) for order, link, label in found}


def test_a_column_sorts_and_turns_round(board: JobBoard) -> None:
    jobs = board.post_many([Posting("mail", key=key) for key in ("b", "c", "a")] + [Posting("mail")])
    ask = ask_as(board)
    plain = ask.get("/b/jobs/jobs?name=mail")
    assert uuids_in(plain) == [job.uuid for job in jobs]
    link, order = _heads(plain.text)["Key"]
    assert (link, order) == ("?name=mail&sort=key", None)
    up = ask.get(f"/b/jobs/jobs{link}")
    by_key = [jobs[2].uuid, jobs[0].uuid, jobs[1].uuid]
    # What has no key comes last in both directions.
    assert uuids_in(up) == [*by_key, jobs[3].uuid]
    link, order = _heads(up.text)["Key"]
    assert (link, order) == ("?name=mail&sort=-key", "ascending")
    down = ask.get(f"/b/jobs/jobs{link}")
    assert uuids_in(down) == [*by_key[::-1], jobs[3].uuid]
    assert _heads(down.text)["Key"][1] == "descending"


def test_of_several_pages_each_is_sorted_and_says_so(board: JobBoard) -> None:
    board.post_many(Posting("mail", key=f"{99 - n:02}") for n in range(60))
    ask = ask_as(board)
    first = ask.get("/b/jobs/jobs?sort=key&name=mail")
    assert "1-50 of 60, this page sorted; other pages are not." in text_of(first)
    second = ask.get(next_of(first) or "")
    assert (len(uuids_in(first)), len(uuids_in(second))) == (50, 10)
    assert not set(uuids_in(first)) & set(uuids_in(second))
    assert "51-60 of 60, this page sorted" in text_of(second)
    one = ask.get("/b/jobs/jobs?sort=key&key_prefix=4&name=mail")
    assert "this page" not in text_of(one)
    assert "In the order in which they are claimed" in text_of(one)


def test_what_was_asked_for_alone_is_sorted(board: JobBoard) -> None:
    """Without filters the list is of what is next, sorted or not."""
    board.post("mail", delay=60)
    jobs = board.post_many([Posting("b"), Posting("a")])
    assert uuids_in(ask_as(board).get("/b/jobs/jobs?sort=name")) == [jobs[1].uuid, jobs[0].uuid]


@pytest.mark.parametrize("page", ["jobs", "trash", "names", "conductors", "schedules"])
def test_an_order_that_there_is_not_is_refused_by_name(board: JobBoard, page: str) -> None:
    answer = ask_as(board).get(f"/b/jobs/{page}?sort=colour")
    assert answer.status_code == 400
    assert "this table can be sorted by" in text_of(answer)


def test_every_link_of_a_head_leads_to_a_table(board: JobBoard) -> None:
    for name, number in ("mail", 1), ("resize", 2):
        for _ in range(number):
            trash(board, board.post(name))
        board.post(name)
    ask = ask_as(board)
    for page in ("trash", "names"):
        heads = _heads(ask.get(f"/b/jobs/{page}").text)
        assert len(heads) >= 5, page
        for link, _ in heads.values():
            assert ask.get(f"/b/jobs/{page}{link}").status_code == 200, link
    text = text_of(ask.get("/b/jobs/trash?sort=jobs"))
    assert text.index("mail") < text.index("resize")
