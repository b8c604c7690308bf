"""Logbooks on a board: saved by what changed, read in parts, listed and destroyed."""

from __future__ import annotations

import contextlib
import time
import uuid as uuids
from collections.abc import Iterator
from itertools import repeat
from typing import Any, Protocol

from jobboard.backends.base import Backend
from jobboard.backends.book_rows import BookPart, BookRow, BookSave, SaveOutcome
from jobboard.backends.rows import Fence
from jobboard.board.claim_errors import loss_seen
from jobboard.board.handles import JobHandles
from jobboard.book_format import (
    MAX_CHANGES,
    MAX_ENTRIES,
    StoredEntry,
    digest_of,
    info_of,
    pack_entries,
    pack_head,
    unpack_book,
)
from jobboard.client import BackendClient
from jobboard.codec import encode
from jobboard.errors import BoardUnavailable, ClaimLost, InvalidPosting, NotFound, StaleBook
from jobboard.job import JobHandle
from jobboard.logbook import BookInfo, LogBook

#: Entries that the first request for a book reads, and those of a later one at most, if the entries are small.
_FIRST_PART, _MAX_PART = 50, 1000
#: While a part has fewer bytes than this, the next one has twice the entries.
_SMALL_PART = 256 * 1024
#: How often a book is read from its beginning because somebody saved it meanwhile.
_MAX_READS = 20
_PAGE = 100


class Held(Protocol):
    """What holds a claim: the handle that claimed, or the job of a running handler."""

    @property
    def uuid(self) -> str: ...
    @property
    def token(self) -> int | None: ...
    @property
    def record(self) -> Any: ...


