"""A job of the trash, or a complete one, is posted anew with changed details, once, and nothing is lost on the way."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from html import unescape
from typing import Any

import httpx
import pytest
from helpers.console import Asking, text_of
from helpers.console_jobs import ask_as, board, on_both, trash
from helpers.memory_seam import fresh_name
from helpers.sharded import MemoryShardsHarness

from jobboard import Job, JobBoard, JobPriority, JobState, Posting, fetch
from jobboard.operate.anew import uuid_anew
from jobboard.testing import clock_of

__all__ = ["board"]

_DETAILS = {"order": 4711, "at": datetime(2026, 11, 29, tzinfo=UTC), "blob": b"\x00\xff", "tags": ["<b>", "é"]}


def _failed(board: JobBoard, **options: Any) -> Job:
    return trash(board, board.post("invoice", _DETAILS, key="order/4711", **options))


def _path(job: Job) -> str:
    return f"/b/jobs/jobs/{job.uuid}/retry"


def _form(page: httpx.Response) -> dict[str, str]:
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text))
    (text,) = re.findall(r"<textarea[^>]*>\n(.*?)</textarea>", page.text, re.DOTALL)
    return hidden | {"details": unescape(text)}


def _retry(ask: Asking, job: Job, **changes: Any) -> httpx.Response:
    form = _form(ask.get(_path(job)))
    details = json.loads(form["details"]) | changes.pop("details", {})
    return ask.post(_path(job), form | {"details": json.dumps(details)} | changes)


@on_both
def test_the_new_job_has_the_changed_details_and_all_else_of_the_old_one(board: JobBoard) -> None:
    old = _failed(board, priority=JobPriority.HIGH, max_attempts=7, lane="tenant:1")
    ask = ask_as(board, "retry", "details")
    page = _retry(ask, old, details={"order": 4712})
    (new,) = board.iterjobs()
    assert str(page.url).endswith(f"/b/jobs/jobs/{new.uuid}")
    assert new.details == _DETAILS | {"order": 4712}
    assert (new.name, new.key, new.priority, new.max_attempts, new.lane) == (
        old.name, old.key, old.priority, old.max_attempts, old.lane
    )  # fmt: skip
    assert [job.uuid for job in board.trashed()] == [old.uuid]
    assert f"It was posted anew, with changed details: {new.uuid[-8:]}" in text_of(ask.get(_path(old)[:-6]))


@on_both
@pytest.mark.parametrize("is_purged", [False, True])
def test_a_double_click_posts_one_job(board: JobBoard, is_purged: bool) -> None:
    old = _failed(board)
    ask = ask_as(board, "retry", "details", "purge")
    form = _form(ask.get(_path(old))) | ({"purge": "yes"} if is_purged else {})
    first, second = ask.post(_path(old), form), ask.post(_path(old), form)
    assert first.url == second.url
    assert len(list(board.iterjobs())) == 1
    assert len(list(board.trashed())) == (0 if is_purged else 1)
    (job,) = board.claim_next("worker")
    board.consume(job, "worker")
    assert ask.post(_path(old), form).url == first.url
    assert list(board.iterjobs()) == []


def test_what_died_between_its_two_steps_goes_on(board: JobBoard) -> None:
    old = _failed(board)
    ask = ask_as(board, "retry", "details", "purge")
    form = _form(ask.get(_path(old)))
    ask.post(_path(old), form)
    assert len(list(board.trashed())) == 1
    ask.post(_path(old), form | {"purge": "yes"})
    assert (len(list(board.iterjobs())), list(board.trashed())) == (1, [])


def test_of_two_with_other_details_one_is_told(board: JobBoard) -> None:
    old = _failed(board)
    ask = ask_as(board, "retry", "details")
    _retry(ask, old, details={"order": 1})
    answer = _retry(ask, old, details={"order": 2})
    assert answer.status_code == 409
    assert "somebody else has posted it anew" in text_of(answer)
    assert [job.details["order"] for job in board.iterjobs()] == [1]


def test_one_that_failed_again_can_be_retried_again(board: JobBoard) -> None:
    old = _failed(board)
    before = uuid_anew(old)
    board.restore(old)
    trash(board, old)
    assert uuid_anew(board.get(old.uuid)) != before


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "Expecting"),
        ("[1]", "details are a JSON object"),
        ('{"a": NaN}', "no number NaN"),
        ('{"a": {"$bytes": 7}}', "can't be read"),
        (f'{{"a": {2**70}}}', "details.a"),
        ("[" * 20000, "recursion|Expecting"),  # Python 3.14 reads so many
    ],
)
def test_what_is_no_details_is_said_and_stays_in_the_form(board: JobBoard, text: str, fault: str) -> None:
    old = _failed(board)
    answer = ask_as(board, "retry", "details").post(
        _path(old), {"details": text, "anew": uuid_anew(board.get(old.uuid))}
    )
    assert answer.status_code == 400
    assert "Nothing was posted" in text_of(answer)
    assert re.search(fault, text_of(answer))
    assert _form(answer)["details"] == text
    assert list(board.iterjobs()) == []


def test_what_the_board_would_not_take_is_refused_by_its_limit(board: JobBoard) -> None:
    old = _failed(board)
    answer = ask_as(board, "retry", "details").post(_path(old), {"details": json.dumps({"a": "é" * 40_000})})
    assert answer.status_code == 413


def test_the_users_own_check_is_told(board: JobBoard) -> None:
    def check(name: str, details: dict[str, Any]) -> None:
        if not isinstance(details["order"], int):
            raise ValueError(f"{name}: order must be a number")

    old = _failed(board)
    ask = ask_as(board, "retry", "details", check_details=check)
    answer = _retry(ask, old, details={"order": "x"})
    assert (answer.status_code, list(board.iterjobs())) == (400, [])
    assert "invoice: order must be a number" in text_of(answer)
    assert _retry(ask, old, details={"order": 3}).status_code == 200


def test_a_key_that_is_taken_is_told(board: JobBoard) -> None:
    old = _failed(board)
    live = board.post("invoice", key="order/4711")
    answer = _retry(ask_as(board, "retry", "details"), old)
    assert answer.status_code == 409
    assert live.uuid in text_of(answer)


def _done(board: JobBoard, **options: Any) -> Job:
    job = board.post("invoice", _DETAILS, key="order/4711", **options)
    board.claim(job, "worker")
    board.consume(job, "worker", {"paid": True})
    return board.get(job.uuid)


@on_both
def test_a_complete_job_is_posted_again_once_and_stays_as_it_is(board: JobBoard) -> None:
    old = _done(board, priority=JobPriority.HIGH, max_attempts=7, lane="tenant:1")
    ask = ask_as(board, "retry", "details", "purge")
    assert "Post again with changed details …" in text_of(ask.get(_path(old)[:-6]))
    page = ask.get(_path(old))
    assert "is complete, and stays so: what it has done is done once more." in text_of(page)
    assert 'name="purge"' not in page.text
    form = _form(page) | {"purge": "yes"}
    first, second = ask.post(_path(old), form), ask.post(_path(old), form)
    assert first.url == second.url
    (new,) = board.iterjobs()
    assert (new.name, new.key, new.priority, new.max_attempts, new.lane) == (
        old.name, old.key, old.priority, old.max_attempts, old.lane
    )  # fmt: skip
    assert new.details == _DETAILS
    assert old.state is JobState.COMPLETE
    assert old.record.result == {"paid": True}
    assert f"It was posted anew, with changed details: {new.uuid[-8:]}" in text_of(ask.get(_path(old)[:-6]))
    (job,) = board.claim_next("worker")
    board.consume(job, "worker")
    assert ask.post(_path(old), form).url == first.url
    assert list(board.iterjobs()) == []


def test_one_that_was_restored_and_is_complete_by_now_does_not_run_again(board: JobBoard) -> None:
    old = _failed(board)
    ask = ask_as(board, "retry", "details")
    form = _form(ask.get(_path(old)))
    board.restore(old)
    board.claim(old, "worker")
    board.consume(old, "worker")
    answer = ask.post(_path(old), form)
    assert (answer.status_code, list(board.iterjobs())) == (409, [])
    assert "the job has changed since this form was shown" in text_of(answer)
    # That page says that the job is complete; who sends its form has decided so.
    assert "is complete, and stays so" in text_of(answer)
    assert ask.post(_path(old), _form(answer)).status_code == 200
    assert len(list(board.iterjobs())) == 1


def test_a_form_that_lost_its_fields_posts_nothing(board: JobBoard) -> None:
    for old in _done(board), _failed(board):
        ask = ask_as(board, "retry", "details")
        assert ask.post(_path(old), {"details": "{}"}).status_code == 409
        assert list(board.iterjobs()) == []


def test_a_complete_job_that_is_forgotten_by_now_is_not_posted() -> None:
    with fetch(fresh_name(), "memory://", retention=60) as board:
        old = _done(board)
        ask = ask_as(board, "retry", "details")
        form = _form(ask.get(_path(old)))
        clock_of(board).move(3600)
        assert ask.post(_path(old), form).status_code == 404
        assert list(board.iterjobs()) == []


@pytest.mark.parametrize("end", [_failed, _done])
@pytest.mark.parametrize("rights", [(), ("retry",), ("details",), ("restore", "purge", "details")])
def test_it_needs_both_rights(board: JobBoard, rights: tuple[str, ...], end: Callable[[JobBoard], Job]) -> None:
    old = end(board)
    ask = ask_as(board, *rights)
    assert ask.get(_path(old)).status_code == 403
    assert ask.post(_path(old), {"details": "{}"}).status_code == 403
    assert "changed details" not in text_of(ask.get(_path(old)[:-6]))
    assert list(board.iterjobs()) == []


def test_without_the_right_to_purge_the_old_one_stays(board: JobBoard) -> None:
    old = _failed(board)
    _retry(ask_as(board, "retry", "details"), old, purge="yes")
    assert [job.uuid for job in board.trashed()] == [old.uuid]


def test_a_page_of_another_site_posts_nothing(board: JobBoard) -> None:
    old = _failed(board)
    ask = ask_as(board, "retry", "details")
    for headers in {}, {"Sec-Fetch-Site": "cross-site"}:
        assert ask.post(_path(old), {"details": "{}"}, headers=headers).status_code == 403
    assert list(board.iterjobs()) == []


def test_what_only_a_restore_keeps_is_not_posted_anew(board: JobBoard) -> None:
    ask = ask_as(board, "retry", "details")
    parent = board.post("fetch", {})
    board.post("publish", after=[parent])
    followed = board.post("clean", {}, on_trashed=Posting("page"))
    waiting = board.post("mail", {})
    reasons = {
        parent: "other jobs wait for it",
        followed: "other jobs follow its end",
        waiting: "it is not in the trash, and not complete",
    }
    for job, reason in reasons.items():
        if job is not waiting:
            trash(board, job)
        number = len(list(board.iterjobs()))
        for answer in ask.get(_path(job)), ask.post(_path(job), {"details": "{}"}):
            assert answer.status_code == 409
            assert reason in text_of(answer)
        assert len(list(board.iterjobs())) == number


@pytest.mark.parametrize(("details", "options", "reason"), [
    ({"password": "x"}, {"format_details": lambda job: {"password": "*"}}, "does not show all"),
    ({"text": "é" * 10_000}, {}, "too large for a form"),
])  # fmt: skip
def test_what_can_not_be_sent_back_whole_is_refused(
    board: JobBoard, details: dict[str, Any], options: dict[str, Any], reason: str
) -> None:
    old = trash(board, board.post("mail", details))
    answer = ask_as(board, "retry", "details", **options).get(_path(old))
    assert answer.status_code == 409
    assert reason in text_of(answer)
    assert "password" not in text_of(answer)


def test_a_trashed_job_that_is_complete_by_now_is_no_obstacle(board: JobBoard) -> None:
    old = _failed(board)
    ask = ask_as(board, "retry", "details")
    _retry(ask, old)
    (job,) = board.claim_next("worker")
    board.consume(job, "worker")
    assert job.state is JobState.COMPLETE
    assert "complete" in text_of(_retry(ask, old))


def test_on_a_board_of_shards_one_job_is_posted_too() -> None:
    name = "retried on shards"
    with JobBoard(name, MemoryShardsHarness().backend(name)) as board:
        ask = ask_as(board, "retry", "details")
        for number in range(8):
            old = trash(board, board.post("invoice", {"n": number}, key=str(number)))
            form = _form(ask.get(_path(old)))
            first, second = ask.post(_path(old), form), ask.post(_path(old), form)
            assert first.url == second.url
        assert sorted(job.details["n"] for job in board.iterjobs()) == list(range(8))
