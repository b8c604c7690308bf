"""What a conductor is told when it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ConductorOptions:
    """The checked arguments of a :class:`~jobboard.Conductor`; times in seconds."""

    name: str
    concurrency: int
    executor: str
    expiry: float
    grace: float
    max_stuck: int
    prefetch: bool

    def metadata(self) -> dict[str, Any]:
        """Return what operators see of them."""
        return {
            "executor": self.executor,
            "concurrency": self.concurrency,
            "max_stuck": self.max_stuck,
            "label": self.name,
        }
