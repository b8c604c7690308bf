"""Logbooks: a key for each, and one for each of its entries."""

from __future__ import annotations

from jobboard.backends.book_rows import BookPage, BookPart, BookRow, BookSave, SaveOutcome
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.job_reader import CACHE_SIZE
from jobboard.backends.etcd.keys import behind, decoded, encoded
from jobboard.backends.etcd.read_modify_write import ReadModifyWrite
from jobboard.backends.etcd.txn import (
    KeyValue,
    Op,
    Txn,
    absent,
    after,
    delete,
    delete_range,
    get,
    modified_at,
    present,
    put,
    scan,
    scan_prefix,
)
from jobboard.backends.kv.cache import LruCache
from jobboard.backends.kv.codec import BYTES, TEXT, items_of, pack
from jobboard.backends.kv.read_modify_write import CHANGE_TIMEOUT, Deadline
from jobboard.backends.roles import BookStore


class Books(BookStore):
    """Whatever changes an entry writes its book's own key in the same transaction."""

    def __init__(self, connection: Connection, jobs: ReadModifyWrite) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._jobs = jobs
        #: The versions and revisions of the books that this client has saved last.
        self._saved: LruCache[tuple[str, int]] = LruCache(CACHE_SIZE)

    def save(self, step: BookSave) -> SaveOutcome:
        key, entries = self._keys.book(step.uuid), self._keys.entries_of(step.uuid)
        deadline = Deadline(CHANGE_TIMEOUT)
        while True:
            version, revision = self._present(step)
            if version == step.version:
                return SaveOutcome.SAVED
            conditions = [modified_at(key, revision)]
            if step.fence is not None:
                job = self._jobs.under_fence(step.fence)
                if job is None:
                    return SaveOutcome.LOST
                conditions += [*job.unchanged(self._keys), *job.still_held(self._keys)]
            if version != step.after:
                return SaveOutcome.STALE
            steps = [put(key, pack([step.version, step.body]))]
            steps += [_step_of(entries + encoded(name), data) for name, data in step.entries.items()]
            result = self._connection.send(Txn(conditions, steps))
            if result.succeeded:
                self._saved.put(step.uuid, (step.version, result.revision))
                return SaveOutcome.SAVED
            self._saved.forget(step.uuid)
            if step.fence is not None:
                self._jobs.forget_claim(step.fence.uuid)
            deadline.check(f"the book {step.uuid} changes all the time")

    def _present(self, step: BookSave) -> tuple[str | None, int]:
        """Return a book's version and the revision of its key, as this client remembers them or reads them."""
        saved = self._saved.get(step.uuid)
        if saved is not None and saved[0] == step.after:
            return saved
        key, entries = self._keys.book(step.uuid), self._keys.entries_of(step.uuid)
        found, leftovers = self._connection.read([get(key), scan_prefix(entries, 1, keys_only=True)])
        if found.first is not None:
            return _row_of(step.uuid, found.first).version, found.first.modified
        if leftovers.first is not None:
            # An earlier version has destroyed the book, and did not know of its entries.
            self._connection.send(Txn([absent(key)], [delete_range(entries, after(entries))]))
        return None, 0

    def load(self, uuid: str, cursor: str | None, size: int) -> BookPart | None:
        entries = self._keys.entries_of(uuid)
        start = entries if cursor is None else entries + encoded(cursor) + b"\0"
        found, part = self._connection.read([get(self._keys.book(uuid)), scan(start, after(entries), size)])
        if found.first is None:
            return None
        read = [(decoded(kv.last_part), kv.value) for kv in part.kvs]
        return BookPart(_row_of(uuid, found.first), read, read[-1][0] if part.more else None)

    def page(self, cursor: object | None, size: int) -> BookPage:
        books = self._keys.books
        (found,) = self._connection.read([scan(behind(cursor, books), after(books), size)])
        rows = [_row_of(decoded(kv.last_part), kv) for kv in found.kvs]
        return BookPage(rows, found.cursor)

    def destroy(self, uuid: str) -> bool:
        key, entries = self._keys.book(uuid), self._keys.entries_of(uuid)
        steps = [delete(key), delete_range(entries, after(entries))]
        return self._connection.send(Txn([present(key)], steps)).succeeded


def _step_of(key: bytes, data: bytes | None) -> Op:
    return delete(key) if data is None else put(key, data)


def _row_of(uuid: str, kv: KeyValue) -> BookRow:
    """Return a book; one that can't be read has all of its bytes as its body."""
    try:
        (version, body), _ = items_of(kv.value, (TEXT, BYTES))
    except ValueError:
        return BookRow(uuid, "", kv.value)
    return BookRow(uuid, version, body)
