"""Jobs of a library that are posted at a fixed rate and run by one worker process, while something else is measured."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.peers.peer import Peer
from benchmarks.peers.running import command_of, environment_of

#: In seconds: for installing and starting, and for stopping.
_MARGIN, _STOP_TIMEOUT = 60, 15


@contextmanager
def lives_of(peer: Peer, store: str, uri: str, rate: float, seconds: float) -> Iterator[Callable[[float], int]]:
    """Let a peer post and work; yields what waits for so many seconds and returns how many jobs have run meanwhile."""
    process = subprocess.Popen(
        command_of(peer, store, ["live", uri, str(rate), str(seconds + _MARGIN)]),
        env=environment_of(peer, store),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    done, is_live = 0, threading.Event()

    def read() -> None:
        nonlocal done
        assert process.stdout is not None
        for line in process.stdout:
            told = json.loads(line)
            if told["what"] == "done":
                done = told["value"]
                is_live.set()

    def wait(seconds: float) -> int:
        before = done
        time.sleep(seconds)
        if process.poll() is not None:
            raise RuntimeError(f"{peer.name} ended with {process.returncode}")
        return done - before

    reader = threading.Thread(target=read)
    reader.start()
    try:
        if not is_live.wait(_MARGIN):
            raise RuntimeError(f"{peer.name} has not begun")
        yield wait
    finally:
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join()
