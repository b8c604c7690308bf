"""The board as a conductor lends it to its handlers, who can't close it."""

from __future__ import annotations

import os

from jobboard.board.board import JobBoard
from jobboard.board.books import Books
from jobboard.board.handles import JobHandles


class LentBoard(JobBoard):
    """A board whose connection belongs to somebody else, who goes on using it; one for all handlers.

    All calls do what they do on that board. But ``close`` and the end of a ``with`` block do nothing, however often.
    """

    def __init__(self, board: JobBoard) -> None:
        self._client = board._client
        self._backend = board._backend
        self._handles = JobHandles(self, self._client)
        self._books = Books(self._client, self._backend, self._handles)
        self._pid = os.getpid()

    def close(self) -> None:
        """Do nothing: whoever opened the board closes it. In a child after a fork, release what that has opened."""
        if os.getpid() != self._pid:
            super().close()


def lend(board: JobBoard) -> JobBoard:
    """Return a board that works like this one and can't be closed; always the same one."""
    if isinstance(board, LentBoard):
        return board
    lent: LentBoard | None = vars(board).get("_lent")
    return vars(board).setdefault("_lent", LentBoard(board)) if lent is None else lent
