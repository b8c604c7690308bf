"""Kills the workers of a conductor that has died, whatever they do."""

from __future__ import annotations

import subprocess  # nosec B404 # one fixed script
import threading
from collections.abc import Iterable

from jobboard.conductor.log import logger

#: For how long the guard may take to end, in seconds.
_FAREWELL = 5.0
#: A worker hears by itself that its conductor is gone, but not while a handler holds the interpreter. So a shell reads
#: the workers' groups from a pipe, of which the conductor alone has the other end, and kills the last ones at its end.
#: Service managers signal every process: it must outlive a drain.
_SCRIPT = """
trap '' TERM INT HUP QUIT USR1
while read -r line; do groups=$line; done
for group in $groups; do kill -9 -"$group" "$group" 2>/dev/null; done
"""


class Guard:
    """A small process that outlives its conductor for as long as it takes to kill its workers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        try:
            command = ["/bin/sh", "-c", _SCRIPT]  # a constant, which reads numbers only
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)  # nosec B603 # fixed
        except OSError as error:
            logger.warning("handlers that hold the interpreter may outlive a killed conductor: no /bin/sh (%s)", error)

    def watch(self, group: int) -> None:
        """Kill this group of processes should the conductor die."""
        with self._lock:
            self._groups.add(group)
            self._tell(self._groups)

    def forget(self, group: int) -> None:
        """This group is gone."""
        with self._lock:
            self._groups.discard(group)
            self._tell(self._groups)

    def stop(self) -> None:
        """Kill what is left, and end."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()
            try:
                process.wait(_FAREWELL)
            except subprocess.TimeoutExpired:
                process.kill()

    def _tell(self, groups: Iterable[int]) -> None:
        if self._process is None or self._process.stdin is None:
            return
        try:
            self._process.stdin.write((" ".join(map(str, groups)) + "\n").encode())
            self._process.stdin.flush()
        except OSError as error:
            logger.warning("handlers that hold the interpreter may outlive a killed conductor: %s", error)
            self._process = None
