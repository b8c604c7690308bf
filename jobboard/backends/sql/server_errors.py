"""A server's errors as ours, in words that say what to do."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeVar

from jobboard.errors import BoardUnavailable, ReplyLost, RowLocked, TooLarge, TransactionUndone

R = TypeVar("R")


class ServerErrors(abc.ABC):
    """
    :param where: the server and the database, for messages.
    """

    #: The kind of server, for messages.
    server: ClassVar[str]
    #: What the client says of a server that can't be verified -> what to do.
    unverified: ClassVar[Mapping[str, str]]

    def __init__(self, where: str) -> None:
        self._where = where

    def explain(self, error: Exception) -> BoardUnavailable:
        """Return our error for one of a transaction that was not committed.

        It may run again if that is TransactionUndone, or RowLocked.
        """
        if self.is_locked(error):
            return RowLocked(self._sentence(error))
        if self.is_retryable(error) or self.is_cut(error):
            silent, taken = self.is_silent(error), self.is_key_taken(error)
            return TransactionUndone(self._sentence(error), is_silent=silent, is_key_taken=taken)
        kind = TooLarge if self.is_too_large(error) else BoardUnavailable
        return kind(self._sentence(error))

    def explain_commit(self, error: Exception) -> BoardUnavailable:
        """Return our error for one of a commit; a server that said why has undone it, unless it was ending."""
        if self.is_cut(error):
            return ReplyLost(self._sentence(error))
        return self.explain(error)

    def unreachable(self, error: Exception) -> BoardUnavailable:
        """Return our error for one of a connection that was not made."""
        return BoardUnavailable(self._sentence(error, self.refusal(error) or "can't be reached"))

    def _sentence(self, error: Exception, otherwise: str = "failed") -> str:
        if self.is_silent(error):
            return f"{self._where} did not reply in time; is it overloaded, or the line cut?"
        explanation, said = self.explanation(error), self.words(error)
        if explanation is None:
            return f"{self._where} {otherwise}: {said}"
        return f"{self._where} {explanation} ({self.server}: {said})"

    @abc.abstractmethod
    def is_retryable(self, error: Exception) -> bool:
        """Whether others have undone the transaction: a deadlock, or a key that somebody else inserted meanwhile."""

    @abc.abstractmethod
    def is_key_taken(self, error: Exception) -> bool:
        """Whether it is the latter."""

    @abc.abstractmethod
    def is_locked(self, error: Exception) -> bool:
        """Whether a statement waited too long for a row that others have locked."""

    @abc.abstractmethod
    def is_cut(self, error: Exception) -> bool:
        """Whether the connection is gone, and with it the answer."""

    @abc.abstractmethod
    def is_table_missing(self, error: Exception) -> bool:
        """Whether the database has no such table, or there is no such database."""

    def is_too_large(self, error: Exception) -> bool:
        """Whether the server takes no request of this size."""
        return False

    @abc.abstractmethod
    def is_silent(self, error: Exception) -> bool:
        """Whether the driver has cut the connection itself, because nothing came over it in time."""

    @abc.abstractmethod
    def explanation(self, error: Exception) -> str | None:
        """Return what to do, by the error's code; None if there is nothing for it."""

    @abc.abstractmethod
    def words(self, error: Exception) -> str:
        """Return what the server said."""

    def refusal(self, error: Exception) -> str | None:
        """Return what to do if the server refused the connection, and the error has no code; None if it did not."""
        text = str(error)
        return next((cure for mark, cure in self.unverified.items() if mark in text), None)


def not_empty(rows: Sequence[R], where: str) -> Sequence[R]:
    """Return the rows, or the results, of an answer.

    :raises ReplyLost: there are none, so this is not the answer to what was asked.
    """
    if not rows:
        raise ReplyLost(f"{where} gave an empty answer, which may be that to another request; is a proxy before it?")
    return rows
