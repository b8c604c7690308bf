"""Several conductor processes under one: started, watched, started again, and told to stop."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

logger = logging.getLogger("jobboard.conductor")

#: Seconds until a process that ended is started again; doubled each time that it did not live long.
_FIRST_DELAY, _MAX_DELAY = 1.0, 30.0
#: Seconds after which a process counts as one that works.
_LONG_LIFE = 60.0
#: After so many short lives in a row all processes are stopped.
_MAX_SHORT_LIVES = 10
#: The exit status of wrong usage: no further start can help.
_USAGE = 2
#: Seconds between two looks at the clock.
_POLL = 1.0

_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(slots=True)
class Process:
    """One of the conductor processes, from start to start."""

    number: int
    pid: int | None = None
    pipe: int = -1
    started_at: float = 0.0
    start_at: float = 0.0
    short_lives: int = 0


class ChildProcess:
    """What a conductor process has of the one above it: the end of a pipe that says when to stop.

    Not by a signal, since a terminal and a service manager signal every process of theirs, and a second signal means to
    end at once. The pipe ends with the process above, so that no conductor is left when that was killed.
    """

    def __init__(self, number: int, pipe: int) -> None:
        self.number = number
        self._pipe = pipe

    @contextmanager
    def stop_when_told(self, stop: Callable[[], object], report: Callable[[], object] | None) -> Iterator[None]:
        """As :func:`~jobboard.conductor.stop_on_signals`, but for what the process above says."""
        if report is not None:
            signal.signal(signal.SIGUSR1, lambda *_: threading.Thread(target=report, daemon=True).start())
        threading.Thread(target=self._listen, args=(stop,), name="jobboard-told", daemon=True).start()
        yield

    def _listen(self, stop: Callable[[], object]) -> None:
        told = os.read(self._pipe, 1)
        threading.Thread(target=stop, name="jobboard-stop", daemon=True).start()
        while told and (told := os.read(self._pipe, 1)):
            if told[0] != signal.SIGHUP:
                os._exit(128 + told[0])


def _ignore(_number: int, _frame: FrameType | None) -> None:
    pass


class Supervisor:
    """The process above the conductors; it opens no board and imports no handlers.

    A process that ends without being told to is started again, later each time that it did not live long. SIGTERM,
    SIGINT and SIGHUP are handed on, as is SIGUSR1.
    """

    def __init__(self, number: int) -> None:
        self._processes = [Process(index) for index in range(number)]
        self._told: list[int] = []
        self._status = 0

    def run(self) -> ChildProcess:
        """Fork the processes, and return in each; raise ``SystemExit`` in this one when all have ended.

        Only for a process of one thread.
        """
        stopping = {each for each in _STOPPING if signal.getsignal(each) is not signal.SIG_IGN}
        wanted = {*stopping, signal.SIGUSR1, signal.SIGCHLD}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
        while not (self._told and all(process.pid is None for process in self._processes)):
            if (child := self._start_due()) is not None:
                for each in wanted - {signal.SIGCHLD}:
                    # Not by SIG_IGN, which the programs that a handler starts would inherit.
                    signal.signal(each, _ignore)
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
                return child
            got = signal.sigtimedwait(wanted, _POLL)
            if got is not None and got.si_signo in stopping:
                self._tell(got.si_signo)
            elif got is not None and got.si_signo == signal.SIGUSR1:
                for process in self._processes:
                    if process.pid is not None:
                        os.kill(process.pid, signal.SIGUSR1)
            self._reap()
        raise SystemExit(self._status)

    def _start_due(self) -> ChildProcess | None:
        """Start the processes that are to run and don't; return something in a new process only."""
        now = time.monotonic()
        due = [each for each in self._processes if each.pid is None and now >= each.start_at and not self._told]
        return next((child for process in due if (child := self._start(process)) is not None), None)

    def _start(self, process: Process) -> ChildProcess | None:
        sys.stdout.flush()
        ours, theirs = os.pipe()[::-1]
        process.started_at = time.monotonic()
        process.pid = os.fork()
        if process.pid:
            os.close(theirs)
            process.pipe = ours
            return None
        os.close(ours)
        for other in self._processes:
            if other.pid:
                # Or this end would keep the pipe of that one open when the process above has died.
                os.close(other.pipe)
        return ChildProcess(process.number, theirs)

    def _tell(self, number: int) -> None:
        self._told.append(number)
        if len(self._told) > 1 and number != signal.SIGHUP:
            self._status = 128 + number
        for process in self._processes:
            if process.pid is not None:
                try:
                    os.write(process.pipe, bytes([number]))
                except BrokenPipeError:
                    # It has just ended.
                    pass

    def _reap(self) -> None:
        for process in self._processes:
            if process.pid is None:
                continue
            pid, status = os.waitpid(process.pid, os.WNOHANG)
            if pid:
                process.pid = None
                os.close(process.pipe)
                self._ended(process, pid, os.waitstatus_to_exitcode(status))

    def _ended(self, process: Process, pid: int, code: int) -> None:
        if self._told:
            self._status = self._status or (code if code >= 0 else 128 - code)
            return
        now = time.monotonic()
        is_long = now - process.started_at >= _LONG_LIFE
        process.short_lives = 0 if is_long else process.short_lives + 1
        how = f"status {code}" if code >= 0 else f"signal {-code}"
        if code == _USAGE or process.short_lives > _MAX_SHORT_LIVES:
            logger.error("conductor process %d ended with %s; all are stopped", pid, how)
            self._status = code if code > 0 else 1
            self._tell(signal.SIGTERM)
            return
        delay = min(_FIRST_DELAY * 2 ** max(0, process.short_lives - 1), _MAX_DELAY)
        logger.warning("conductor process %d ended with %s; another one starts in %g s", pid, how, delay)
        process.start_at = now + delay
