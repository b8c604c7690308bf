"""One scheduler process of the functional tests; its clock may be another one than everybody else's.

``python scheduler_process.py URI BOARD AHEAD`` posts what is due until SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import time


def set_clock_ahead(seconds: float) -> None:
    """Move this process's wall clock; before anything else keeps the right one."""
    right = time.time
    time.time = lambda: right() + seconds


def main(uri: str, name: str) -> None:
    from jobboard import BoardUnavailable, Scheduler, fetch
    from jobboard.testing import eventually

    board = fetch(name, uri)

    def is_connected() -> bool:
        try:
            board.connect(5.0)
        except BoardUnavailable:
            return False
        return True

    eventually(is_connected, within=60)
    scheduler = Scheduler(board)
    signal.signal(signal.SIGTERM, lambda *_: scheduler.stop(0))
    scheduler.run()
    board.close()


if __name__ == "__main__":
    if float(sys.argv[3]):
        set_clock_ahead(float(sys.argv[3]))
    main(*sys.argv[1:3])
