"""The conductor's end of one worker process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from jobboard.conductor import log
from jobboard.conductor.execution import Execution
from jobboard.conductor.executors.worker import HandlerParts, work
from jobboard.conductor.lifespan import CLOSE_TIMEOUT
from jobboard.conductor.outcome import Batched, Failed, Outcome
from jobboard.errors import JobBoardError
from jobboard.logbook import saved_state_of
from jobboard.text import line_of

_context = multiprocessing.get_context("spawn")

_NAME = "jobboard-worker"
#: The exit status of a worker whose program starts a conductor when it is imported.
_STARTED_BY_IMPORT = os.EX_CONFIG
#: Seconds that a worker has to end once its handlers have nothing left to close.
_STOP_TIMEOUT = 5.0
#: Seconds between two looks whether a silent worker is alive.
_ALIVE_POLL = 0.5


class WorkerProcess:
    """Runs one execution at a time in another process; not usable once that process has died or was killed."""

    def __init__(self, handlers: Sequence[HandlerParts]) -> None:
        self._pipe: Connection[Any, Any]
        self._pipe, far = _context.Pipe()
        self._process = _context.Process(
            target=work, args=(far, handlers, log.begin_log_of_worker), name=_NAME, daemon=True
        )
        try:
            self._process.start()
        except BaseException as error:
            self._pipe.close()
            if isinstance(error, RuntimeError) and multiprocessing.current_process().name == _NAME:
                # This process is a worker that still imports its program, which starts a conductor.
                raise SystemExit(_STARTED_BY_IMPORT) from None
            raise
        finally:
            far.close()
        self._sending = threading.Lock()
        # Held while something is done to the current execution, so that it is not done to the next one.
        self._current_lock = threading.Lock()
        self._execution: Execution | None = None
        #: What runs with it, and itself.
        self._executions: list[Execution] = []
        self._number = 0
        self._killed = False
        #: Why a lifespan could not make what the handlers need, once :meth:`wait_until_ready` has returned False.
        self.failure: str | None = None

    @property
    def pid(self) -> int:
        """The id of the process, and of the process group that it leads."""
        return self._process.pid or 0

    @property
    def usable(self) -> bool:
        return not self._killed and self._process.is_alive()

    def wait_until_ready(self, timeout: float) -> bool:
        """Block until the worker can run all handlers; False if it ends or died first, or after ``timeout`` seconds."""
        try:
            if not self._pipe.poll(timeout):
                return False
            _, _, verb, self.failure = self._pipe.recv()
        except (EOFError, OSError):
            return False
        return verb == "ready"  # type: ignore[no-any-return]

    def run(self, execution: Execution) -> Outcome | None:
        """Run it, and answer its handler's requests to the board; None if the worker died before it began."""
        with self._current_lock:
            if (refusal := execution.refusal()) is not None:
                return refusal
            self._execution = execution
            self._number += 1
        try:
            self._executions = [execution] if execution.batch is None else execution.batch.begin()
            if not self._executions:
                return Batched(())
            self._send("run", [each.snapshot for each in self._executions])
            # A cancel that came before the worker had the execution did not reach it.
            for index, each in enumerate(self._executions):
                if each.cancelled:
                    self._send("cancelled", None, index)
            return self._answer_until_finished(execution)
        except (EOFError, OSError):
            self.kill()
            if execution.began_at is None:
                return None
            return Failed(f"its worker process died: {self.cause_of_death()}")
        except Exception as error:
            # This message can't be read here, nor can those after it.
            self.kill()
            return Failed(f"a message of its worker process can't be read: {line_of(error)}")
        finally:
            with self._current_lock:
                self._execution = None

    def _answer_until_finished(self, execution: Execution) -> Outcome:
        while True:
            number, index, verb, content = self._receive()
            if number != self._number:
                # It is "ready", or comes from what an earlier execution left running.
                continue
            if verb == "finished":
                outcome: Outcome = content
                return outcome
            if verb == "began":
                for each in self._executions:
                    each.begin()
            elif verb == "report":
                self._executions[index].report(content)
            else:
                asked, content = content
                self._send("answer", (asked, _answer(self._executions[index], verb, content)))

    def _receive(self) -> tuple[int, int, str, Any]:
        # A dead worker need not end the pipe: a process that it forked in C may keep its other end open.
        while not self._pipe.poll(_ALIVE_POLL):
            if not self._process.is_alive() and not self._pipe.poll(0):
                raise EOFError
        message: tuple[int, int, str, Any] = self._pipe.recv()
        return message

    def request_cancel(self, execution: Execution) -> None:
        """Tell the handler of it if the execution still runs here; may block while the pipe is full."""
        with self._sending:
            if self._execution is execution.leader and execution in self._executions:
                index = self._executions.index(execution)
                try:
                    self._pipe.send((self._number, index, "cancelled", None))
                except OSError:
                    pass

    def print_stacks(self) -> str:
        """Make the worker print its threads' stacks to its standard error; return a text that says so."""
        pid = self._process.pid
        if pid is None or not self.usable:
            return "(its worker process has ended)"
        os.kill(pid, signal.SIGUSR1)
        return f"(worker process {pid} prints its stacks itself)"

    def kill_if_running(self, execution: Execution) -> None:
        """Kill the worker and all that it has started, if it still runs this execution; returns at once."""
        with self._current_lock:
            if self._execution is execution:
                self._kill()

    def kill(self) -> None:
        """Kill the worker and all that it has started; returns at once."""
        with self._current_lock:
            self._kill()

    def _kill(self) -> None:
        pid = self._process.pid
        if self._killed or pid is None:
            return
        self._killed = True
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            # It does not lead a group yet, or the whole group has ended.
            pass
        self._process.kill()

    def leave(self) -> str | None:
        """Ask an idle worker to end, and wait for it; :meth:`dispose` kills it if it does not.

        :returns: why resources of its handlers could not be closed; None if they were.
        """
        fault: str | None = None
        try:
            self._send("leave", None)
            fault = self._wait_until_left()
        except (EOFError, OSError):
            # It has died.
            pass
        self._process.join(_STOP_TIMEOUT)
        return fault

    def _wait_until_left(self) -> str | None:
        until = time.monotonic() + CLOSE_TIMEOUT
        while (left := until - time.monotonic()) > 0:
            if self._pipe.poll(min(left, _ALIVE_POLL)):
                _, _, verb, fault = self._pipe.recv()
                if verb == "left":
                    return fault  # type: ignore[no-any-return]
            elif not self._process.is_alive():
                return None
        return f"worker process {self.pid} did not close its resources within {CLOSE_TIMEOUT:g} s"

    def dispose(self) -> None:
        """Free what remains of a worker that ended or was killed, and kill what its handlers have started."""
        self.kill()
        self._process.join(_STOP_TIMEOUT)
        self._pipe.close()

    @property
    def was_started_by_import(self) -> bool:
        """Whether it has ended because its program, which it imported, starts a conductor."""
        self._process.join(_STOP_TIMEOUT)
        return self._process.exitcode == _STARTED_BY_IMPORT

    def cause_of_death(self) -> str:
        """Return how the process ended; waits for its end, which must be near."""
        self._process.join(_STOP_TIMEOUT)
        code = self._process.exitcode
        if code is None or code >= 0:
            return f"exit code {code}"
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"

    def _send(self, verb: str, content: Any, index: int = 0) -> None:
        with self._sending:
            self._pipe.send((self._number, index, verb, content))


def _answer(execution: Execution, verb: str, content: Any) -> tuple[bool, Any]:
    """Do what a handler asked for; return whether it succeeded, and the value or the error."""
    methods: dict[str, Callable[[Any], Any]] = {
        "checkpoint": execution.checkpoint,
        "complete": lambda end: execution.complete(end[0], end[1], None, None),
        "expect_end": execution.expect_end,
        "retention": lambda _: execution.handler.retention,
        "load_steps": lambda asked: execution.load_steps(*asked),
        "save_step": lambda done: execution.save_step(*done),
        "signals": lambda _: execution.signals(),
        "parents": lambda _: execution.parents(),
        "load_book": execution.load_book,
        "save_book": execution.save_book,
    }
    try:
        value = methods[verb](content)
        # The handler's own copy learns what is stored now.
        return True, saved_state_of(content) if verb == "save_book" else value
    except (JobBoardError, ValueError, TypeError) as error:
        return False, error
