"""Several conductor processes under one: started, watched, started again, and told to stop."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from jobboard.cli.output import flush_streams
from jobboard.stop_signals import StopSignals

logger = logging.getLogger("jobboard.conductor")

#: Seconds until a process that ended is started again; doubled each time that it did not live long.
_FIRST_DELAY, _MAX_DELAY = 1.0, 30.0
#: Seconds after which a process counts as one that works.
_LONG_LIFE = 60.0
#: After how many short lives in a row all processes are stopped.
_MAX_SHORT_LIVES = 10
#: The exit status of wrong usage: no further start can help.
_USAGE = 2
#: The exit status of a process that has run as many jobs as it may. No user sees it.
EXIT_MAX_JOBS = 80
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
    """What a conductor process has of the one above it: a pipe that ends when it is to stop.

    Not by a signal, since a terminal and a service manager signal every process of theirs, and a second signal means to
    end at once. The pipe ends also with the process above, so that no conductor is left when that was killed.
    """

    def __init__(self, number: int, pipe: int) -> None:
        self.number = number
        self._pipe = pipe

    @contextmanager
    def stop_on_request(self, stop: Callable[[], object], report: Callable[[], object] | None) -> Iterator[None]:
        """As :func:`~jobboard.conductor.stop_on_signals`, but for the process above; it kills what ends at once."""
        if report is not None:
            signal.signal(signal.SIGUSR1, lambda *_: threading.Thread(target=report, daemon=True).start())
        threading.Thread(target=self._listen, args=(stop,), name="jobboard-signals", daemon=True).start()
        yield

    def _listen(self, stop: Callable[[], object]) -> None:
        os.read(self._pipe, 1)
        stop()


class Supervisor:
    """The process above the conductors; it opens no board and imports no handlers.

    A process that ends without being told to is started again, later each time that it did not live long; at once if
    it ended by ``EXIT_MAX_JOBS``. SIGTERM, SIGINT and SIGHUP are handed on, as is SIGUSR1.
    """

    def __init__(self, number: int) -> None:
        self._processes = [Process(index) for index in range(number)]
        self._signals = StopSignals()
        self._status = 0

    def run(self) -> ChildProcess:
        """Fork the processes, and return in each; raise ``SystemExit`` in this one when all have ended.

        Only for a process of one thread.
        """
        stopping = {each for each in _STOPPING if signal.getsignal(each) is not signal.SIG_IGN}
        wanted = {*stopping, signal.SIGUSR1, signal.SIGCHLD}
        # The parent may have ignored SIGCHLD, and then nobody could wait for a child.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
        while not (self._signals.seen and all(process.pid is None for process in self._processes)):
            if (child := self._start_due()) is not None:
                from jobboard.conductor.signals import ignore, not_in_children

                for each in wanted - {signal.SIGCHLD}:
                    signal.signal(each, not_in_children(ignore))
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
                return child
            got = signal.sigtimedwait(wanted, _POLL)
            if got is not None and got.si_signo in stopping:
                self._pass_on(got.si_signo)
            elif got is not None and got.si_signo == signal.SIGUSR1:
                for process in self._processes:
                    if process.pid is not None:
                        os.kill(process.pid, signal.SIGUSR1)
            self._reap()
        raise SystemExit(self._status)

    def _start_due(self) -> ChildProcess | None:
        """Start the processes that are to run and don't; return something in a new process only."""
        now = time.monotonic()
        for process in self._processes:
            if process.pid is None and now >= process.start_at and not self._signals.seen:
                try:
                    child = self._start(process)
                except OSError as error:
                    # No memory, no descriptor, too many processes: the others go on.
                    self._ended(process, f"a conductor process could not be started ({error})", 1)
                    continue
                if child is not None:
                    return child
        return None

    def _start(self, process: Process) -> ChildProcess | None:
        flush_streams()
        theirs, ours = os.pipe()
        process.started_at = time.monotonic()
        try:
            process.pid = os.fork()
        except OSError:
            os.close(ours)
            os.close(theirs)
            raise
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

    def _pass_on(self, number: int) -> None:
        at_once = self._signals.add(number)
        if at_once:
            self._status = 128 + number
        for process in self._processes:
            if process.pid is None:
                continue
            if len(self._signals.seen) == 1:
                os.close(process.pipe)
            elif at_once:
                # It may be frozen, or its handlers may hold the interpreter.
                os.kill(process.pid, signal.SIGKILL)

    def _reap(self) -> None:
        for process in self._processes:
            if process.pid is None:
                continue
            pid, status = os.waitpid(process.pid, os.WNOHANG)
            if pid:
                process.pid = None
                if not self._signals.seen:
                    os.close(process.pipe)
                code = os.waitstatus_to_exitcode(status)
                if code == EXIT_MAX_JOBS:
                    # `start_at` is over already, so another one starts at once.
                    process.short_lives = 0
                    logger.info("conductor process %d has run its --max-jobs", pid)
                    continue
                how = f"status {code}" if code >= 0 else f"signal {-code}"
                self._ended(process, f"conductor process {pid} ended with {how}", code)

    def _ended(self, process: Process, what: str, code: int) -> None:
        if self._signals.seen:
            # At its end the interpreter lets go of its handlers: a signal to every process may meet one there.
            if -code not in self._signals.seen:
                self._status = self._status or (code if code >= 0 else 128 - code)
            return
        now = time.monotonic()
        is_long = now - process.started_at >= _LONG_LIFE
        process.short_lives = 0 if is_long else process.short_lives + 1
        if code == _USAGE or process.short_lives > _MAX_SHORT_LIVES:
            logger.error("%s; all are stopped", what)
            self._status = code if code > 0 else 1
            self._pass_on(signal.SIGTERM)
            return
        delay = min(_FIRST_DELAY * 2 ** max(0, process.short_lives - 1), _MAX_DELAY)
        logger.warning("%s; another one starts in %g s", what, delay)
        process.start_at = now + delay
