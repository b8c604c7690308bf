"""A reason why a job is not running, as operators are told it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason.

    :ivar kind: a word for programs.
    :ivar said: sentences for people.
    :ivar cure: what to type, as the last sentence; "" if there is nothing, or ``said`` has it.
    :ivar parent: the uuid of a job in the trash, if the reason is that the job waits for that one.
    """

    kind: str
    said: str
    cure: str = ""
    parent: str | None = None

    @property
    def text(self) -> str:
        """All sentences."""
        return f"{self.said} {self.cure}".rstrip()
