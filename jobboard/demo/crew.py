"""The demo's conductors: real processes of the command line, one of which meets its end early."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

from jobboard.board import JobBoard
from jobboard.entry import JobState
from jobboard.errors import JobBoardError

#: Short, so that the takeover from the killed one can be watched; claims are renewed three times in that time.
EXPIRY = 2.0
_FAREWELL = 15.0


@dataclass
class Member:
    """One conductor process, and the owner's name of its claims once it has registered."""

    label: str
    process: subprocess.Popen[bytes]
    log: tempfile.SpooledTemporaryFile[bytes] = field(repr=False)
    owner: str | None = None
    killed: bool = False

    @property
    def running(self) -> bool:
        return self.process.poll() is None


class Crew:
    """Starts the conductors, kills one, and stops the rest; a context manager that leaves no process behind."""

    def __init__(self, uri: str, board: JobBoard, size: int, slots: int) -> None:
        self._board = board
        self._arguments = [
            sys.executable, "-m", "jobboard", "--board", uri, "--name", board.name, "conductor",
            "jobboard.demo.handlers:handlers", "--concurrency", str(slots), "--expiry", str(EXPIRY),
        ]  # fmt: skip
        self._size = size
        self.members: list[Member] = []

    def __enter__(self) -> Crew:
        try:
            for number in range(1, self._size + 1):
                self.members.append(self._start(f"demo-{number}"))
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _start(self, label: str) -> Member:
        log: tempfile.SpooledTemporaryFile[bytes] = tempfile.SpooledTemporaryFile()  # noqa: SIM115, closed by _stop
        # A group of its own: Ctrl-C is for the demo, which then stops its conductors in good order.
        process = subprocess.Popen(
            [*self._arguments, "--label", label],
            stdin=subprocess.DEVNULL,
            stdout=log.fileno(),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return Member(label, process, log)

    def _stop(self) -> None:
        for member in self.members:
            if member.running:
                member.process.terminate()
        deadline = time.monotonic() + _FAREWELL
        for member in self.members:
            try:
                member.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()
            member.log.close()

    def meet(self) -> None:
        """Learn the owners' names of those who have registered by now."""
        if all(member.owner for member in self.members):
            return
        by_pid = {entity.metadata.get("pid"): entity.name for entity in self._board.entities()}
        for member in self.members:
            member.owner = member.owner or by_pid.get(member.process.pid)

    def check(self) -> None:
        """Raise if nobody is left to do the work, with the last words of one of them."""
        if any(member.running for member in self.members):
            return
        member = self.members[-1]
        member.log.seek(0)
        words = member.log.read().decode(errors="replace").strip().splitlines()
        raise JobBoardError(f"all conductors have ended; the last one said: {words[-1] if words else 'nothing'}")

    def kill_one(self) -> set[str] | None:
        """Kill a conductor while it holds jobs, and return their uuids; None if none of them holds any now.

        It is stopped before it is looked at, so that what it is seen to hold is what it holds when it dies.
        """
        for member in self.members:
            if not member.running or member.owner is None:
                continue
            member.process.send_signal(signal.SIGSTOP)
            held = {
                job.uuid for job in self._board.iterjobs(states={JobState.CLAIMED}) if job.record.owner == member.owner
            }
            if held:
                member.process.kill()
                member.process.wait()
                member.killed = True
                return held
            member.process.send_signal(signal.SIGCONT)
        return None
