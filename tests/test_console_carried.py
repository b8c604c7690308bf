"""What a job carries is decoded for those who may see it, and only if a page shows it: it may be made to be huge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from helpers.console import text_of
from helpers.console_jobs import ask_as, trash

from jobboard import Job, JobBoard, backend, codec
from jobboard.console import RIGHTS
from jobboard.console.carried import MAX_SHOWN

_JSON = {"Accept": "application/json"}
#: More bytes than a report of progress that is read for its numbers.
_LONG = {"text": "secret " * 1000}


@pytest.fixture
def board(request: pytest.FixtureRequest) -> Iterator[JobBoard]:
    with backend(request.node.name, "memory", largest_details=1 << 20) as board:
        yield board


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what is decoded from now on."""
    sizes: list[int] = []
    unpack = codec._unpack

    def counted(data: bytes, *rest: Any) -> Any:
        sizes.append(len(data))
        return unpack(data, *rest)

    monkeypatch.setattr(codec, "_unpack", counted)
    return sizes


def _claimed(board: JobBoard) -> Job:
    """Return a job that carries all that one can."""
    board.post("mail", _LONG, lane="a")
    [job] = board.claim_next("worker")
    board.checkpoint(job, "worker", _LONG)
    board.extend_many([job], "worker", progress=[{"done": 1, "total": 2, "text": "secret"}])
    board.signal(job, "paid", _LONG)
    return job


def _jobs(board: JobBoard) -> list[Job]:
    running = _claimed(board)
    done, waiting = board.post("mail", _LONG), board.post("mail", _LONG, after=[running], lane="a")
    [claimed] = board.claim_next("worker")
    assert claimed == done
    board.consume(claimed, "worker", result=_LONG)
    board.post("mail", _LONG)
    return [running, done, waiting, board.post("mail", _LONG), trash(board, board.post("mail", _LONG))]


def test_who_may_not_see_what_jobs_carry_has_it_decoded_nowhere(board: JobBoard, decoded: list[int]) -> None:
    jobs, ask = _jobs(board), ask_as(board, *(set(RIGHTS) - {"details"}))
    decoded.clear()
    pages = ["", "jobs", "trash", "names", "conductors", "lanes", "bulk?action=cancel&name=mail"]
    pages += [f"jobs?state={state}" for state in ("claimed", "complete", "trashed", "blocked", "unclaimed")]
    pages += [f"jobs/{job.uuid}{more}" for job in jobs for more in ("", "/graph")]
    for page in pages:
        answer = ask.get(f"/b/jobs/{page}")
        assert (answer.status_code, "secret" in answer.text) == (200, False), page
    for job in jobs:
        answer = ask.get(f"/b/jobs/jobs/{job.uuid}", headers=_JSON)
        assert (answer.status_code, "secret" in answer.text) == (200, False)
    assert [size for size in decoded if size > 4096] == []


def test_of_what_is_huge_a_page_tells_the_size_and_the_command(board: JobBoard, decoded: list[int]) -> None:
    job, ask = board.post("mail", {"text": "secret " * 50_000}), ask_as(board, "details", "retry")
    decoded.clear()
    page = ask.get(f"/b/jobs/jobs/{job.uuid}")
    assert f"{len(job.raw):,} bytes are too many for this page; see: jobboard show --details {job.uuid}" in text_of(
        page
    )
    trash(board, job)
    assert ask.get(f"/b/jobs/jobs/{job.uuid}/retry").status_code == 409
    assert [size for size in decoded if size > MAX_SHOWN] == []
    assert ask.get(f"/b/jobs/jobs/{job.uuid}", headers=_JSON).json()["details"] == job.details


def test_of_what_is_larger_than_boards_take_json_tells_the_size(board: JobBoard, decoded: list[int]) -> None:
    job, ask = board.post("mail", {"text": "secret " * 80_000}), ask_as(board, "details")
    decoded.clear()
    told = ask.get(f"/b/jobs/jobs/{job.uuid}", headers=_JSON).json()
    assert (told["details"], told["too_large"]) == (None, {"details": len(job.raw)})
    assert decoded == []
