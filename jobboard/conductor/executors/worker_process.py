"""The conductor's end of one worker process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

from jobboard.conductor.executors.worker import work
from jobboard.conductor.outcome import Dropped, Failed, Outcome
from jobboard.conductor.task import Task
from jobboard.errors import JobBoardError

_context = multiprocessing.get_context("spawn")

#: For how long a dismissed worker may take to leave in good order, in seconds.
_FAREWELL = 5.0
#: How often a silent worker is looked at, in seconds.
_GLANCE = 0.5


class WorkerProcess:
    """Runs one task at a time in another process; of one that died or was killed nothing more is to be had."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        self._pipe: Connection[Any, Any]
        self._pipe, far = _context.Pipe()
        self._process = _context.Process(target=work, args=(far, dict(functions)), name="jobboard-worker", daemon=True)
        try:
            self._process.start()
        except BaseException:
            self._pipe.close()
            raise
        finally:
            far.close()
        self._sending = threading.Lock()
        # Held while something is done to whatever task runs, so that it can't be done to the next one.
        self._fate = threading.Lock()
        self._task: Task | None = None
        self._number = 0
        self._spent = False

    @property
    def pid(self) -> int:
        """Of the process, and of the group that it leads."""
        return self._process.pid or 0

    @property
    def usable(self) -> bool:
        return not self._spent and self._process.is_alive()

    def wait_until_ready(self, timeout: float) -> bool:
        """Block until the worker has imported all handlers; False if it died of that, or after the timeout."""
        try:
            return self._pipe.poll(timeout) and self._pipe.recv()[1] == "ready"
        except (EOFError, OSError):
            return False

    def run(self, task: Task) -> Outcome | None:
        """Run one task, and answer what its handler asks of the board; None if the worker died before it began."""
        with self._fate:
            if task.outcome is not None:
                return Dropped()
            self._task = task
            self._number += 1
        began = False
        try:
            self._send("run", task.facts)
            # What was said before the worker had the task has to be said again.
            if task.running.cancelled:
                self._send("cancelled", None)
            while True:
                number, verb, content = self._receive()
                if number != self._number:
                    # "ready", or what a run before this one left behind: no word of this one's.
                    continue
                if verb == "finished":
                    outcome: Outcome = content
                    return outcome
                if verb == "began":
                    began = True
                    task.begin()
                elif verb == "report":
                    task.report(content)
                else:
                    self._send("answer", _answer(task, verb, content))
        except (EOFError, OSError):
            self.kill()
            return Failed(f"its worker process died: {self.cause_of_death()}") if began else None
        except Exception as error:
            # Something that can't be read at this end: what comes after it can't be either.
            self.kill()
            return Failed(f"its worker process could not be understood: {error!r}")
        finally:
            with self._fate:
                self._task = None

    def _receive(self) -> tuple[int, str, Any]:
        # The pipe alone does not tell of the worker's death: a process that it forked in C keeps the other end open.
        while not self._pipe.poll(_GLANCE):
            if not self._process.is_alive() and not self._pipe.poll(0):
                raise EOFError
        message: tuple[int, str, Any] = self._pipe.recv()
        return message

    def tell_of_cancel(self, task: Task) -> None:
        """Pass it on if the task still runs here; may block."""
        with self._sending:
            if self._task is task:
                try:
                    self._pipe.send((self._number, "cancelled", None))
                except OSError:
                    pass

    def tell_stacks(self) -> str:
        """Make the worker print where its threads are, to its standard error."""
        pid = self._process.pid
        if pid is None or not self.usable:
            return "(its worker process has ended)"
        os.kill(pid, signal.SIGUSR1)
        return f"(worker process {pid} prints its stacks itself)"

    def kill_if_running(self, task: Task) -> None:
        """Kill the worker and all that it has started, if it still runs this task; returns at once."""
        with self._fate:
            if self._task is task:
                self._kill()

    def kill(self) -> None:
        """Kill the worker and all that it has started; returns at once."""
        with self._fate:
            self._kill()

    def _kill(self) -> None:
        pid = self._process.pid
        if self._spent or pid is None:
            return
        self._spent = True
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            # It has no group of its own yet, or is gone with all of it.
            pass
        self._process.kill()

    def dismiss(self) -> None:
        """Let an idle worker leave in good order; a :meth:`bury` kills it if it doesn't."""
        try:
            self._send("leave", None)
        except OSError:
            pass
        self._process.join(_FAREWELL)

    def bury(self) -> None:
        """Leave nothing behind of a worker that left, died or was killed, nor of what its handlers started."""
        self.kill()
        self._process.join(_FAREWELL)
        self._pipe.close()

    def cause_of_death(self) -> str:
        """Say how it ended, which it has or is about to."""
        self._process.join(_FAREWELL)
        code = self._process.exitcode
        if code is None or code >= 0:
            return f"exit code {code}"
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"

    def _send(self, verb: str, content: Any) -> None:
        with self._sending:
            self._pipe.send((self._number, verb, content))


def _answer(task: Task, verb: str, content: Any) -> tuple[bool, Any]:
    """Do what a handler asked for; the answer is whether it went well, and the value or the error."""
    desk: dict[str, Callable[[Any], Any]] = {
        "checkpoint": task.checkpoint,
        "load_book": task.load_book,
        "save_book": task.save_book,
    }
    try:
        value = desk[verb](content)
        return True, content.version if verb == "save_book" else value
    except (JobBoardError, ValueError, TypeError) as error:
        return False, error
