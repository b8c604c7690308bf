"""The board: what users hold. It validates, encodes, fences and maps errors, and holds no store code."""

from __future__ import annotations

from jobboard.board.consuming import Consuming
from jobboard.board.operating import Operating
from jobboard.board.producing import Producing
from jobboard.schedules.collection import Schedules


class JobBoard(Producing, Consuming, Operating):
    """A board where jobs are posted, claimed by exactly one owner, and consumed.

    Get one from :func:`jobboard.fetch` or :func:`jobboard.backend`. Thread-safe; a context manager that connects and
    closes. After ``close`` every call but ``connect`` raises :class:`~jobboard.BoardUnavailable`.
    """

    @property
    def schedules(self) -> Schedules:
        """The schedules that live on this board."""
        return Schedules(self)

    def __repr__(self) -> str:
        state = "connected" if self.connected else "closed"
        return f"<JobBoard {self.name!r} on {self.store}, {state}>"


__all__ = ["JobBoard", "Schedules"]
