"""A reason why a job is not running, as operators are told it."""

from __future__ import annotations

from dataclasses import dataclass

from jobboard.limit import Limit


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason.

    :ivar kind: a word for programs.
    :ivar said: sentences for people; what users wrote, such as names and reasons, stands only here.
    :ivar cure: what to type, as the last sentences; "" if there is nothing. Whoever marks commands up does so only
        here: a user may have written something into a name that looks like one.
    :ivar limit: with ``cure``, if that sets a limit: the one that it sets.
    :ivar parent: the uuid of a job in the trash, if the reason is that the job waits for that one.
    """

    kind: str
    said: str
    cure: str = ""
    parent: str | None = None
    limit: Limit | None = None

    @property
    def text(self) -> str:
        """All sentences."""
        return f"{self.said} {self.cure}".rstrip()
