"""Shards that did not answer when the board was opened: the request that finds one again opens it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from jobboard.errors import BoardUnavailable, RequestRefused


class Absence:
    """Knows which shards are still to be opened. It has no lock, which a forked child might never get.

    :param join: opens a shard, or raises ``BoardUnavailable``.
    """

    def __init__(self, join: Callable[[int], None]) -> None:
        self._join = join
        self._absent: set[int] = set()
        #: Which thread opens a shard just now.
        self._joining: dict[int, int] = {}

    def begin(self, numbers: Iterable[int]) -> None:
        """Learn which shards did not answer as the board was opened."""
        self._absent, self._joining = set(numbers), {}

    def __contains__(self, number: int) -> bool:
        return number in self._absent

    def end(self, number: int) -> None:
        """Open a shard that is absent.

        :raises BoardUnavailable: it does not answer, is none of the board, or another thread is at it.
        """
        own = threading.get_ident()
        if self._joining.setdefault(number, own) != own:
            raise BoardUnavailable("another thread opens it just now")
        try:
            if number in self._absent:
                try:
                    self._join(number)
                except RequestRefused as error:
                    # No single request is refused: it answers, but can't be used.
                    raise BoardUnavailable(str(error)) from error
                self._absent.discard(number)
        finally:
            self._joining.pop(number, None)
