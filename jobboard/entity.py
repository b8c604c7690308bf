"""A registered participant (a conductor, a scheduler) that operators can see, alive or gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobboard.types import Seconds
from jobboard.validation import check_expiry, check_text


@dataclass(frozen=True, init=False, slots=True)
class Entity:
    """Somebody who works on the board.

    :param kind: such as ``"conductor"``; with the name it is the identity.
    :param name: unique within its kind.
    :param metadata: plain data about it, such as its host, its pid and what it runs.
    :param ttl: seconds after which it counts as gone unless it registers again; ``math.inf`` for never.

    ``last_seen`` and ``alive`` are filled in by ``board.entities()``.
    """

    kind: str
    name: str
    metadata: dict[str, Any] = field(repr=False)
    ttl: float
    last_seen: datetime | None
    alive: bool

    def __init__(
        self,
        kind: str,
        name: str,
        metadata: dict[str, Any] | None = None,
        ttl: Seconds = 60.0,
        last_seen: datetime | None = None,
        alive: bool = False,
    ) -> None:
        object.__setattr__(self, "kind", check_text("an entity's kind", kind))
        object.__setattr__(self, "name", check_text("an entity's name", name))
        object.__setattr__(self, "metadata", {} if metadata is None else metadata)
        object.__setattr__(self, "ttl", check_expiry(ttl))
        object.__setattr__(self, "last_seen", last_seen)
        object.__setattr__(self, "alive", alive)
