"""A conductor and a scheduler in one process: ``python -m soak.worker SETTINGS``, in JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from jobboard import BoardUnavailable, Conductor, Scheduler, fetch
from jobboard.testing import eventually

from .work import handlers


def main(settings: dict[str, Any]) -> None:
    board = fetch(settings["board"], settings["uri"], **settings["options"])

    def is_connected() -> bool:
        try:
            board.connect(5.0)
        except BoardUnavailable:
            return False
        return True

    eventually(is_connected, within=60)
    conductor = Conductor("soak", board, handlers, concurrency=4, executor=settings["executor"], expiry=5.0)
    scheduler = Scheduler(board)
    scheduler.start()
    conductor.run()
    scheduler.stop()
    board.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
