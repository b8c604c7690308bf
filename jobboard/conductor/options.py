"""What a conductor is told when it is made."""

from __future__ import annotations

from dataclasses import dataclass


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
