"""Scheduler processes of the functional tests, whose clocks may be others than everybody else's.

``python scheduler_process.py URI BOARD`` has everything imported, and forks a scheduler for each line on its standard
input. ``start SECONDS`` answers with a pid, and its clock is ahead by so much; ``wait PID`` answers with what it ended
with, negative for a signal. All end with its standard input.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from jobboard import BoardUnavailable, Scheduler, fetch
from jobboard.testing import eventually


def set_clock_ahead(seconds: float) -> None:
    """Move this process's wall clock."""
    right = time.time
    time.time = lambda: right() + seconds


def work(uri: str, name: str) -> None:
    """Post what is due until SIGTERM."""
    board = fetch(name, uri)

    def is_connected() -> bool:
        try:
            board.connect(5.0)
        except BoardUnavailable:
            return False
        return True

    eventually(is_connected, within=100)
    scheduler = Scheduler(board)
    signal.signal(signal.SIGTERM, lambda *_: scheduler.stop(0))
    scheduler.run()
    board.close()


def start(uri: str, name: str, ahead: float) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.close(0)
        if ahead:
            set_clock_ahead(ahead)
        work(uri, name)
        status = 0
    finally:
        sys.stdout.flush()
        os._exit(status)


def answer(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def main(uri: str, name: str) -> None:
    fetch(name, uri)  # imports what the store needs, and opens nothing
    alive: set[int] = set()
    for line in sys.stdin:
        command, argument = line.split()
        if command == "start":
            pid = start(uri, name, float(argument))
            alive.add(pid)
            answer(pid)
        else:
            status = os.waitpid(int(argument), 0)[1]
            alive.discard(int(argument))
            answer(os.waitstatus_to_exitcode(status))
    for pid in alive:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
