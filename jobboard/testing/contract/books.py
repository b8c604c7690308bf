"""Logbooks: each is saved as a whole, and never overwrites the changes of somebody else."""

from __future__ import annotations

import uuid as uuids

import pytest

from jobboard.board import JobBoard
from jobboard.errors import InvalidPosting, NotFound, StaleBook
from jobboard.logbook import LogBook
from jobboard.testing.contract.case import Case, claim_one
from jobboard.testing.harness import Harness


class BookCases(Case):
    def test_a_saved_book_is_loaded_by_any_client(self, board: JobBoard, other: JobBoard) -> None:
        book = LogBook("größe/{a}*")
        book.meta["path"] = "/a"
        book.append(step="opened", bytes=b"\xff")
        book.append(step="read", n=2)
        board.save_book(book)
        loaded = other.load_book(book.uuid)
        assert (loaded.name, loaded.uuid, loaded.meta) == (book.name, book.uuid, {"path": "/a"})
        assert list(loaded) == [{"step": "opened", "bytes": b"\xff"}, {"step": "read", "n": 2}]
        assert loaded.version == book.version is not None

    def test_a_book_can_be_saved_again_and_again(self, board: JobBoard, other: JobBoard) -> None:
        book = LogBook("journal")
        versions = set()
        for n in range(12):
            book.append(n=n)
            board.save_book(book)
            versions.add(book.version)
        assert len(versions) == 12
        assert [row["n"] for row in other.load_book(book.uuid)] == list(range(12))

    def test_the_next_owner_goes_on_in_the_book(self, board: JobBoard, other: JobBoard) -> None:
        board.post("resize", book=LogBook("journal"))
        job = claim_one(board)
        book = job.book
        assert book is not None
        book.append(page=1)
        board.save_book(book)
        board.abandon(job, "alice")
        book = claim_one(other, "bob").book
        assert book is not None
        book.append(page=2)
        other.save_book(book)
        assert [row["page"] for row in board.load_book(book.uuid)] == [1, 2]

    def test_of_two_who_changed_a_book_the_second_is_told(self, board: JobBoard, other: JobBoard) -> None:
        book = LogBook("journal")
        board.save_book(book)
        mine, yours = board.load_book(book.uuid), other.load_book(book.uuid)
        mine.append(by="me")
        board.save_book(mine)
        yours.append(by="you")
        with pytest.raises(StaleBook):
            other.save_book(yours)
        assert list(board.load_book(book.uuid)) == [{"by": "me"}]

    def test_a_new_book_does_not_replace_one_of_its_uuid(self, board: JobBoard) -> None:
        book = LogBook("journal")
        book.append(n=1)
        board.save_book(book)
        with pytest.raises(StaleBook):
            board.save_book(LogBook("another", book.uuid))
        assert list(board.load_book(book.uuid)) == [{"n": 1}]

    def test_a_destroyed_book_is_gone(self, board: JobBoard, other: JobBoard) -> None:
        book, kept = LogBook("journal"), LogBook("journal")
        board.save_book(book)
        board.save_book(kept)
        other.destroy_book(book.uuid)
        for call in (board.load_book, board.destroy_book):
            with pytest.raises(NotFound):
                call(book.uuid)
        assert board.load_book(kept.uuid).name == "journal"

    def test_a_destroyed_book_does_not_come_back_by_a_late_save(self, board: JobBoard, other: JobBoard) -> None:
        book = LogBook("journal")
        board.save_book(book)
        other.destroy_book(book.uuid)
        with pytest.raises(StaleBook):
            board.save_book(book)
        with pytest.raises(NotFound):
            board.load_book(book.uuid)

    def test_a_book_that_was_never_saved_is_not_found(self, board: JobBoard) -> None:
        with pytest.raises(NotFound):
            board.load_book(str(uuids.uuid4()))

    def test_an_entry_that_cannot_be_stored_leaves_the_book(self, board: JobBoard) -> None:
        book = LogBook("journal")
        book.append(n=1)
        board.save_book(book)
        book.append(call=print)
        with pytest.raises(InvalidPosting, match=r"entries\[1\]\.call"):
            board.save_book(book)
        assert list(board.load_book(book.uuid)) == [{"n": 1}]

    def test_books_of_other_boards_are_not_found(self, harness: Harness, board: JobBoard) -> None:
        book = LogBook("journal")
        board.save_book(book)
        with pytest.raises(NotFound):
            harness.board().load_book(book.uuid)
