"""What a conductor is told when it is made."""

from __future__ import annotations

import os
import socket
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
        """Return what operators see of them, and of where they hold."""
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "executor": self.executor,
            "concurrency": self.concurrency,
            "max_stuck": self.max_stuck,
            "label": self.name,
        }
