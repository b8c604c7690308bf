"""The sampler's lease: a logbook whose version decides who samples, with what its holder saw last.

Its version decides: of two who save it at once, one learns that the other was first. No clock is compared with another:
a sampler that wants the lease watches whether the version changes.
"""

from __future__ import annotations

import time
from typing import Any

from jobboard.board import JobBoard
from jobboard.errors import NotFound, StaleBook
from jobboard.logbook import LogBook

#: The same on every board; boards share no books.
LEASE_BOOK = "6a6f6262-6f61-4264-8073-616d706c6501"


class Lease:
    """The lease of one board, as one who has it or wants it sees it.

    :param who: unique among all.
    :param patience: seconds after which a holder that saved nothing has lost it.
    """

    def __init__(self, board: JobBoard, who: str, patience: float) -> None:
        self._board = board
        self._who = who
        self._patience = patience
        self._book: LogBook | None = None
        self._changed_at = 0.0
        self.is_held = False

    @property
    def content(self) -> dict[str, Any]:
        """What the holder saved, when this one last looked; {} if there was nothing."""
        return {} if self._book is None else self._book.meta

    def look(self) -> None:
        """See what the holder has saved; one request."""
        before = None if self._book is None else self._book.version
        try:
            self._book = self._board.load_book(LEASE_BOOK)
        except NotFound:
            self._book = None
            return
        if self._book.version != before:
            self._changed_at = time.monotonic()

    @property
    def is_free(self) -> bool:
        """Whether nobody has it, or its holder seems to be dead, or it is this one's and a reply was lost."""
        if self.content.get("holder") in (None, self._who):
            return True
        return time.monotonic() - self._changed_at >= self._patience

    def hold(self, content: dict[str, Any]) -> bool:
        """Take the lease, or keep it; atomic, one request.

        :returns: whether this one has it now; if not, another was first.
        """
        return self._save({**content, "holder": self._who})

    def release(self) -> None:
        """Let another take it at once, if this one has it."""
        if self.is_held:
            self._save({**self.content, "holder": None})
            self.is_held = False

    def _save(self, meta: dict[str, Any]) -> bool:
        book = LogBook("the history's sampler", LEASE_BOOK) if self._book is None else self._book
        before, book.meta = book.meta, meta
        try:
            self._board.save_book(book)
        except BaseException as error:
            book.meta, self.is_held = before, False
            if isinstance(error, StaleBook):
                return False
            raise
        self._book, self.is_held = book, True
        return True
