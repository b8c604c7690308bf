"""Logbooks in parts: of any size, under a claim, owned by a job, listed."""

from __future__ import annotations

import pytest

from jobboard.backends.book_rows import BookSave, SaveOutcome
from jobboard.board import JobBoard, client_of
from jobboard.codec import encode
from jobboard.errors import ClaimLost, InvalidPosting, NotFound, StaleBook
from jobboard.logbook import LogBook
from jobboard.states import JobState
from jobboard.testing.contract.case import LONG, SHORT, Case, claim_one
from jobboard.testing.deadline import eventually
from jobboard.testing.faults import LossyBackend

LARGE = "x" * 300_000


def names_of(board: JobBoard) -> set[str | None]:
    return {info.name for info in board.books()}


class OwnedBookCases(Case):
    def test_a_save_writes_what_changed_of_a_book_of_any_size(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steps: list[BookSave] = []
        save = lossy.inner.books.save

        def saved(step: BookSave) -> SaveOutcome:
            steps.append(step)
            return save(step)

        monkeypatch.setattr(lossy.inner.books, "save", saved)
        book = LogBook("journal")
        for number in range(3):
            book.append(page=number, text=LARGE)
            board.save_book(book)
            book.named[f"ä/{number}*"] = [number, LARGE]
            board.save_book(book)
        assert [len(step.entries) for step in steps] == [1] * 6
        book.named |= {f"small {number}": {"n": number} for number in range(100)}
        board.save_book(book)
        book.meta["state"] = "RUNNING"
        book.named["small 7"]["n"] = "seven"
        del book.named["small 8"]
        board.save_book(book)
        assert {name: data is None for name, data in steps[-1].entries.items()} == {
            "m": False, "esmall 7": False, "esmall 8": True,
        }  # fmt: skip
        board.save_book(book)
        assert not steps[-1].entries
        loaded = other.load_book(book.uuid)
        assert (loaded.meta, loaded.entries, loaded.named) == (book.meta, book.entries, book.named)
        loaded.append(page=3)
        other.save_book(loaded)
        assert other.load_book(book.uuid).entries[1:] == [*book.entries[1:], {"page": 3}]
        with pytest.raises(StaleBook):
            board.save_book(book)

    def test_a_save_of_too_much_changes_nothing(self, board: JobBoard) -> None:
        book = LogBook("journal")
        board.save_book(book)
        version = book.version
        for named in ({f"{n}": n for n in range(101)}, {"a": LARGE, "b": LARGE}):
            book.named = dict(named)
            with pytest.raises(InvalidPosting, match="more often"):
                board.save_book(book)
        assert (board.load_book(book.uuid).named, board.load_book(book.uuid).version) == ({}, version)

    def test_a_late_owner_changes_nothing(self, board: JobBoard, other: JobBoard) -> None:
        board.post("resize")
        book = LogBook("journal")
        board.save_book(book, hold=(late := claim_one(board)))
        book.named["atom"] = "RUNNING"
        other.release(late.uuid, reason="a test")
        with pytest.raises(ClaimLost):
            board.save_book(book, hold=late)
        owner = claim_one(other, "alice")
        with pytest.raises(ClaimLost) as lost:
            board.save_book(book, hold=late)
        assert (lost.value.owner, lost.value.state) == ("alice", JobState.CLAIMED)
        with pytest.raises(ClaimLost):
            board.save_book(book, hold=board.get(late.uuid))
        assert other.load_book(book.uuid).named == {}
        taken = other.load_book(book.uuid)
        taken.named["atom"] = "SUCCESS"
        other.save_book(taken, hold=owner)
        other.extend(owner, "alice", SHORT)
        eventually(lambda: other.get(owner.uuid).record.state is JobState.UNCLAIMED)
        taken.named["atom"] = "late"
        with pytest.raises(ClaimLost):
            other.save_book(taken, hold=owner)
        board.consume(claim_one(board, "bob"), "bob")
        with pytest.raises(ClaimLost) as lost:
            other.save_book(taken, hold=owner)
        assert (lost.value.owner, lost.value.state) == (None, JobState.COMPLETE)
        assert board.load_book(book.uuid).named == {"atom": "SUCCESS"}
        assert board.audit() == []

    def test_a_save_under_a_claim_is_repeated_after_a_lost_reply(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        board.post("resize")
        job = claim_one(board)
        book = LogBook("journal", owned=True)
        lossy.lose("books.save", meanwhile=lambda: other.release(job.uuid, reason="a test"))
        board.save_book(book, hold=job)
        assert other.load_book(book.uuid).version == book.version
        job = claim_one(board)
        book.append(n=1)
        lossy.lose("books.save", "request")
        board.save_book(book, hold=job)
        assert other.load_book(book.uuid).entries == [{"n": 1}]

    def test_an_owned_book_goes_with_its_jobs_record(
        self, board: JobBoard, other: JobBoard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        free, owned, begun = LogBook("free"), LogBook("owned", owned=True), LogBook("begun", owned=True)
        begun.append(n=1)
        with pytest.raises(ValueError, match="hold="):
            board.save_book(owned)
        board.save_book(free)
        job = board.post("resize", book=owned)
        with pytest.raises(ValueError, match="belongs to job"):
            board.post("resize", book=owned)
        with pytest.raises(ValueError, match="replace"):
            board.post("resize", book=LogBook("b", owned=True), key="k", if_exists="replace")
        claimed = claim_one(board)
        board.save_book(begun, hold=claimed)
        assert {info.name: (info.owner, info.entries) for info in other.books()} == {
            "free": (None, 0), "owned": (job.uuid, 0), "begun": (job.uuid, 1),
        }  # fmt: skip
        board.trash(claimed, "alice")
        assert (other.load_book(owned.uuid).owner, names_of(other)) == (job.uuid, {"free", "owned", "begun"})
        other.purge(job.uuid)
        for gone in (owned, begun):
            with pytest.raises(NotFound):
                other.load_book(gone.uuid)
        assert names_of(other) == {"free"}
        monkeypatch.setattr("jobboard.client.book_sweeper.ORPHAN_AGE", -LONG)
        assert client_of(other).sweep_books() == 2
        assert client_of(other).sweep_books() == 0
        assert (other.load_book(free.uuid).name, names_of(other), board.audit()) == ("free", {"free"}, [])

    def test_a_book_that_waits_for_its_job_or_has_it_is_not_swept(
        self, board: JobBoard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        board.cancel(board.post("resize", book=LogBook("waits", owned=True)))
        for _ in range(2):
            assert client_of(board).sweep_books() == 0
        board.post("resize", book=LogBook("has it", owned=True))
        monkeypatch.setattr("jobboard.client.book_sweeper.ORPHAN_AGE", -LONG)
        assert (client_of(board).sweep_books(), names_of(board)) == (1, {"has it"})

    def test_books_are_listed_page_by_page_and_destroyed_whole(
        self, board: JobBoard, other: JobBoard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("jobboard.board.books._PAGE", 2)
        books = [LogBook(f"book {number}") for number in range(5)]
        for book in books:
            book.named = {"a": book.name, "b": 2}
            board.save_book(book)
        listed = list(other.books())
        assert sorted(str(info.name) for info in listed) == [book.name for book in books]
        assert all((info.entries, info.owner, info.saved_at is not None) == (2, None, True) for info in listed)
        other.destroy_book(books[0].uuid)
        assert names_of(board) == {book.name for book in books[1:]}
        again = LogBook("again", books[0].uuid)
        again.named = {"c": 3}
        board.save_book(again)
        assert other.load_book(again.uuid).named == {"c": 3}
        assert board.audit() == []

    def test_a_book_of_an_earlier_version_is_read_and_saved_in_parts(self, board: JobBoard, other: JobBoard) -> None:
        uuid = "00000000-0000-4000-8000-000000000001"
        body = encode("book", {"name": "old", "meta": {"a": 1}, "entries": [{"n": n} for n in range(300)]}).data
        board._backend.books.save(BookSave(uuid, "1", None, body))
        assert [(info.name, info.entries) for info in board.books()] == [("old", 300)]
        book = board.load_book(uuid)
        book.append(n=300)
        board.save_book(book)
        loaded = other.load_book(uuid)
        assert (loaded.meta, [entry["n"] for entry in loaded]) == ({"a": 1}, list(range(301)))
