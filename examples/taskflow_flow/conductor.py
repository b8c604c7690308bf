"""``python -m taskflow_flow.conductor NAME`` works on flows until it is stopped."""

from __future__ import annotations

import signal
import sys

from taskflow.conductors import backends as conductors

from taskflow_flow.site import open_site

if __name__ == "__main__":
    persistence, board = open_site()
    conductor = conductors.fetch(
        "jobboard_blocking", sys.argv[1], board, persistence=persistence, factories=["taskflow_flow.flows"]
    )
    signal.signal(signal.SIGTERM, lambda *_: conductor.stop())
    conductor.run()
    board.close()
    persistence.close()
