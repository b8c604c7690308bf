"""Which conductors are to claim no more: a book on the board that each of them looks for when it registers."""

from __future__ import annotations

from collections.abc import Collection

from jobboard.board import JobBoard
from jobboard.errors import BoardUnavailable, NotFound, StaleBook
from jobboard.logbook import LogBook

#: The same on every board; boards share no books.
QUIET_BOOK = "6a6f6262-6f61-4264-8071-756965740001"

#: How often a change is tried that another operator's change comes before.
_MAX_TRIES = 20


def quiet_ones(board: JobBoard) -> frozenset[str]:
    """Return the names of the conductors that are to claim no more; one request.

    :raises BoardUnavailable: the store can't be reached, or the book can't be decoded.
    """
    try:
        return _names_in(board.load_book(QUIET_BOOK))
    except NotFound:
        return frozenset()


def set_quiet(board: JobBoard, names: Collection[str], quiet: bool) -> None:
    """Tell conductors to claim no more, or to claim again. Atomic and idempotent; forgets those that are long gone.

    They obey when they register next, within 10 seconds, and do so until they end.

    :param names: as :meth:`JobBoard.entities` names them.
    :raises BoardUnavailable: the store can't be reached, or others change the same all the time.
    """
    for _ in range(_MAX_TRIES):
        book = _book(board)
        before = _names_in(book)
        known = {entity.name for entity in board.entities() if entity.kind == "conductor"}
        after = (before | set(names) if quiet else before - set(names)) & known
        if after == before:
            return
        book.meta["names"] = sorted(after)
        try:
            board.save_book(book)
            return
        except StaleBook:
            continue
    raise BoardUnavailable(f"other operators changed who is quiet {_MAX_TRIES} times meanwhile; try again")


def _book(board: JobBoard) -> LogBook:
    try:
        return board.load_book(QUIET_BOOK)
    except NotFound:
        return LogBook("quiet conductors", QUIET_BOOK)


def _names_in(book: LogBook) -> frozenset[str]:
    names = book.meta.get("names")
    return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()
