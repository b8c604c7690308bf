"""The marks of the listing: which parents have edges that do not say yet how they stand, and from when on to say it."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from jobboard.backends.ordered import SortedKeys


class ListedMark(NamedTuple):
    """A parent or graph, and the moment from which its edges are told how it stands; None: they all say it."""

    parent: str
    due: float | None


class MarkIndex:
    """Every method is called under the listing's lock."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        #: Each mark, those too that are worked off, with the transaction that it is known from.
        self._marks: dict[str, tuple[ListedMark, int]] = {}
        self._done: set[str] = set()
        self._timers: SortedKeys[tuple[float, str]] = SortedKeys()

    def put(self, mark: ListedMark, zxid: int) -> bool:
        """Learn how a mark stands after a transaction, and return whether that was news."""
        before, known = self._marks.get(mark.parent, (None, -1))
        if known >= zxid:
            return False
        if before is not None and before.due is not None:
            self._timers.remove((before.due, mark.parent))
        if mark.due is not None:
            self._timers.add((mark.due, mark.parent))
        self._marks[mark.parent] = (mark, zxid)
        (self._done.add if mark.due is None else self._done.discard)(mark.parent)
        return True

    def drop(self, parent: str) -> None:
        """Learn that there is no mark; one that is made later is another one."""
        if parent in self._marks:
            self.put(ListedMark(parent, None), self._marks[parent][1] + 1)

    def forget_done(self) -> None:
        """Forget the marks that are worked off, once every older change is known."""
        for parent in self._done:
            del self._marks[parent]
        self._done.clear()

    def due(self, now: float, limit: int) -> list[str]:
        """Return parents whose edges are to be told by now."""
        return [parent for at, parent in islice(self._timers, limit) if at <= now]

    def next_due(self) -> float | None:
        """Return the moment from which edges are to be told next."""
        first = self._timers.first()
        return None if first is None else first[0]
