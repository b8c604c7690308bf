"""Logbooks: a znode for each, and one for each of its entries.

The entries of a book stand below a znode of its generation, which is made together with the book. So the entries of a
book that was destroyed belong to none from that moment on, although deleting them takes several steps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from jobboard.backends.book_rows import BookPage, BookPart, BookRow, BookSave, SaveOutcome
from jobboard.backends.findings import AuditFinding
from jobboard.backends.kv.cache import LruCache
from jobboard.backends.kv.codec import BYTES, TEXT, check_kinds, items_of, pack
from jobboard.backends.roles import BookStore
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.errors import refused
from jobboard.backends.zookeeper.layout import Layout, last_part
from jobboard.backends.zookeeper.read_modify_write import ReadModifyWrite
from jobboard.backends.zookeeper.requests import BAD_VERSION, NO_NODE, NODE_EXISTS, Data, Multi, fault_in
from jobboard.backends.zookeeper.transactions import Transactions
from jobboard.errors import BoardUnavailable

MAX_RETRIES = 50

#: Entries that one transaction deletes, and znodes of which one request reads the children.
_MAX_DELETED, _BUCKETS_AT_ONCE = 500, 8

#: Generations that a client remembers.
_MAX_KNOWN = 10_000

#: One tidying in this many looks for entries whose book is gone.
_TIDIES_PER_SWEEP = 12


class StoredBook(NamedTuple):
    """A book as it was read; those of earlier versions have no generation."""

    row: BookRow
    generation: str | None
    path: str
    data: Data


class Books(BookStore):
    """Whatever changes an entry writes its book's own znode in the same transaction."""

    def __init__(
        self, connection: Connection, layout: Layout, transactions: Transactions, jobs: ReadModifyWrite
    ) -> None:
        self._connection, self._layout, self._transactions, self._jobs = connection, layout, transactions, jobs
        #: The generations of books that this client has met, so that their entries are read along with them.
        self._generations: LruCache[str] = LruCache(_MAX_KNOWN)
        #: How many tidyings there were, and where the next look for what is left over begins.
        self._tidied = self._next_bucket = 0

    # -- save ------------------------------------------------------------------------------------------------------

    def save(self, step: BookSave) -> SaveOutcome:
        for _ in range(MAX_RETRIES):
            book, there = self._read(step.uuid, list(step.entries))
            known = None if book is None else book.row.version
            if known == step.version:
                return SaveOutcome.SAVED
            request = self._connection.new_write()
            if step.fence is not None:
                job = self._jobs.under_fence(step.fence)
                if job is None:
                    return SaveOutcome.LOST
                request.check(self._layout.deleted, job.deletions)
                request.check(self._layout.job(job.uuid), job.version)
            if known != step.after:
                return SaveOutcome.STALE
            generation = self._add_steps(request, step, book, there)
            fault = fault_in(self._connection.write(request))
            if fault is None:
                self._generations.put(step.uuid, generation)
                return SaveOutcome.SAVED
            if fault[1] not in (NO_NODE, NODE_EXISTS, BAD_VERSION):
                raise refused(self._connection.where, fault[1])
            if step.fence is not None:
                self._jobs.forget_claim(step.fence.uuid)
        raise BoardUnavailable("others save this book, or change its job, faster than this client can")

    def _add_steps(self, request: Multi, step: BookSave, book: StoredBook | None, there: set[str]) -> str:
        """Add what writes a book and its entries, and return its generation.

        A book that an earlier version saved moves to its place of today.
        """
        layout, path = self._layout, self._layout.book(step.uuid)
        generation = step.version if book is None or book.generation is None else book.generation
        data = pack([step.version, step.body, generation])
        if book is not None and book.path == path:
            request.set(path, data, book.data.stat.version)
        else:
            if book is not None:
                request.delete(book.path, book.data.stat.version)
            entries = layout.entries_of(step.uuid, generation)
            self._transactions.create_parents([path, entries])
            request.create(path, data)
            request.create(entries, b"")
        for name, value in step.entries.items():
            entry = layout.entry(step.uuid, generation, name)
            if value is not None and name in there:
                request.set(entry, pack([name, value]))
            elif value is not None:
                request.create(entry, pack([name, value]))
            elif name in there:
                request.delete(entry)
        return generation

    def _read(self, uuid: str, names: Sequence[str] = ()) -> tuple[StoredBook | None, set[str]]:
        """Return a book, and those of these names of entries that it has; if they change meanwhile, a save fails."""
        layout = self._layout
        for _ in range(MAX_RETRIES):
            generation = self._generations.get(uuid)
            entries = [] if generation is None else [layout.entry(uuid, generation, name) for name in names]
            new, old, *found = self._connection.read_many([layout.book(uuid), layout.old_book(uuid), *entries])
            if new is None:
                return None if old is None else _decoded(uuid, layout.old_book(uuid), old), set()
            book = _decoded(uuid, layout.book(uuid), new)
            if not names or book.generation == generation:
                return book, {name for name, entry in zip(names, found, strict=True) if entry is not None}
            self._generations.put(uuid, str(book.generation))
        raise BoardUnavailable("others save this book faster than this client can")

    # -- read ------------------------------------------------------------------------------------------------------

    def load(self, uuid: str, cursor: str | None, size: int) -> BookPart | None:
        for _ in range(MAX_RETRIES):
            book, _ = self._read(uuid)
            if book is None or book.generation is None:
                return None if book is None else BookPart(book.row, [], None)
            entries = self._layout.entries_of(uuid, book.generation)
            paths = sorted(self._connection.children([entries]))
            part = [path for path in paths if cursor is None or last_part(path) > cursor][:size]
            *found, last = self._connection.read_many([*part, book.path])
            if last is not None and last.stat.mzxid == book.data.stat.mzxid:
                read = [_decoded_entry(uuid, data) for data in found if data is not None]
                return BookPart(book.row, read, last_part(part[-1]) if part and part[-1] != paths[-1] else None)
        raise BoardUnavailable("others save this book faster than this client can read it")

    def page(self, cursor: object | None, size: int) -> BookPage:
        """Return the books of as many buckets as fill the page; those of earlier versions come first."""
        buckets, bucket = self._layout.book_buckets, int(str(cursor or 0))
        old = [] if bucket else self._connection.children([self._layout.books])
        paths = [path for path in old if path not in buckets]
        while bucket < len(buckets):
            paths += self._connection.children(buckets[bucket : bucket + _BUCKETS_AT_ONCE])
            bucket += _BUCKETS_AT_ONCE
            if len(paths) >= size:
                break
        rows = [_shown(path, data) for path, data in self._connection.existing(paths)]
        return BookPage(rows, bucket if bucket < len(buckets) else None)

    # -- destroy ---------------------------------------------------------------------------------------------------

    def destroy(self, uuid: str) -> bool:
        places = [self._layout.book(uuid), self._layout.old_book(uuid)]
        for _ in range(MAX_RETRIES):
            there = list(self._connection.existing(places))
            if not there:
                # An earlier try may have deleted it, and lost the reply.
                self._delete_known_entries(uuid)
                return False
            path, data = there[0]
            generation = _generation_of(data)
            if generation is not None:
                self._generations.put(uuid, generation)
            request = self._connection.new_write()
            request.delete(path, data.stat.version)
            if self._connection.is_written(request):
                self._delete_known_entries(uuid)
                return True
        raise BoardUnavailable("others save this book faster than this client can destroy it")

    def _delete_known_entries(self, uuid: str) -> None:
        """Delete the entries of a book that is gone, as far as that works; tidying deletes the rest."""
        generation = self._generations.get(uuid)
        if generation is not None:
            self._generations.forget(uuid)
            with contextlib.suppress(BoardUnavailable):
                self._delete_entries(self._layout.entries_of(uuid, generation))

    def _delete_entries(self, path: str) -> bool:
        """Delete the entries of a generation whose book is gone; no client adds to it."""
        paths = [*self._connection.children([path]), path]
        is_done = False
        for start in range(0, len(paths), _MAX_DELETED):
            request = self._connection.new_write()
            for gone in paths[start : start + _MAX_DELETED]:
                request.delete(gone)
            is_done = self._connection.is_written(request)
        return is_done

    def forget(self) -> int:
        """Delete some of the entries whose book is gone, if it is time to look for them; return of how many books."""
        self._tidied += 1
        if self._tidied % _TIDIES_PER_SWEEP:
            return 0
        gone = self._orphans(self._next_bucket)
        self._next_bucket = (self._next_bucket + _BUCKETS_AT_ONCE) % len(self._layout.entry_buckets)
        return sum(self._delete_entries(path) for path in gone)

    def audit(self, repair: bool) -> list[AuditFinding]:
        orphans = [
            path
            for bucket in range(0, len(self._layout.entry_buckets), _BUCKETS_AT_ONCE)
            for path in self._orphans(bucket)
        ]
        return [
            AuditFinding(None, f"{path} belongs to no logbook", repaired=repair and self._delete_entries(path))
            for path in orphans
        ]

    def _orphans(self, bucket: int) -> list[str]:
        """Return the generations in some buckets whose book is gone; books are read later than their generations."""
        paths = self._connection.children(self._layout.entry_buckets[bucket : bucket + _BUCKETS_AT_ONCE])
        found = [(path, *last_part(path).partition(".")[::2]) for path in paths]
        places = {self._layout.book(uuid) for _, uuid, _ in found}
        generations = {path: _generation_of(data) for path, data in self._connection.existing(sorted(places))}
        return [path for path, uuid, generation in found if generations.get(self._layout.book(uuid)) != generation]


def _decoded(uuid: str, path: str, data: Data) -> StoredBook:
    try:
        (version, body), rest = items_of(data.data, [TEXT, BYTES])
        check_kinds(rest, [TEXT][: len(rest)])
    except ValueError:
        raise BoardUnavailable(f"logbook {uuid} can't be decoded; destroy_book() removes it") from None
    return StoredBook(BookRow(uuid, version, body), rest[0] if rest else None, path, data)


def _shown(path: str, data: Data) -> BookRow:
    uuid = last_part(path)
    try:
        return _decoded(uuid, path, data).row
    except BoardUnavailable:
        return BookRow(uuid, "", data.data)


def _generation_of(data: Data) -> str | None:
    try:
        return _decoded("", "", data).generation
    except BoardUnavailable:
        return None


def _decoded_entry(uuid: str, data: Data) -> tuple[str, bytes]:
    try:
        (name, value), _ = items_of(data.data, [TEXT, BYTES])
        return name, value
    except ValueError:
        raise BoardUnavailable(f"an entry of logbook {uuid} can't be decoded; destroy_book() removes it") from None
