"""The history of a board in logbooks: minutes in a book for each hour, ten minutes each in a book for each day."""

from __future__ import annotations

import logging
import uuid as uuids
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jobboard.board import JobBoard
from jobboard.errors import BoardUnavailable, NotFound, StaleBook
from jobboard.logbook import LogBook
from jobboard.operate.sampling.buckets import Bucket

logger = logging.getLogger("jobboard.sampling")

#: The same on every board; boards share no books.
_NAMESPACE = uuids.UUID("6a6f6262-6f61-4264-8073-616d706c6500")
_FORMAT = 1
_MAX_TRIES = 5


@dataclass(frozen=True, slots=True)
class Level:
    """Buckets of one length; all in seconds.

    :ivar bucket: their length.
    :ivar book: of how long a time one logbook has them.
    :ivar keep: for how long they stay.
    """

    bucket: int
    book: int
    keep: int


@dataclass(frozen=True, slots=True, order=True)
class Period:
    """What one logbook has: the buckets of this length from a moment on."""

    bucket: int
    start: int

    @property
    def uuid(self) -> str:
        return str(uuids.uuid5(_NAMESPACE, f"{self.bucket}/{self.start}"))


def levels(days: int) -> tuple[Level, Level]:
    """Return the minutes, which are kept for a day, and the ten minutes, which are kept for this many days."""
    return Level(60, 3600, 86_400), Level(600, 86_400, days * 86_400)


class History:
    """Buckets of one level, in memory and on the board."""

    def __init__(self, board: JobBoard, level: Level) -> None:
        self.level = level
        self._board = board
        self._buckets: dict[int, Bucket] = {}
        #: The one that was saved last.
        self._book: LogBook | None = None

    def since(self, moment: float) -> list[Bucket]:
        """Return the buckets that had not ended by then, oldest first."""
        buckets = list(self._buckets.values())
        return sorted((each for each in buckets if each.at + self.level.bucket > moment), key=lambda each: each.at)

    def period(self, moment: float) -> Period:
        """Return what the logbook has that this moment belongs into."""
        return Period(self.level.bucket, int(moment // self.level.book) * self.level.book)

    def is_over(self, period: Period, now: float) -> bool:
        """Whether nobody wants to see it any more."""
        return period.bucket == self.level.bucket and period.start + self.level.book + self.level.keep <= now

    def load(self, periods: Iterable[Period], now: float) -> None:
        """See what is on the board; one request for each period of this level."""
        for period in sorted(periods):
            if period.bucket != self.level.bucket:
                continue
            book = self._book_of(period)
            if book.meta.get("format") == _FORMAT:
                found = filter(None, map(_read, book.entries))
                self._buckets.update((bucket.at, bucket) for bucket in found)
        self._forget(now)

    def add(self, bucket: Bucket) -> None:
        """Put a bucket into memory, and save it; together with what another has saved for the same time.

        :raises BoardUnavailable: the store can't be reached; it stays in memory alone.
        """
        self._buckets[bucket.at] = bucket
        self._forget(max(self._buckets))
        period = self.period(bucket.at)
        for _ in range(_MAX_TRIES):
            book, self._book = self._book, None
            if book is None or book.uuid != period.uuid:
                book = self._book_of(period)
            if book.meta.get("format") != _FORMAT:
                logger.warning("logbook %s is of another format; this minute is not saved", book.uuid)
                return
            theirs = [entry for entry in book.entries if entry.get("at") == bucket.at]
            if theirs == [bucket.to_plain()]:
                # An earlier try had saved it, and its reply was lost.
                return
            whole = (_read(theirs[0]) if theirs else None) or Bucket(bucket.at)
            whole.merge(bucket)
            book.entries = [entry for entry in book.entries if entry not in theirs] + [whole.to_plain()]
            try:
                self._board.save_book(book)
            except StaleBook:
                continue
            self._book = book
            self._buckets[bucket.at] = whole
            return
        raise BoardUnavailable(f"others saved logbook {period.uuid} {_MAX_TRIES} times meanwhile")

    def _book_of(self, period: Period) -> LogBook:
        try:
            return self._board.load_book(period.uuid)
        except NotFound:
            book = LogBook(f"history from {period.start}, by {self.level.bucket} s", period.uuid)
            book.meta = {"format": _FORMAT}
            return book

    def _forget(self, now: float) -> None:
        """Drop what is older than the level keeps, and what a damaged entry says of the future."""
        oldest = now - self.level.keep
        self._buckets = {at: bucket for at, bucket in self._buckets.items() if oldest < at <= now}


def _read(entry: Any) -> Bucket | None:
    try:
        return Bucket.from_plain(entry)
    except ValueError as error:
        logger.warning("an entry of the history is left out: %s", error)
        return None
