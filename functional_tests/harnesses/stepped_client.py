"""A client in a process of its own, whose wall clock a test sets while it runs; the monotonic clock goes on.

``python stepped_client.py URI BOARD`` answers each line on its standard input, ``["verb", argument, ...]``, by one of
JSON: what came of it, and the moments of the host's monotonic clock before and after.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple, Self

from jobboard import JobBoard, fetch
from jobboard.testing import eventually
from jobboard.testing.contract.clockwork import firing


class Answer(NamedTuple):
    """What a call came to, and between which moments of the host's monotonic clock it was made."""

    value: Any
    began: float
    ended: float


class SteppedClient:
    """Starts and asks such a process; ``ahead`` is by how many seconds its wall clock is ahead at first."""

    def __init__(self, uri: str, board: str, folder: Path, ahead: float = 0.0) -> None:
        self._file = folder / f"clock-{id(self)}"
        self.step(ahead)
        [library] = glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
        clock = {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, __file__, uri, board],
            env={**os.environ, **clock},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        off = self.ask("wall").value - time.time()
        assert abs(off - ahead) < 60, f"the clock of the process is {off} seconds off, not {ahead}"

    def step(self, ahead: float) -> None:
        """Set the process's wall clock this many seconds ahead of the right one."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{ahead:+}\n")
        new.replace(self._file)

    def ask(self, verb: str, *arguments: Any) -> Answer:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([verb, *arguments]) + "\n")
        self._process.stdin.flush()
        return Answer(*json.loads(self._process.stdout.readline()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def claim(board: JobBoard, expiry: float) -> str | None:
    return next((job.uuid for job in board.claim_next("stepped", expiry=expiry)), None)


def forget(board: JobBoard) -> None:
    """Connect anew, knowing nothing of the server's clock."""
    from jobboard.backends.etcd import clock

    board.close()
    vars(clock).get("_clocks", {}).clear()
    board.connect()


#: What the process can be asked for.
VERBS: dict[str, Callable[..., Any]] = {
    "forget": forget,
    "wall": lambda board: time.time(),
    "post": lambda board, delay: board.post("resize", delay=delay).uuid,
    "claim": claim,
    "take": lambda board, expiry: eventually(lambda: claim(board, expiry)),
    "consume": lambda board, uuid: board.consume(uuid, "stepped"),
    "extend": lambda board, uuid, expiry: board.extend(uuid, "stepped", expiry),
    "fire": lambda board: firing(board).fire_due(9).posted,
    "fired": lambda board: eventually(lambda: firing(board).fire_due(9).posted),
}


def main(uri: str, name: str) -> None:
    # The library's stand-in for what Python sleeps by takes the monotonic clock for the wall clock.
    time.sleep = lambda seconds: threading.Event().wait(seconds) and None
    with fetch(name, uri) as board:
        for line in sys.stdin:
            verb, *arguments = json.loads(line)
            began = time.monotonic()
            value = VERBS[verb](board, *arguments)
            sys.stdout.write(json.dumps([value, began, time.monotonic()]) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
