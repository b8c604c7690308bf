"""Kills the worker processes of a conductor that has died, whatever their handlers do."""

from __future__ import annotations

import subprocess  # nosec B404 # one fixed script
import threading
from collections.abc import Iterable

from jobboard.conductor.log import logger

#: Seconds that the guard may take to end.
_STOP_TIMEOUT = 5.0
#: A worker learns from its pipe that its conductor has died, but not while a handler holds the interpreter. So a shell
#: reads the workers' process groups from a pipe that only the conductor writes to, and kills the last ones that it read
#: when the pipe ends. It ignores the signals that service managers send to every process, since a drain needs it.
_SCRIPT = """
trap '' TERM INT HUP QUIT USR1
while read -r line; do groups=$line; done
for group in $groups; do kill -9 -"$group" "$group" 2>/dev/null; done
"""


class Guard:
    """A small process that outlives its conductor until it has killed the conductor's workers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        try:
            command = ["/bin/sh", "-c", _SCRIPT]  # a constant, which reads numbers only
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)  # nosec B603 # fixed
        except OSError as error:
            logger.warning(
                "handlers that hold the interpreter may outlive a killed conductor: /bin/sh did not start: %s", error
            )

    def watch(self, group: int) -> None:
        """Kill this process group if the conductor dies."""
        with self._lock:
            self._groups.add(group)
            self._send(self._groups)

    def forget(self, group: int) -> None:
        """This process group has ended."""
        with self._lock:
            self._groups.discard(group)
            self._send(self._groups)

    def stop(self) -> None:
        """Kill the groups that are left, and end the guard."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()
            try:
                process.wait(_STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()

    def _send(self, groups: Iterable[int]) -> None:
        if self._process is None or self._process.stdin is None:
            return
        try:
            self._process.stdin.write((" ".join(map(str, groups)) + "\n").encode())
            self._process.stdin.flush()
        except OSError as error:
            logger.warning("handlers that hold the interpreter may outlive a killed conductor: %s", error)
            self._process = None
