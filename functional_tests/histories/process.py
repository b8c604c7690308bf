"""The processes of a history: workers alone or together on a board, and conductors.

``python -m histories.process SETTINGS``, in JSON, has everything imported, and forks a process for each line
``start NAME`` on its standard input, which it answers with a pid. Its first line says where its jobboard is. It answers
``wait PID`` with what that one ended with, negative for a signal.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import jobboard
from jobboard import BoardUnavailable, JobBoard, fetch

from .conducting import conduct
from .records import Diary
from .sharing import work_in_asyncio, work_in_threads
from .worker import Stop, work

#: What a process does, by the first letter of its name.
ROLES = {"w": work, "g": work_in_threads, "a": work_in_asyncio, "c": conduct}

#: What tells a process to stop.
_STOP = {signal.SIGTERM}


def play(settings: dict[str, Any], board: JobBoard, process: str, stop: Stop | threading.Event) -> None:
    """Do what a process of this name does on a connected board, until told to stop."""
    diary = Diary(Path(settings["folder"]) / f"{process}.jsonl", process)
    ROLES[process[0]](board, diary, process, settings["seed"], settings["rate"], stop)


def _connect(board: JobBoard, stop: Stop) -> bool:
    while not stop.is_set():
        try:
            board.connect(5.0)
            return True
        except BoardUnavailable:
            stop.wait(0.1)
    return False


def live(settings: dict[str, Any], process: str) -> None:
    """Be one process from its start until SIGTERM."""
    stop = Stop()
    # For a process that does not stop: into its log.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP)
    board = fetch(settings["board"], settings["uri"], **settings["options"])
    if _connect(board, stop):
        play(settings, board, process, stop)
        board.close()


def start(settings: dict[str, Any], process: str) -> int:
    # A process that is told to stop as soon as it is there stops in good order, too.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP)
        return pid
    status = 1
    try:
        os.close(0)
        live(settings, process)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def main(settings: dict[str, Any]) -> None:
    if settings["clock"]:
        # libfaketime takes the deadline of clock_nanosleep() for one of its own clock, and refuses it.
        time.sleep = lambda seconds: select.select([], [], [], seconds) and None
    fetch(settings["board"], settings["uri"], **settings["options"])  # imports what the store needs, and opens nothing
    alive: set[int] = set()
    answer(jobboard.__file__)
    for line in sys.stdin:
        command, argument = line.split()
        if command == "start":
            pid = start(settings, argument)
            alive.add(pid)
            answer(pid)
        else:
            status = os.waitpid(int(argument), 0)[1]
            alive.discard(int(argument))
            answer(os.waitstatus_to_exitcode(status))
    for pid in alive:
        os.kill(pid, signal.SIGKILL)


def answer(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
