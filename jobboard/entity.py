"""A registered participant (a conductor, a scheduler) that operators can see, alive or gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobboard.validation import check_expiry, check_text


@dataclass(frozen=True, slots=True)
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
    metadata: dict[str, Any] = field(default_factory=dict, repr=False)
    ttl: float = 60.0
    last_seen: datetime | None = None
    alive: bool = False

    def __post_init__(self) -> None:
        check_text("an entity's kind", self.kind)
        check_text("an entity's name", self.name)
        check_expiry(self.ttl)
