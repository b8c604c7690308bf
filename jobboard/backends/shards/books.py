"""Logbooks: each is on the shard of the job that it was first saved with, or else of its uuid."""

from __future__ import annotations

from typing import Any

from jobboard.backends.base import Backend
from jobboard.backends.book_rows import BookPage, BookPart, BookRow, BookSave, SaveOutcome
from jobboard.backends.roles import BookStore
from jobboard.backends.shards.fleet import Fleet, chain_pages
from jobboard.backends.shards.table import HIDDEN
from jobboard.errors import InvalidPosting

#: Of how many books a client knows where they are.
_MAX_KNOWN = 10_000


class Books(BookStore):
    """A book never moves. One that is not where it is looked for first is looked for on all shards."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._known: dict[str, int] = {}

    def save(self, step: BookSave) -> SaveOutcome:
        claimed = None if step.fence is None else self._fleet.locate([step.fence.uuid])[0]
        number = self._place(step) if claimed is None or step.after is not None else claimed
        if claimed is not None and number != claimed:
            raise InvalidPosting(
                f"logbook {step.uuid} is on shard {number}, and the job that holds it on shard {claimed}; save a "
                "logbook first with the job that will hold it (post(..., book=book))",
                path="book",
            )
        with self._fleet.roster.limit():
            outcome = self._fleet.ask(number, lambda shard: shard.books.save(step))
        if outcome is SaveOutcome.SAVED:
            self._remember(step.uuid, number)
        return outcome

    def _place(self, step: BookSave) -> int:
        """Return where a book is, or, if it is new, where it goes."""
        known = self._known.get(step.uuid)
        if known is not None and known in self._fleet.present:
            return known
        if step.after is not None:
            found = self._find(step.uuid)
            if found is not None:
                return found
        (place,) = self._fleet.roster.places([step.uuid])
        return place if step.beside is None else self._fleet.home(step.beside)

    def _remember(self, uuid: str, number: int) -> None:
        if len(self._known) >= _MAX_KNOWN:
            self._known = {}
        self._known[uuid] = number

    def _find(self, uuid: str) -> int | None:
        """Look for a book on all shards, the likeliest one first."""
        first = self._first(uuid)
        for number in (first, *(other for other in self._fleet.present if other != first)):
            if self._fleet.ask(number, lambda shard: shard.books.load(uuid, None, 1)) is not None:
                self._remember(uuid, number)
                return number
        self._known.pop(uuid, None)
        return None

    def _first(self, uuid: str) -> int:
        """Return where a book is looked for first."""
        known = self._known.get(uuid)
        return self._fleet.map.now.place(uuid) if known not in self._fleet.present else known

    def load(self, uuid: str, cursor: str | None, size: int) -> BookPart | None:
        first = self._first(uuid)
        part = self._load(first, uuid, cursor, size)
        if part is not None:
            self._remember(uuid, first)
            return part
        number = self._find(uuid)
        return None if number is None else self._load(number, uuid, cursor, size)

    def _load(self, number: int, uuid: str, cursor: str | None, size: int) -> BookPart | None:
        return self._fleet.ask(number, lambda shard: shard.books.load(uuid, cursor, size))

    def page(self, cursor: object | None, size: int) -> BookPage:
        def part(shard: Backend, inner: Any, most: int) -> tuple[list[BookRow], Any]:
            page = shard.books.page(inner, most)
            return [row for row in page.rows if row.uuid not in HIDDEN], page.cursor

        return BookPage(*chain_pages(self._fleet, cursor, size, part))

    def destroy(self, uuid: str) -> bool:
        number = self._find(uuid)
        return number is not None and self._fleet.ask(number, lambda shard: shard.books.destroy(uuid))
