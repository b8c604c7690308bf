"""What is on a shard: the texts that stay there while their place is another one, and all that must be gone first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jobboard.backends.base import Backend
from jobboard.backends.rows import JobRow
from jobboard.backends.schedule_rows import ScheduleRow
from jobboard.backends.shards import placement
from jobboard.backends.shards.ledger import read_from
from jobboard.backends.shards.pages import pages_of
from jobboard.backends.shards.posting import postings_after
from jobboard.backends.shards.table import HIDDEN
from jobboard.states import JobState

_PAGE = 1000
_HERE = frozenset(JobState) - {JobState.COMPLETE}


def texts_on(shard: Backend) -> Iterator[str]:
    """Yield what is live on a shard, or may come to be: of jobs, of what follows them, and of logbooks."""
    for row in _all(lambda cursor: shard.jobs.page(_HERE, None, cursor, _PAGE)):
        yield from _texts_of(row)
    for book in _all(lambda cursor: shard.books.page(cursor, _PAGE)):
        if book.uuid not in HIDDEN:
            yield book.uuid


def _texts_of(row: JobRow) -> Iterator[str]:
    text = placement.text_of(row.name, row.key, row.lane)
    yield row.uuid if text is None else text
    for new in postings_after(row.uuid, row.ties):
        following = placement.text_of_posting(new)
        if following is not None:
            yield following


def schedules_on(shard: Backend) -> list[ScheduleRow]:
    """Return the schedules of a shard."""
    return list(_all(lambda cursor: shard.schedules.page(cursor, _PAGE)))


def leftovers(shard: Backend) -> list[str]:
    """Return what is left on a shard, in words that say what to do; [] if its store can be taken away."""
    stats = shard.jobs.stats()
    found = [
        f"{count} {state} jobs"
        for state in ("claimed", "unclaimed", "delayed", "blocked")
        if (count := getattr(stats, state))
    ]
    if stats.trashed:
        found.append(f"{stats.trashed} jobs in the trash (restore or purge them)")
    if shard.jobs.page({JobState.COMPLETE}, None, None, 1).rows:
        found.append("records of complete jobs (they go when their retention is over)")
    if schedules := schedules_on(shard):
        found.append(f"{len(schedules)} schedules, such as {schedules[0].id!r} (drain it again: that moves them)")
    books = [book.uuid for book in _all(lambda cursor: shard.books.page(cursor, _PAGE)) if book.uuid not in HIDDEN]
    if books:
        found.append(f"{len(books)} logbooks, such as {books[0]} (destroy them)")
    if names := [name for name, entry in read_from(shard).items() if entry.slots is not None]:
        found.append(
            f"the slots of limits of {len(names)} names, such as {names[0]!r} (remove, and set them afterwards)"
        )
    return found


def _all(read: Callable[[Any], Any]) -> Iterator[Any]:
    for page in pages_of(read):
        yield from page.rows
