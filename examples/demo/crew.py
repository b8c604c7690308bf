"""The demo's conductors: real processes of the command line, one of which meets its end early."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from demo.interrupts import put_off
from jobboard.board import JobBoard
from jobboard.errors import BoardUnavailable, JobBoardError
from jobboard.states import JobState

#: Where the conductors find the handlers.
_EXAMPLES = str(Path(__file__).parent.parent)
#: Short, so that the takeover from the killed one can be watched; claims are renewed three times in that time.
EXPIRY = 2.0
#: Seconds for the conductors to end after a SIGTERM, and for what they still run then.
_STOP_TIMEOUT, _DRAIN = 10.0, 2.0
#: A server has ended what a stopped process asked of it once two looks, these seconds apart, show the same; it may take
#: this many looks.
_LAST_REQUEST, _LOOKS = 0.3, 4


@dataclass
class Member:
    """One conductor process, and the owner's name of its claims once it has registered."""

    label: str
    process: subprocess.Popen[bytes]
    log: IO[bytes] = field(repr=False)
    owner: str | None = None
    killed: bool = False

    @property
    def running(self) -> bool:
        return self.process.poll() is None


class Crew:
    """Starts the conductors, kills one, and stops the rest; a context manager that leaves no process behind.

    They also end when the demo itself is killed: they stop when their standard input does, which the demo holds open.
    """

    def __init__(self, uri: str, board: JobBoard, size: int, slots: int) -> None:
        self._board = board
        # -P: the present directory is the user's, and no place to import from.
        self._arguments = [
            sys.executable, "-P", "-m", "jobboard", "conductor", "demo.handlers:handlers", "--until-eof",
            "--concurrency", str(slots), "--expiry", str(EXPIRY), "--drain", str(_DRAIN),
        ]  # fmt: skip
        # Not among the arguments: there, everybody on the host could read a password in the URI.
        self._environment = {**os.environ, "JOBBOARD_URI": uri, "JOBBOARD_NAME": board.name, "PYTHONPATH": _EXAMPLES}
        self._size = size
        self.members: list[Member] = []

    def __enter__(self) -> Crew:
        try:
            for number in range(1, self._size + 1):
                with put_off():
                    self.members.append(self._start(f"demo-{number}"))
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _start(self, label: str) -> Member:
        log = tempfile.TemporaryFile()  # noqa: SIM115, closed by _stop
        # A session of its own: Ctrl-C is for the demo, which then stops its conductors in good order.
        process = subprocess.Popen(
            [*self._arguments, "--label", label],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return Member(label, process, log)

    def _stop(self) -> None:
        try:
            for member in self.members:
                member.process.terminate()
            deadline = time.monotonic() + _STOP_TIMEOUT
            for member in self.members:
                try:
                    member.process.wait(max(0.1, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    continue
        finally:
            # Also on a second Ctrl-C.
            with put_off():
                self._end_all()

    def _end_all(self) -> None:
        for member in self.members:
            member.process.kill()
            member.process.wait()
            member.log.close()
            if member.process.stdin is not None:
                member.process.stdin.close()

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

        All are stopped before they are looked at, so that what one is seen to hold is what it holds when it dies, and
        nobody works off the rest meanwhile. A server may still be at work on the last request of a stopped process.
        """
        stopped = [member for member in self.members if member.running and member.owner is not None]
        for member in stopped:
            member.process.send_signal(signal.SIGSTOP)
        try:
            claimed = self._claimed_at_rest()
            for member in stopped:
                if held := {uuid for uuid, owner in claimed.items() if owner == member.owner}:
                    member.process.kill()
                    member.process.wait()
                    member.killed = True
                    return held
            return None
        except BoardUnavailable:
            # One was stopped in the middle of a write that keeps others out.
            return None
        finally:
            for member in stopped:
                member.process.send_signal(signal.SIGCONT)

    def _claimed_at_rest(self) -> dict[str, str | None]:
        """Return the claimed jobs and their owners, once no request of a stopped process changes them any more."""
        claimed = self._claimed()
        for _ in range(_LOOKS):
            time.sleep(_LAST_REQUEST)
            before, claimed = claimed, self._claimed()
            if claimed == before:
                break
        return claimed

    def _claimed(self) -> dict[str, str | None]:
        return {job.uuid: job.record.owner for job in self._board.iterjobs(states={JobState.CLAIMED})}
