"""Logbooks where no server is needed: references, the command line, handlers in processes, the sweep."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.command_line import Run, as_json
from helpers.conducting import conducting

from jobboard import ClaimLost, Handlers, JobBoard, LogBook, NotFound, fetch
from jobboard.board import client_of
from jobboard.client import book_sweeper
from jobboard.codec import MAX_DETAILS
from jobboard.conductor import RunningJob
from jobboard.logbook import BookRef
from jobboard.payload import Payload, pack_payload, unpack_payload
from jobboard.testing import eventually

pytest_plugins = ("helpers.command_fixtures",)

REF = BookRef("taskflow", "postgresql://db.example.org/flows", "resize cats", str(uuids.UUID(int=7)))


@pytest.fixture
def memory() -> Iterator[JobBoard]:
    with fetch("books", f"memory://{uuids.uuid4().hex}") as board:
        yield board


class TestReferences:
    def test_a_job_carries_where_its_book_is(self, memory: JobBoard) -> None:
        posted = memory.post("resize", {"n": 1}, book=REF, key="k")
        (job,) = memory.claim_next("alice")
        for seen in (posted, job, memory.get(job.uuid)):
            assert (seen.book_ref, seen.book_uuid, seen.book_name) == (REF, REF.uuid, REF.name)
            assert seen.details == {"n": 1}
            with pytest.raises(NotFound, match=r"flows"):
                assert seen.book
        assert memory.post("resize", book=LogBook("here")).book_ref is None

    def test_a_reference_travels_beside_a_trace(self) -> None:
        payload = Payload({"a": 1}, None, "b", "nightly", 1.5, {"traceparent": "00"}, "kind", "address")
        assert unpack_payload(pack_payload(payload)[0]) == payload

    @pytest.mark.parametrize(
        "fields", [("", "a", "n"), ("k", "redis://:secret@h", "n"), ("k", "a", ""), ("k", "a", "n", "no uuid")]
    )
    def test_a_bad_reference_is_refused(self, fields: tuple[str, ...]) -> None:
        with pytest.raises(ValueError, match=r".") as refused:
            BookRef(*fields)
        assert "secret" not in str(refused.value)


class TestSizes:
    def test_an_entry_may_be_as_large_as_the_board_allows(self) -> None:
        with fetch("books", f"memory://{uuids.uuid4().hex}", largest_details=2 * MAX_DETAILS) as board:
            book = LogBook("large")
            book.append(data="x" * (MAX_DETAILS + 1))
            board.save_book(book)
            assert board.load_book(book.uuid).entries == book.entries

    def test_what_is_saved_while_it_is_read_is_read_whole(
        self, memory: JobBoard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        book = LogBook("long")
        book.named = {str(number): 1 for number in range(90)}
        memory.save_book(book)
        books = client_of(memory).backend.books
        load, reads = books.load, list[object]()

        def load_beside_another(*arguments: Any) -> object:
            reads.append(arguments)
            if len(reads) == 2:
                book.named = dict.fromkeys(book.named, 2)
                memory.save_book(book)
            return load(*arguments)

        monkeypatch.setattr(books, "load", load_beside_another)
        assert set(memory.load_book(book.uuid).named.values()) == {2}


class TestHandlers:
    @pytest.mark.parametrize("executor", ["thread", "process"])
    def test_a_handler_saves_an_owned_book_again_and_again(self, memory: JobBoard, executor: str) -> None:
        handlers = Handlers()
        handlers.add("steps", _steps)
        with conducting(memory, handlers, executor):
            job = memory.post("steps", book=(book := LogBook("steps", owned=True)))
            assert job.get_result(30) == job.uuid
        assert memory.load_book(book.uuid).named == {"1": "done", "2": "done", "3": "done"}

    def test_a_late_handler_changes_nothing(self, memory: JobBoard) -> None:
        handlers = Handlers()
        caught: list[type[BaseException]] = []

        def save_late(job: RunningJob) -> None:
            book = job.book
            assert book is not None
            memory.release(job.uuid, reason="a test")
            memory.pause()
            book.append(late=True)
            try:
                job.save_book(book)
            except ClaimLost as error:
                caught.append(type(error))
                raise

        handlers.add("late", save_late)
        with conducting(memory, handlers):
            memory.post("late", book=(book := LogBook("steps")))
            eventually(lambda: caught == [ClaimLost], 20)
        assert memory.load_book(book.uuid).entries == []


def _steps(job: RunningJob) -> str | None:
    book = job.book
    assert book is not None
    for step in ("1", "2", "3"):
        book.named[step] = "done"
        job.save_book(book)
    return book.owner


class TestSweep:
    def test_tidying_sweeps_page_by_page(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(book_sweeper, "ORPHAN_AGE", -600.0)
        monkeypatch.setattr(book_sweeper, "_INTERVAL", -1.0)
        monkeypatch.setattr(book_sweeper, "_INTERVAL_IF_MANY", -1.0)
        monkeypatch.setattr(book_sweeper, "_INTERVAL_IF_OWNED", -1.0)
        monkeypatch.setattr(book_sweeper, "_PAGE", 2)
        with fetch("books", f"memory://{uuids.uuid4().hex}") as board:
            job = board.post("resize")
            (held,) = board.claim_next("alice")
            kept = [LogBook("kept", f"00000000-0000-4000-8000-00000000000{number}") for number in range(3)]
            for book in kept:
                board.save_book(book)
            for number in range(5):
                board.save_book(LogBook(f"{number}", owned=True), hold=held)
            board.trash(held, "alice")
            board.purge(job.uuid)
            monkeypatch.setattr("jobboard.client.client._TIDY_INTERVAL", -1.0)
            for _ in range(8):
                client_of(board).tidy_when_due()
            assert [row.uuid for row in client_of(board).backend.books.page(None, 10).rows] == [
                book.uuid for book in kept
            ]


class TestCommands:
    def test_books_are_listed_shown_and_removed(self, jobboard: Run, board: JobBoard) -> None:
        book = LogBook("größe")
        book.meta["secret"] = "hunter2"
        book.append(n=1)
        book.named["a"] = 2
        board.save_book(book)
        board.save_book(other := LogBook("other"))
        listed = as_json(jobboard("book", "ls", "--json"))
        assert {row["uuid"]: (row["name"], row["owner"], row["entries"]) for row in listed} == {
            book.uuid: ("größe", None, 2), other.uuid: ("other", None, 0),
        }  # fmt: skip
        assert len(as_json(jobboard("book", "ls", "--json", "--limit", "1"))) == 1
        shown = jobboard("book", "show", book.uuid[:13])
        assert "größe" in shown
        assert "hunter2" not in shown
        assert as_json(jobboard("book", "show", book.uuid, "--details", "--json"))["named"] == {"a": 2}
        assert "--yes" in jobboard("book", "rm", book.uuid, status=2)
        assert as_json(jobboard("book", "rm", book.uuid, "--yes", "--json")) == {"uuid": book.uuid}
        for command in (("show", book.uuid), ("rm", book.uuid, "--yes"), ("show", book.uuid[:13]), ("show", "größe")):
            assert "no logbook" in jobboard("book", *command, status=1)
