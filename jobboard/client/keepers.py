"""The claims that one client has made: their tokens, and who renews them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from jobboard.backends.rows import Fence, JobRow


class ClaimKeeper(Protocol):
    """Renews the claims of one owner; each method returns at once."""

    def claimed(self, jobs: Sequence[Any], until: float) -> None:
        """Renew the claims of these jobs from now on; without that they hold until this monotonic time at least."""

    def ending(self, uuid: str, token: int) -> None:
        """An end of this claim is about to be sent."""

    def ended(self, uuid: str, token: int) -> None:
        """This claim has ended, and the caller that ended it knows."""


class Keepers:
    """The keepers of one client by the owners whose claims they keep."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_owner: dict[str, tuple[ClaimKeeper, ...]] = {}

    def add(self, who: str, keeper: ClaimKeeper) -> None:
        with self._lock:
            self._by_owner[who] = (*self._by_owner.get(who, ()), keeper)

    def remove(self, who: str, keeper: ClaimKeeper) -> None:
        with self._lock:
            left = tuple(each for each in self._by_owner.get(who, ()) if each is not keeper)
            if left:
                self._by_owner[who] = left
            else:
                self._by_owner.pop(who, None)

    def of(self, who: str | None) -> tuple[ClaimKeeper, ...]:
        """Return those that keep the claims of this owner."""
        return self._by_owner.get(who or "", ())


_MAX_TOKENS = 100_000


class Tokens:
    """Remembers the token of each (job, owner); forgets the oldest beyond a bound, since lost claims never say so."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[tuple[str, str], int] = {}

    def remember(self, claimed: Iterable[JobRow]) -> None:
        with self._lock:
            for row in claimed:
                self._tokens[row.uuid, row.owner or ""] = row.token
                if len(self._tokens) > _MAX_TOKENS:
                    del self._tokens[next(iter(self._tokens))]

    def recall(self, uuid: str, who: str) -> int | None:
        return self._tokens.get((uuid, who))

    def of(self, who: str) -> dict[str, int]:
        """Return the tokens of all claims of one owner, by the uuids of their jobs."""
        with self._lock:
            return {uuid: token for (uuid, owner), token in self._tokens.items() if owner == who}

    def forget(self, claims: Iterable[Fence]) -> None:
        """Forget exactly these tokens; a newer one of the same owner stays."""
        with self._lock:
            for claim in claims:
                if self._tokens.get((claim.uuid, claim.who)) == claim.token:
                    del self._tokens[claim.uuid, claim.who]
