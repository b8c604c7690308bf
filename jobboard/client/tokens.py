"""The tokens that one board object got, for those who end a claim without the handle that claimed."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from jobboard.backends.rows import Fence, JobRow

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
