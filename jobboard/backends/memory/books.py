"""Logbooks."""

from __future__ import annotations

from jobboard.backends import lifecycle
from jobboard.backends.book_rows import BookPage, BookPart, BookRow, BookSave, SaveOutcome
from jobboard.backends.memory.client import MemoryClient
from jobboard.backends.roles import BookStore


class Books(BookStore):
    """All under the store's lock."""

    def __init__(self, client: MemoryClient) -> None:
        self._store, self._lock, self._begin = client.store, client.lock, client.begin

    def save(self, step: BookSave) -> SaveOutcome:
        with self._lock:
            self._begin()
            book = self._store.books.get(step.uuid)
            present = None if book is None else book.version
            if present == step.version:
                return SaveOutcome.SAVED
            if step.fence is not None and not lifecycle.holds(self._store.rows.get(step.fence.uuid), step.fence):
                return SaveOutcome.LOST
            if present != step.after:
                return SaveOutcome.STALE
            self._store.books[step.uuid] = BookRow(step.uuid, step.version, step.body)
            entries = self._store.book_entries.setdefault(step.uuid, {})
            for name, data in step.entries.items():
                if data is None:
                    entries.pop(name, None)
                else:
                    entries[name] = data
            return SaveOutcome.SAVED

    def load(self, uuid: str, cursor: str | None, size: int) -> BookPart | None:
        with self._lock:
            self._begin()
            book = self._store.books.get(uuid)
            if book is None:
                return None
            stored = self._store.book_entries[uuid]
            # Code points sort as their UTF-8 does.
            names = sorted(name for name in stored if cursor is None or name > cursor)
            entries = [(name, stored[name]) for name in names[:size]]
            return BookPart(book, entries, names[size - 1] if len(names) > size else None)

    def page(self, cursor: object | None, size: int) -> BookPage:
        with self._lock:
            self._begin()
            uuids = sorted(uuid for uuid in self._store.books if cursor is None or uuid > str(cursor))
            rows = [self._store.books[uuid] for uuid in uuids[:size]]
            return BookPage(rows, rows[-1].uuid if len(uuids) > size else None)

    def destroy(self, uuid: str) -> bool:
        with self._lock:
            self._begin()
            self._store.book_entries.pop(uuid, None)
            return self._store.books.pop(uuid, None) is not None
