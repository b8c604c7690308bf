"""The board and the persistence, by TaskFlow's own configuration."""

from __future__ import annotations

import os
from typing import Any

from taskflow.jobs import backends as boards
from taskflow.persistence import backends as persistences


def open_site() -> tuple[Any, Any]:
    """Return the persistence, and the board, connected."""
    conf = {
        "uri": os.environ["JOBBOARD_URI"],
        "namespace": "orders",
        # Seconds after which a dead conductor's job is claimable.
        "ttl": os.environ.get("CLAIM_LASTS", "30"),
    }
    # A logbook goes with its job's record.
    persistence = persistences.fetch({"connection": "jobboard", "keep_logbooks": False, **conf})
    board = boards.fetch("orders", {"board": "jobboard", **conf}, persistence=persistence)
    board.connect()
    return persistence, board
