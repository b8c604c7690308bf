"""The tokens that one board object got, for those who end a claim without the handle that claimed."""

from __future__ import annotations

import threading

_MAX_TOKENS = 100_000


class Tokens:
    """Remembers the token of each (job, owner); forgets the oldest beyond a bound, since lost claims never say so."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[tuple[str, str], int] = {}

    def remember(self, uuid: str, who: str, token: int) -> None:
        with self._lock:
            self._tokens[uuid, who] = token
            if len(self._tokens) > _MAX_TOKENS:
                del self._tokens[next(iter(self._tokens))]

    def recall(self, uuid: str, who: str) -> int | None:
        return self._tokens.get((uuid, who))

    def of(self, who: str) -> dict[str, int]:
        """Return the tokens of all claims of one owner, by the uuids of their jobs."""
        with self._lock:
            return {uuid: token for (uuid, owner), token in self._tokens.items() if owner == who}

    def forget(self, uuid: str, who: str, token: int) -> None:
        """Forget exactly this token; a newer one of the same owner stays."""
        with self._lock:
            if self._tokens.get((uuid, who)) == token:
                del self._tokens[uuid, who]
