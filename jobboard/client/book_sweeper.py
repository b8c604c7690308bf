"""Destroys logbooks whose job is gone: a part of them at a time, now and then."""

from __future__ import annotations

import time

from jobboard.backends.base import Backend
from jobboard.book_format import info_of

#: For how long a book must have been seen without its job, in seconds: one that was just saved waits for the post.
ORPHAN_AGE = 600.0

#: Seconds until the next sweep: if this one saw no owned book, if it did, and if most of them were to be destroyed.
_INTERVAL, _INTERVAL_IF_OWNED, _INTERVAL_IF_MANY = 60.0, 10.0, 1.0
_PAGE, _MAX_SUSPECTS = 100, 100_000


class BookSweeper:
    """Goes through the books page by page, and begins anew at the end.

    Readers leave out the book of a job that is gone, so nothing depends on when it is destroyed. No clock but this
    process's own is asked for how long it has been without its job.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._cursor: object | None = None
        self._due = time.monotonic() + _INTERVAL
        #: When each book that has no job was seen first.
        self._suspects: dict[str, float] = {}

    def sweep_when_due(self) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + _INTERVAL
            self.sweep()

    def sweep(self) -> int:
        """Look at the next page of books, and destroy those that have long been without their job; return how many."""
        cursor, self._cursor = self._cursor, None
        page = self._backend.books.page(cursor, _PAGE)
        self._cursor = page.cursor
        infos = [info_of(row, None) for row in page.rows]
        owner_of = {info.uuid: info.owner for info in infos if info.owner is not None}
        gone = self._long_without(owner_of) if owner_of else []
        if owner_of:
            self._due = time.monotonic() + (_INTERVAL_IF_MANY if len(gone) > _PAGE // 2 else _INTERVAL_IF_OWNED)
        for uuid in gone:
            self._backend.books.destroy(uuid)
            self._suspects.pop(uuid, None)
        return len(gone)

    def _long_without(self, owner_of: dict[str, str]) -> list[str]:
        owners = list(dict.fromkeys(owner_of.values()))
        there = {owner for owner, row in zip(owners, self._backend.jobs.read(owners), strict=True) if row is not None}
        if len(self._suspects) > _MAX_SUSPECTS:
            self._suspects.clear()
        now = time.monotonic()
        without = [uuid for uuid, owner in owner_of.items() if owner not in there]
        return [uuid for uuid in without if now - self._suspects.setdefault(uuid, now) >= ORPHAN_AGE]