class Books:
    """The logbooks of one board. An owned one is there for as long as its job's record is."""

    def __init__(self, client: BackendClient, backend: Backend, handles: JobHandles) -> None:
        self._client, self._backend, self._handles = client, backend, handles

    # -- save ------------------------------------------------------------------------------------------------------

    def save(self, book: LogBook, hold: Held | None, backend: Backend, job: str | None = None) -> None:
        """Save a book; ``job`` is the uuid of the one that is about to be posted with it."""
        if not isinstance(book, LogBook):
            raise TypeError(f"book must be a LogBook, not {type(book).__name__}")
        fence = None if hold is None else self._fence_of(hold)
        owner = _owner_of(book, job if fence is None else fence.uuid)
        entries = {entry.name: entry for entry in pack_entries(book, self._client.converter)}
        digests = {name: digest_of(entry.data) for name, entry in entries.items()}
        changed = [entry for name, entry in entries.items() if book._stored.get(name) != digests[name]]
        self._check(book, len(entries), changed, removed := [name for name in book._stored if name not in entries])
        written = {entry.name: entry.data for entry in changed} | dict.fromkeys(removed)
        version = str(uuids.uuid4())
        head = pack_head(book, owner, time.time())
        step = BookSave(book.uuid, version, book.version, head, written, fence, owner if job is None else job)
        outcome = self._client.call(backend.books.save, step)
        if outcome is SaveOutcome.LOST and fence is not None:
            raise self._lost(book, fence)
        if outcome is SaveOutcome.STALE:
            raise StaleBook(f"{book!r} was saved or destroyed by somebody else since; load it again")
        book.version, book.owner, book._stored = version, owner, digests

    def _fence_of(self, hold: Held) -> Fence:
        try:
            uuid = self._handles.uuid_of(hold) if isinstance(hold, JobHandle) else hold.uuid
            token, who = hold.token, hold.record.owner
        except AttributeError:
            raise TypeError(f"hold must be the job that you claimed, not {type(hold).__name__}") from None
        if token is None or who is None:
            raise ClaimLost(f"this handle on job {uuid} holds no claim")
        return Fence(uuid, who, token)

    def _lost(self, book: LogBook, fence: Fence) -> ClaimLost:
        row = None
        with contextlib.suppress(BoardUnavailable):
            row = self._client.call(self._backend.jobs.read, [fence.uuid])[0]
        lost = loss_seen(fence, row)
        return ClaimLost(f"{book!r} was not saved: {lost}", owner=lost.owner, state=lost.state)

    def _check(self, book: LogBook, count: int, changed: list[StoredEntry], removed: list[str]) -> None:
        """Check what is written as its readers will."""
        largest, converter = self._client.largest_details, self._client.converter
        for entry in changed:
            for path, value in entry.values:
                encode(path, value, largest=largest, converter=converter)
        size, changes = sum(len(entry.data) for entry in changed), len(changed) + len(removed)
        if size > largest or changes > MAX_CHANGES:
            raise InvalidPosting(
                f"book: this save of {book!r} changes {changes} entries, {size} bytes once encoded; at most "
                f"{MAX_CHANGES} and {largest} are allowed. Save it more often",
                path="book",
            )
        if count > MAX_ENTRIES:
            raise InvalidPosting(f"book: {book!r} would be stored in {count} parts; at most {MAX_ENTRIES}", path="book")

    # -- load ------------------------------------------------------------------------------------------------------

    def load(self, uuid: str) -> LogBook:
        for _ in range(_MAX_READS):
            found = self._read(uuid)
            if found is None:
                continue
            try:
                return unpack_book(*found, self._client.converter)
            except (ValueError, TypeError) as error:
                raise BoardUnavailable(f"logbook {uuid} can't be decoded: {error}") from None
        raise BoardUnavailable(f"logbook {uuid} was saved by others {_MAX_READS} times while it was read; try again")

    def _read(self, uuid: str) -> tuple[BookRow, dict[str, bytes]] | None:
        """Return a book and all of its entries; None if somebody saved it meanwhile."""
        part, size = self._part(uuid, None, _FIRST_PART), _FIRST_PART
        row = None if part is None else part.row
        if part is None or row is None or not self._is_there(row):
            raise NotFound(f"no logbook {uuid} on board {self._client.name!r}")
        entries = dict(part.entries)
        for _ in range(MAX_ENTRIES // _FIRST_PART):
            if part.cursor is None:
                break
            size = min(2 * size, _MAX_PART) if sum(len(data) for _, data in part.entries) < _SMALL_PART else size
            part = self._part(uuid, part.cursor, size)
            if part is None or part.row.version != row.version:
                return None
            entries.update(part.entries)
        return row, entries

    def _part(self, uuid: str, cursor: str | None, size: int) -> BookPart | None:
        return self._client.call(self._backend.books.load, uuid, cursor, size)

    def _is_there(self, row: BookRow) -> bool:
        """Whether a book is free, or its job's record can be read."""
        owner = info_of(row, self._client.converter).owner
        return owner is None or self._client.call(self._backend.jobs.read, [owner])[0] is not None

    # -- list and destroy ------------------------------------------------------------------------------------------

    def all(self) -> Iterator[BookInfo]:
        seen: set[str] = set()
        for page in self._client.pages(repeat(_PAGE), self._backend.books.page):
            infos = [info_of(row, self._client.converter) for row in page.rows if row.uuid not in seen]
            seen.update(info.uuid for info in infos)
            owners = list({info.owner for info in infos if info.owner is not None})
            rows = self._client.call(self._backend.jobs.read, owners) if owners else []
            there = {None} | {owner for owner, row in zip(owners, rows, strict=True) if row is not None}
            yield from (info for info in infos if info.owner in there)

    def destroy(self, uuid: str) -> None:
        destroyed, repeated = self._client.call_until_certain(self._backend.books.destroy, uuid)
        if not destroyed and not repeated:
            raise NotFound(f"no logbook {uuid} on board {self._client.name!r}")


def _owner_of(book: LogBook, job: str | None) -> str | None:
    """Return the uuid of the job that the book goes with; an owned book without one gets ``job``."""
    if not book.owned or book.owner is not None:
        return book.owner
    if job is None:
        raise ValueError("an owned book is saved with its job: post it, or give hold=, the job that you claimed")
    return job
