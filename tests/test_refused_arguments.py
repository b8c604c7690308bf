"""What a board refuses without its store: options, names, and what the errors of bad arguments say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from jobboard import (
    Every,
    Handlers,
    InvalidPosting,
    JobBoard,
    LogBook,
    Posting,
    RunningJob,
    Schedule,
    Then,
    aio,
    backend,
)
from jobboard.backends.address import Address
from jobboard.backends.memory import MemoryBackend
from jobboard.logbook import BookRef
from jobboard.testing.contract.arguments import COUNTS, DELAYS, EXPIRIES, NAIVE, TEXTS

OPTIONS: dict[str, list[Any]] = {
    "expiry": [*EXPIRIES, None],
    "retention": [*DELAYS, None],
    "largest_details": [*COUNTS, None],
    "patience": [*DELAYS, None],
    "least_interval": [*DELAYS, None],
    "no_such_option": [1],
}


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with backend("refused-arguments", "memory://refused-arguments") as board:
        yield board


def memory(name: str) -> MemoryBackend:
    return MemoryBackend(name, Address.parse("memory://"))


@pytest.mark.parametrize("option", OPTIONS)
def test_bad_options_of_the_board_are_refused(option: str) -> None:
    for value in OPTIONS[option]:
        with pytest.raises((TypeError, ValueError)):
            JobBoard("a", memory("a"), **{option: value})


@pytest.mark.parametrize("name", TEXTS, ids=ascii)
def test_bad_names_of_boards_are_refused(name: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        JobBoard(name, memory("good"))


def test_an_error_says_what_is_wrong_with_which_argument(board: JobBoard) -> None:
    job = board.post("resize")
    with pytest.raises(ValueError, match="who"):
        board.claim(job, "")
    with pytest.raises(ValueError, match="expiry.*math.inf"):
        board.claim(job, "alice", 0)
    with pytest.raises(ValueError, match="run_at.*tzinfo"):
        board.post("resize", run_at=NAIVE)
    with pytest.raises(ValueError, match="key.*256 bytes.*255"):
        board.post("resize", key="x" * 256)
    with pytest.raises(ValueError, match="name.*control"):
        board.post("a\nb")
    with pytest.raises(ValueError, match="not a uuid: '3f2a'; one looks like 0123"):
        board.get("3f2a")
    with pytest.raises(ValueError, match="no state 'OPEN'; there are DELAYED, BLOCKED, UNCLAIMED"):
        board.iterjobs(states=["OPEN"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="no kind of event 'posted'; there are POSTED"):
        board.subscribe(print, ["posted"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="for one kind write {kind}"):
        board.subscribe(print, "POSTED")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"for one write \[posting\]"):
        board.post_many(Posting("a"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="details.tags can't be stored: set is not supported; convert it to list"):
        board.post("a", details={"tags": {"a", "b"}})
    for tags in ((tag for tag in "ab"), map(str, "ab"), iter(["a"])):
        with pytest.raises(ValueError, match=r"details.tags can't be stored: \w+ is not supported; convert it to list"):
            board.post("a", details={"tags": tags})


@pytest.mark.parametrize(
    "book", [LogBook("notes"), LogBook("notes", owned=True), BookRef("taskflow", "x://y", "notes")]
)
def test_a_book_in_the_place_of_the_details_is_told_its_keyword(board: JobBoard, book: Any) -> None:
    jobs = board.job_count
    for post in (lambda: board.post("a", book), lambda: board.post_many([Posting("a", book)])):
        with pytest.raises(TypeError, match="details must be a dict.*book="):
            post()
    assert board.job_count == jobs
    assert list(board.books()) == []


@dataclass
class Parcel:
    weight: int


handlers = Handlers()


@handlers.handler("pack")
def pack(job: RunningJob, parcel: Parcel) -> None:
    """What is posted in the wrong way below."""


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((pack, Parcel(1)), r"not Task; .*Posting\.of\(task, details\)"),
        ((pack,), r"not Task; .*Posting\.of\(task, details\)"),
        (("pack", Parcel(1)), r"details must be a dict, not Parcel; .*Posting\.of\(task, details\)"),
        ((Posting("pack"),), r"name must be a str, not Posting; .*post_many\(\[posting\]\)"),
    ],
)
def test_what_is_posted_as_a_task_is_told_how(board: JobBoard, given: Any, says: str) -> None:
    jobs = board.job_count
    posting = Posting(*given)

    async def post_later() -> None:
        async with aio.AsyncJobBoard(board) as later:
            await later.post(*given)

    for post in (
        lambda: board.post(*given),
        lambda: board.post_many([Posting("a"), posting]),
        lambda: board.post("a", on_trashed=posting),
        lambda: asyncio.run(post_later()),
    ):
        with pytest.raises((TypeError, InvalidPosting), match=says):
            post()
    board.connect()
    assert board.job_count == jobs


def test_a_task_is_no_posting(board: JobBoard) -> None:
    task: Any = pack
    for post in (
        lambda: board.post_many([task]),
        lambda: Then([task]),
        lambda: board.post("a", on_complete=task),
        lambda: handlers.handler("later", on_trashed=task)(print),
    ):
        with pytest.raises(TypeError, match=r"must be (a )?Posting, not Task; .*Posting\.of\(task, details\)"):
            post()
    with pytest.raises(TypeError, match="details must be a dict, unless job is a Task, not Parcel"):
        Schedule("nightly", Every(hours=1), "pack", Parcel(1))  # type: ignore[arg-type]


def test_what_comes_after_the_details_is_given_by_keyword(board: JobBoard) -> None:
    untyped: Any = board
    for refused in (
        lambda: untyped.post("a", {}, None),
        lambda: untyped.post("a", {}, None, "HIGH", "key"),
        lambda: Posting("a", {}, None),  # type: ignore[misc]
        lambda: Schedule("a", Every(hours=1), "a", {}, "HIGH"),  # type: ignore[misc]
    ):
        with pytest.raises(TypeError, match="positional"):
            refused()
    assert board.post("a", {"n": 1}).details == {"n": 1}
    assert [job.details for job in board.post_many([Posting("b", {"n": 2})])] == [{"n": 2}]
