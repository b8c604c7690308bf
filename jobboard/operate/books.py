"""Logbooks as operators name and see them."""

from __future__ import annotations

import uuid as uuids
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jobboard.errors import NotFound
from jobboard.operate.finding import PART, uuid_with_part

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.logbook import BookInfo, LogBook


def book_row(info: BookInfo) -> dict[str, Any]:
    """Return what a list of books shows."""
    return asdict(info)


def book_view(book: LogBook, *, with_details: bool = False) -> dict[str, Any]:
    """Return a book as plain data; what is in it only on request."""
    view: dict[str, Any] = {
        "uuid": book.uuid, "name": book.name, "owner": book.owner, "version": book.version,
        "journal_entries": len(book.entries), "named_entries": len(book.named),
    }  # fmt: skip
    return view | {"meta": book.meta, "entries": book.entries, "named": book.named} if with_details else view


def find_book(board: JobBoard, text: str) -> str:
    """Return the uuid of the book that an operator names by its uuid, or by a beginning or an end that no other has.

    A part of a uuid costs a pass over the list of books; a uuid no request.

    :raises NotFound: no book has that part, or several have; the message says which.
    """
    try:
        return str(uuids.UUID(text))
    except ValueError:
        pass
    if not PART.match(text):
        raise NotFound(f"no logbook {text!r}; give a uuid, or the first or last 4 or more characters of one")
    return uuid_with_part(text, "logbook", (info.uuid for info in board.books()), board)
