"""TaskFlow's logbooks on a board: found, read, changed under the claim that covers them, and destroyed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from taskflow import exceptions as taskflow_errors

from jobboard.board import JobBoard
from jobboard.errors import StaleBook
from jobboard.logbook import LogBook
from jobboard.taskflow.errors import storing
from jobboard.taskflow.stored_book import StoredBook
from jobboard.validation import check_uuid

#: How often a change is made again because somebody else saved the logbook meanwhile.
_MAX_TRIES = 20
#: How many entries one save of a logbook may change.
_MAX_CHANGES = 100
#: Of how many logbooks, and of how many details, it is remembered where they are.
_MAX_BOOKS, _MAX_UUIDS = 1_000, 100_000

T = TypeVar("T")


class Shelf:
    """The logbooks of one board.

    :param hold_on: returns the claim under which a logbook is saved, or None for none, from the uuids of the flow
        details that change and of the logbook.
    :param owned: a logbook that is saved under a claim belongs to that job, and goes with its record.
    """

    def __init__(self, board: JobBoard, hold_on: Callable[[Sequence[str]], Any], *, owned: bool) -> None:
        self.board = board
        self._hold_on = hold_on
        self._owned = owned
        self._lock = threading.RLock()
        self._books: dict[str, LogBook] = {}
        self._book_of: dict[str, str] = {}

    def load(self, uuid: str) -> StoredBook:
        """Read a logbook anew."""
        with storing(), self._lock:
            return self._remember(self.board.load_book(check_uuid(uuid)))

    def all(self) -> Iterator[StoredBook]:
        """Read all of TaskFlow's logbooks, one after the other."""
        with storing():
            infos = list(self.board.books())
        for info in infos:
            try:
                stored = self.load(info.uuid)
            except taskflow_errors.NotFound:
                continue
            if stored.is_taskflows:
                yield stored

    def book_of(self, uuid: str) -> str:
        """Return the uuid of the logbook that a flow or atom detail is in."""
        known = self._book_of.get(uuid)
        if known is not None:
            return known
        for stored in self.all():
            if uuid in stored.uuids():
                return stored.uuid
        raise taskflow_errors.NotFound(f"no flow or atom detail {uuid} in any logbook of board {self.board.name!r}")

    def holder(self, uuid: str) -> StoredBook:
        """Read the logbook that a flow or atom detail is in."""
        return self.load(self.book_of(uuid))

    def change(self, uuid: str, change: Callable[[StoredBook], T], of: str | None = None) -> T:
        """Change a logbook, which may be new, and save it under the claim that covers it.

        :param of: the uuid of the flow or atom detail that changes; None for all of the logbook.
        """
        for _ in range(_MAX_TRIES):
            with self._lock:
                book = self._known_or_new(uuid)
                stored = StoredBook(uuid, dict(book.named))
                answer = change(stored)
                try:
                    with storing():
                        self._save(book, stored, of)
                except _Stale:
                    continue
                return answer
        raise taskflow_errors.StorageFailure(f"logbook {uuid} was saved by others {_MAX_TRIES} times; try again")

    def destroy(self, uuid: str) -> None:
        """Destroy a logbook, whatever is in it."""
        with storing(), self._lock:
            self._books.pop(uuid, None)
            self.board.destroy_book(check_uuid(uuid))

    # -- inside ----------------------------------------------------------------------------------------------------

    def _known_or_new(self, uuid: str) -> LogBook:
        if uuid not in self._books:
            try:
                self.load(uuid)
            except taskflow_errors.NotFound:
                return LogBook("new", uuid)
        return self._books[uuid]

    def _save(self, book: LogBook, stored: StoredBook, of: str | None) -> None:
        flows = [str(flow.uuid) for flow in stored.flows(lazy=True)] if of is None else [stored.flow_of(of)]
        hold = self._hold_on([*flows, stored.uuid])
        if hold is not None and self._owned:
            book.owned = True
        book.name = stored.name
        names = iter([name for name in stored.entries if book.named.get(name) != stored.entries[name]])
        # Whatever goes wrong, the next change begins with what is stored.
        self._books.pop(book.uuid, None)
        try:
            while part := list(islice(names, _MAX_CHANGES)):
                book.named.update({name: stored.entries[name] for name in part})
                self.board.save_book(book, hold=hold)
        except StaleBook:
            raise _Stale from None
        self._remember(book)

    def _remember(self, book: LogBook) -> StoredBook:
        stored = StoredBook(book.uuid, dict(book.named))
        self._books[book.uuid] = book
        self._book_of.update(dict.fromkeys(stored.uuids(), book.uuid))
        _forget_oldest(self._books, _MAX_BOOKS)
        _forget_oldest(self._book_of, _MAX_UUIDS)
        return stored


class _Stale(Exception):
    """Somebody else saved the logbook meanwhile."""


def _forget_oldest(known: dict[str, Any], most: int) -> None:
    for oldest in list(islice(known, max(0, len(known) - most))):
        del known[oldest]
