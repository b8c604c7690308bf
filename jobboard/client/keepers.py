"""The keepers of one client: they learn which claims are made and ended through it, and renew them meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol


class ClaimKeeper(Protocol):
    """Renews the claims of one owner; each method returns at once."""

    def claimed(self, jobs: Sequence[Any], until: float) -> None:
        """Renew the claims of these jobs from now on; without that they hold until this monotonic time at least."""

    def ending(self, uuid: str, token: int) -> None:
        """An end of this claim is about to be sent."""

    def ended(self, uuid: str, token: int) -> None:
        """This claim has ended, and whoever ended it was told."""


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
