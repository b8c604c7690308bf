"""What ``status`` finds on a board, for its tests."""

from __future__ import annotations

from typing import Any

from jobboard import Entity, JobBoard
from jobboard.operate.status import status
from jobboard.operate.verdict import Limits

#: Everything is too late at once.
NONE = Limits(wait=0, run=0, unhandled=-1, overdue=-1)


def conductor(board: JobBoard, *names: str, ttl: float = 600, **told: Any) -> None:
    board.register_entity(
        Entity("conductor", "worker", {"names": list(names), "concurrency": 2, "running": 1, **told}, ttl)
    )


def found(board: JobBoard, limits: Limits | None = None) -> list[tuple[str, str, str | None]]:
    view = status(board, limits)
    assert view["verdict"] == (view["findings"][0]["verdict"] if view["findings"] else "WELL"), "the worst comes first"
    return [(finding["verdict"], finding["kind"], finding["about"]) for finding in view["findings"]]
