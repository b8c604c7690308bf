"""Destroys logbooks whose job is gone: a part of them at a time, now and then."""

from __future__ import annotations

import time

from jobboard.backends.base import Backend
from jobboard.book_format import info_of

#: A book that was saved longer ago than this, in seconds, does not wait for its job to be posted.
ORPHAN_AGE = 3600.0

#: Seconds between two sweeps, and to the next one if most of what one saw was to be destroyed.
_INTERVAL, _INTERVAL_IF_MANY = 60.0, 5.0
_PAGE = 100


class BookSweeper:
    """Goes through the books page by page, and begins anew at the end.

    Readers leave out the book of a job that is gone, so nothing depends on when it is destroyed.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._cursor: object | None = None
        self._due = time.monotonic() + _INTERVAL

    def sweep_when_due(self) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + _INTERVAL
            if self.sweep() > _PAGE // 2:
                self._due = time.monotonic() + _INTERVAL_IF_MANY

    def sweep(self) -> int:
        """Look at the next page of books, and destroy those whose job is gone; return how many."""
        cursor, self._cursor = self._cursor, None
        page = self._backend.books.page(cursor, _PAGE)
        self._cursor = page.cursor
        before = self._backend.now() - ORPHAN_AGE
        infos = [info_of(row, None) for row in page.rows]
        owned = [(info.uuid, info.owner) for info in infos if info.saved_at and info.saved_at.timestamp() < before]
        owners = list({owner for _, owner in owned if owner is not None})
        found = dict(zip(owners, self._backend.read(owners), strict=True)) if owners else {}
        gone = [uuid for uuid, owner in owned if owner is not None and found[owner] is None]
        return sum(self._backend.books.destroy(uuid) for uuid in gone)
