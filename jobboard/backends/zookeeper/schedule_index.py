"""The schedules that this client knows of, in the order in which they are due."""

from __future__ import annotations

from itertools import islice

from jobboard.backends.kv.codec import BYTES, NUMBER_OR_NONE, TEXT, items_of
from jobboard.backends.ordered import SortedKeys
from jobboard.backends.zookeeper.codec import check_moments

#: After every moment: the place of schedules that are never due.
NEVER = float("inf")

Place = tuple[float, str]

#: The version of a schedule whose znode is damaged; its body is what the znode holds, and can't be read.
_DAMAGED = "damaged"


def decode_schedule(data: bytes) -> tuple[str, float | None, bytes]:
    """Return a schedule's version, the moment at which it is due next, and its body."""
    try:
        (version, next_at, body), _ = items_of(data, [TEXT, NUMBER_OR_NONE, BYTES])
        check_moments(next_at)
        return version, next_at, body
    except ValueError:
        return _DAMAGED, None, data


class ScheduleIndex:
    """Is called under the listing's lock; the log keeps it up to date."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._order: SortedKeys[Place] = SortedKeys()
        #: Each schedule's place, and the transaction that it is known from; None for one that was deleted.
        self._known: dict[str, tuple[Place | None, int]] = {}
        self._deleted: set[str] = set()

    def put(self, id: str, next_at: float | None, zxid: int) -> None:
        self._move(id, (NEVER if next_at is None else next_at, id), zxid)

    def drop(self, id: str, zxid: int) -> None:
        self._move(id, None, zxid)

    def _move(self, id: str, place: Place | None, zxid: int) -> None:
        before, known = self._known.get(id, (None, -1))
        if known >= zxid:
            return
        if before is not None:
            self._order.remove(before)
        if place is not None:
            self._order.add(place)
            self._deleted.discard(id)
        else:
            self._deleted.add(id)
        self._known[id] = (place, zxid)

    def forget_deleted(self) -> None:
        """Forget what was deleted, once every older change is known."""
        for id in self._deleted:
            del self._known[id]
        self._deleted.clear()

    def due(self, now: float, limit: int) -> tuple[list[str], float | None]:
        """Return the ids of what is due, earliest first, and the moment of the one that comes after them."""
        ids: list[str] = []
        for at, id in self._order:
            if at > now or len(ids) == limit:
                return ids, None if at == NEVER else at
            ids.append(id)
        return ids, None

    def page(self, after: Place | None, size: int) -> list[Place]:
        return list(islice(self._order if after is None else self._order.after(after), size))
