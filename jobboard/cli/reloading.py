"""Starts the process anew when the code that it runs has changed, for those who develop handlers."""

from __future__ import annotations

import logging
import os
import re
import subprocess  # nosec B404 # the present command line
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

import click

from jobboard.cli.output import TAKEN_AWAY

logger = logging.getLogger("jobboard.conductor")

#: Seconds between two looks at the files.
_POLL = 0.5
#: In the environment of a process that only tries whether the command can be reached.
_TRIAL = "_JOBBOARD_RELOAD_TRIAL"


class Reloader:
    """Watches the imported files under the working directory.

    It does not import the changed modules again, since what holds their old functions would keep them: the same command
    replaces this process, after the command has stopped and the present context has closed its board.
    """

    def __init__(self) -> None:
        if _TRIAL in os.environ:
            raise SystemExit(0)
        self._root = os.path.join(os.getcwd(), "")
        self._changed: str | None = None
        self._stopped = False
        # Before the board is opened, and so after it is closed.
        click.get_current_context().call_on_close(self._restart_if_changed)

    def watch(self, stop: Callable[[], object]) -> None:
        """Call ``stop`` from a thread when a file has changed."""
        modified = _modified(self._imported())

        def look() -> None:
            self._wait_for_change(modified)
            stop()

        threading.Thread(target=look, name="jobboard-reload", daemon=True).start()

    def stop(self) -> None:
        """Let the process end, although a file has changed."""
        self._stopped = True

    @contextmanager
    def waiting_for_repair(self) -> Iterator[None]:
        """If the block fails, tell it, and start anew when a file of the working directory has changed."""
        try:
            yield
        except click.ClickException as error:
            modified = _modified([*self._imported(), *filter(self._is_own, _files_of(error))])
            if not modified:
                raise
            click.echo(f"jobboard: {error.format_message()}; waiting for a change", err=True)
            self._wait_for_change(modified)
            raise SystemExit(0) from None

    def _wait_until_reachable(self, command: list[str]) -> None:
        """Wait until a new process gets as far as here: a program may import its code before, as manage.py does."""
        while True:
            modified = _modified(self._imported())
            tried = subprocess.run(
                command,
                check=False,
                env={**os.environ, _TRIAL: "1"},
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )  # nosec B603 # it runs already
            if not tried.returncode:
                return
            # It may have failed in a file that this process has not imported.
            modified |= _modified(filter(self._is_own, re.findall(r'^ *File "(.+)", line', tried.stderr, re.MULTILINE)))
            click.echo(f"{tried.stderr}jobboard: it can't start; waiting for a change", err=True)
            self._changed = None
            self._wait_for_change(modified)

    def _wait_for_change(self, modified: dict[str, int]) -> None:
        while self._changed is None:
            time.sleep(_POLL)
            now = _modified({*modified, *self._imported()})
            # A module that was imported meanwhile is new, and a file that an editor replaces is not there for a moment.
            self._changed = next((file for file in now if modified.setdefault(file, now[file]) != now[file]), None)

    def _imported(self) -> Iterator[str]:
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and self._is_own(file):
                yield file

    def _is_own(self, file: str) -> bool:
        return file.startswith(self._root) and not file.startswith(os.path.join(sys.prefix, ""))

    def _restart_if_changed(self) -> None:
        if self._changed is None or self._stopped:
            return
        logger.info("%s has changed: starting anew", os.path.relpath(self._changed, self._root))
        os.chdir(self._root)
        command = [sys.executable, *sys.orig_argv[1:]]
        self._wait_until_reachable(command)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, *TAKEN_AWAY):
                stream.flush()
        os.execv(sys.executable, command)  # nosec B606 # the present command line


def _modified(files: Iterable[str]) -> dict[str, int]:
    """Return when each file was modified last; leave out those that are not there."""
    modified = {}
    for file in files:
        try:
            modified[file] = os.stat(file).st_mtime_ns
        except OSError:
            continue
    return modified


def _files_of(error: BaseException | None) -> Iterator[str]:
    """Iterate over the files whose code an error passed, or that could not be compiled."""
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            yield frame.f_code.co_filename
        if isinstance(error, SyntaxError) and error.filename:
            yield error.filename
        error = error.__cause__ or error.__context__
