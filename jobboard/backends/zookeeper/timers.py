"""What of the listing goes by moments and belongs to no single job: the guards of lanes, and the marks of parents."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from jobboard.backends.ordered import SortedKeys


class ListedGuard(NamedTuple):
    """A lane's guard: whether there is one, and when the lane must be looked at, if it must by time."""

    lane: str
    exists: bool
    look_at: float | None


class ListedMark(NamedTuple):
    """A parent or graph, and the moment from which its edges are told how it stands; None: they all say it."""

    parent: str
    due: float | None


class Timers:
    """Texts, each with a moment or none, as of the transaction that it is known from; every method under the lock."""

    def __init__(self) -> None:
        #: Those too that are gone, until every older change is known.
        self._known: dict[str, tuple[float | None, int]] = {}
        self._gone: set[str] = set()
        self._in_order: SortedKeys[tuple[float, str]] = SortedKeys()

    def put(self, text: str, at: float | None, zxid: int, *, is_gone: bool) -> bool:
        """Learn how one stands after a transaction, and return whether that was news."""
        before, known = self._known.get(text, (None, -1))
        if known >= zxid:
            return False
        if before is not None:
            self._in_order.remove((before, text))
        if at is not None:
            self._in_order.add((at, text))
        self._known[text] = (at, zxid)
        (self._gone.add if is_gone else self._gone.discard)(text)
        return True

    def drop(self, text: str) -> None:
        """Learn that one is gone; if it is made again later, it is another one."""
        if text in self._known:
            self.put(text, None, self._known[text][1] + 1, is_gone=True)

    def forget_gone(self) -> None:
        """Forget those that are gone, once every older change is known."""
        for text in self._gone:
            del self._known[text]
        self._gone.clear()

    def due(self, now: float, limit: int) -> list[str]:
        """Return those whose moments have come."""
        return [text for at, text in islice(self._in_order, limit) if at <= now]

    def next_due(self) -> float | None:
        """Return the first moment."""
        first = self._in_order.first()
        return None if first is None else first[0]

    def has_moment(self, text: str) -> bool:
        return self._known.get(text, (None, 0))[0] is not None

    def present(self) -> Iterator[str]:
        """Iterate over those that are not gone."""
        return (text for text in self._known if text not in self._gone)
