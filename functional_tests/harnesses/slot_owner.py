"""A process that owns the slot of a lane again and again, and tells of each claim, until it is killed."""

from __future__ import annotations

import multiprocessing
import random
import time
from multiprocessing.connection import Connection, wait

from jobboard.board import JobBoard
from jobboard.errors import ClaimLost
from jobboard.fetching import fetch

#: Starts each process as a fork of one that has everything imported.
FORKS = multiprocessing.get_context("forkserver")

#: How long a claim lasts that nobody ends, and a job runs at most, in seconds.
EXPIRY, LONGEST_RUN = 0.3, 0.03

#: What happened (``claimed``, ``ends``), when, and until when the claim surely holds if nobody ends it, by a clock that
#: all processes of this machine share.
Line = tuple[str, float, float]


def own(uri: str, name: str, who: str, line: Connection) -> None:
    """Run the jobs of a board one after the other; the target of a process."""
    with fetch(name, uri) as board:
        line.send(("ready", time.monotonic(), 0.0))
        while True:
            if not _run_one(board, who, line):
                next(board.wait(0.2), None)


def _run_one(board: JobBoard, who: str, line: Connection) -> bool:
    until = time.monotonic() + EXPIRY
    for job in board.claim_next(who, expiry=EXPIRY):
        line.send(("claimed", time.monotonic(), until))
        time.sleep(random.random() * LONGEST_RUN)
        line.send(("ends", time.monotonic(), until))
        try:
            board.consume(job, who)
        except ClaimLost:
            # The machine was busy for longer than the claim.
            pass
        return True
    return False


class SlotOwner:
    """A running one."""

    def __init__(self, uri: str, name: str, who: str) -> None:
        self.line, its_end = FORKS.Pipe()
        self._process = FORKS.Process(target=own, args=(uri, name, who, its_end), daemon=True)
        self._process.start()
        its_end.close()
        #: From when until when it had a claim, by what it told.
        self.runs: list[tuple[float, float]] = []
        self._since: float | None = None
        self._until = 0.0

    def hear(self) -> str:
        """Take in what it tells next, and return what that is."""
        what, at, until = self.line.recv()
        if what == "claimed":
            self._since, self._until = at, until
        elif what == "ends":
            self._end(at)
        return str(what)

    def _end(self, at: float) -> None:
        """Note a run. On a busy machine its claim may have expired before; then it had it for no longer than that."""
        if self._since is not None:
            self.runs.append((self._since, max(self._since, min(at, self._until))))
            self._since = None

    def kill(self) -> None:
        """Kill it at once, and take in what it told before; what it had then it has until this moment."""
        self._process.kill()
        self._process.join()
        killed = time.monotonic()
        try:
            while self.line.poll():
                self.hear()
        except EOFError:
            pass
        self._end(killed)
        self._process.close()
        self.line.close()


def first_to_tell(owners: list[SlotOwner], within: float) -> SlotOwner | None:
    """Return one that has told something; None if none does within that many seconds."""
    ready = wait([owner.line for owner in owners], within)
    return next((owner for owner in owners if owner.line in ready), None)
