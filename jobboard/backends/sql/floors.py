"""Where claims begin to look.

A claim and its end leave dead entries in the indexes of what is ready and of what is due, where the next claim begins.
The database removes them once no snapshot needs them: minutes later, or after a long transaction. So a client
remembers a *floor* (of each name that it asks for, and of each priority): ``MARGIN`` seconds below the first job that
it claimed last. It looks from there on. A place is the moment at which a job became due, so nearly all new jobs are
above. Its floor of what is due is ``MARGIN`` seconds before its last claim.

What appears below a floor:

- A better priority than that of the job that was claimed last: each claim asks whether there is such a job, of any
  name, and then looks from the start. Worse priorities are behind the floor's.
- A job that comes back to its old place, is promoted late, or gets another priority. The transaction that writes it
  also writes its own number as the board's *mark*. Each claim reads the mark in its own snapshot, and looks from the
  start if it is not the one that the floors were made under. So it is seen as soon as it is committed. If that look
  ends before it has seen all, what it did not reach has no floor any more. On MariaDB, where each statement of a claim
  has a snapshot of its own, it reads the mark first: what is committed after that counts as later than the claim.
- A post whose transaction (a user's) was committed later than ``MARGIN`` seconds after it; a job that others had locked
  and left as it was; a job that an older version or another program wrote; what the clock put there after it went
  back. For these a client looks from the start after ``PAUSE`` times the time that such a look takes, ``MAX_PAUSE``
  seconds at most. For that long such a job may be passed.

A client looks from the start until it has claimed ``LEAST_CLAIMS`` jobs, and always for what is paused or limited. One
who waits has pauses of its own (``look_to_wait``), and looks again once they are over.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobboard.backends.sql.schema import PLACES_OF_A_RANK, PLACES_OF_A_SECOND, UNCLAIMED

#: Seconds by which a floor lies below what was seen. Whoever writes below half of it sets the mark.
MARGIN = 0.5
#: A look from the start may take a client 1 % of its time.
PAUSE, MAX_PAUSE = 100, 30.0
LEAST_CLAIMS = 1000
#: How many sets of names are remembered.
_MAX_REMEMBERED = 100

Names = frozenset[str] | None

#: The floor of who looks from the start: before every moment. PyMySQL takes no infinity.
ALWAYS = -1e300


@dataclass(frozen=True, slots=True)
class Seen:
    """What a client saw at its last looks; replaced as a whole, since threads share it."""

    mark: str | None = None
    #: The rank of the best job that was claimed last, and places by names (None: all jobs) and ranks.
    rank: int | None = None
    floors: Mapping[tuple[str | None, int | None], int] = field(default_factory=dict)
    due: float = ALWAYS
    #: Until when claims begin at the floors, and until when those who wait look from there.
    until: float = 0.0
    waits_until: float = 0.0
    claimed: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """How one look is to be taken."""

    names: Names
    seen: Seen = field(default_factory=Seen)
    is_from_start: bool = True
    began: float = 0.0
    is_wait: bool = False

    @property
    def mark(self) -> str | None:
        return self.seen.mark

    @property
    def due(self) -> float:
        """After which moment to look for what is due."""
        return ALWAYS if self.is_from_start else self.seen.due

    def recheck_in(self, mark: str | None) -> float:
        """Return the seconds after which to look again where this look has found nothing; infinite if it saw all.

        :param mark: the board's, as the look has found it.
        """
        sees_all = self.is_from_start or mark != self.mark
        return math.inf if sees_all else max(0.0, self.seen.waits_until - time.monotonic())

    @property
    def better(self) -> int | None:
        """Before which place there must be no job, or the floors mean nothing; None: they are not used."""
        rank = None if self.is_from_start else self.seen.rank
        return None if rank is None else rank * PLACES_OF_A_RANK

    def floors(self, names: Iterable[str | None]) -> list[int]:
        """Return from which place on to look for jobs of each name; nothing if that is the start."""
        better, rank = self.better, self.seen.rank
        return [] if better is None else [self.seen.floors.get((name, rank), better) for name in names]


class Floors:
    """The floors of one client of a board."""

    def __init__(self) -> None:
        self._seen: dict[Names, Seen] = {}
        self._last = Seen()

    def look(self, names: Names) -> Look:
        seen = self._seen.get(names, Seen())
        return _look(names, seen, seen.until)

    def look_to_wait(self, names: Names) -> Look:
        """Return how to look whether to wait.

        It has a pause of its own. Else one who waits would look at the floors after each claim from the start that
        finds nothing, and so would wait for the next one only.
        """
        seen = self._seen.get(names, Seen())
        return _look(names, seen, seen.waits_until, is_wait=True)

    def look_for_due(self) -> Look:
        """Return how to look for what is due only."""
        return _look(None, self._last, self._last.until)

    def recheck_in(self) -> float:
        """Return the seconds after which to look again for what is due; infinite where there are no floors yet.

        Another thread may set a floor at any moment: so there is a bound also if the last look was from the start.
        """
        if self._last.claimed < LEAST_CLAIMS:
            return math.inf
        left = self._last.until - time.monotonic()
        return left if left > 0 else MAX_PAUSE

    def note(self, look: Look, mark: str | None, now: float, claimed: Sequence[tuple[str, int]], limit: int) -> None:
        """Note what a look has found, on a board where nothing is due.

        :param claimed: the names and places of the jobs that were claimed, in order.
        """
        seen, is_new = look.seen, mark != look.seen.mark
        rank = claimed[0][1] // PLACES_OF_A_RANK if claimed else seen.rank
        floors = {} if is_new and len(claimed) >= limit else dict(seen.floors)
        for name, place in reversed(claimed):
            first = place // PLACES_OF_A_RANK * PLACES_OF_A_RANK
            of = None if look.names is None else name, place // PLACES_OF_A_RANK
            floors[of] = max(first, place - int(MARGIN * PLACES_OF_A_SECOND))
        until, waits_until, ended = seen.until, seen.waits_until, time.monotonic()
        if look.is_from_start or is_new:
            next_at = ended + min(PAUSE * (ended - look.began), MAX_PAUSE)
            until, waits_until = (until, next_at) if look.is_wait else (next_at, waits_until)
        if len(self._seen) >= _MAX_REMEMBERED and look.names not in self._seen:
            self._seen.clear()
        self._last = Seen(mark, rank, floors, now - MARGIN, until, waits_until, seen.claimed + len(claimed))
        self._seen[look.names] = self._last


def _look(names: Names, seen: Seen, until: float, is_wait: bool = False) -> Look:
    now = time.monotonic()
    return Look(names, seen, now >= until or seen.claimed < LEAST_CLAIMS, now, is_wait)


def are_below_floors(rows: Iterable[Mapping[str, Any]], now: float) -> bool:
    """Whether clients may not see one of these rows, as it is written, from their floors on."""
    before = now - MARGIN / 2
    return any(
        (row["due_at"] is not None and row["due_at"] < before)
        or (row["state"] == UNCLAIMED and is_place_below_floors(row["place"], now))
        for row in rows
    )


def is_place_below_floors(place: int, now: float) -> bool:
    return place % PLACES_OF_A_RANK < (now - MARGIN / 2) * PLACES_OF_A_SECOND
