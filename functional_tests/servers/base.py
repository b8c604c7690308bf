"""Servers of the tests' own: started from temporary folders on free ports of the loopback, and stopped by their ids."""

from __future__ import annotations

import atexit
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from jobboard.testing import eventually

HOST = "127.0.0.1"


#: How many ports each worker of pytest-xdist has to itself. A server may bind one of its own only later, such as when
#: it becomes a leader, and not find it taken by then.
_PORTS = 1500
#: The ports that were given, and what keeps other runs of the tests on this machine from giving them too.
_given: dict[int, socket.socket] = {}


def wait_until_stopped(pid: int) -> None:
    """Wait after a SIGSTOP; on a busy machine a process's threads go on for a moment."""
    tasks = Path(f"/proc/{pid}/task")
    eventually(
        lambda: all((task / "stat").read_text().rpartition(")")[2].split()[0] == "T" for task in tasks.iterdir())
    )


def free_port(*offsets: int) -> int:
    """Return a port that nobody listens on or was given, and whose neighbours at these offsets are free too."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 20_000 + worker % 8 * _PORTS
    while True:
        port = random.randint(first, first + _PORTS - 1)
        if all(_is_free(one) and _reserve(one) for one in (port, *(port + offset for offset in offsets))):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as trial:
        try:
            trial.bind((HOST, port))
        except OSError:
            return False
    return True


def _reserve(port: int) -> bool:
    """Take a name that one process of this machine can have; return False if one has it, also if it is this one."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0jobboard-tests-{port}")
    except OSError:
        name.close()
        return False
    _given[port] = name
    return True


@atexit.register
def _give_back() -> None:
    for name in _given.values():
        name.close()


def program(name: str, package: str) -> str:
    """Return the path of a server's program; installs its Debian package if it is missing."""
    found = shutil.which(name)
    if found is None:
        subprocess.run(["apt-get", "install", "-y", "-q", package], check=True, stdout=subprocess.DEVNULL)
        found = shutil.which(name)
    assert found is not None, f"{name} is missing; install the package {package}"
    return found


class RunningServer:
    """A process with a folder of its own, in which its output is the file ``log``."""

    def __init__(self, command: list[str], folder: Path | None = None) -> None:
        self._owned = tempfile.mkdtemp(prefix="jobboard-") if folder is None else None
        self.folder = folder or Path(self._owned or "")
        self.command = command
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        """Start it; it may take a while until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self.command, cwd=self.folder, stdout=log, stderr=log)

    def start(self) -> Self:
        """Start it, and wait until it answers; on a machine that is busy elsewhere this takes a while."""
        self.launch()
        try:
            eventually(self.answers, within=60)
        except BaseException:
            # Nobody else would ever stop it.
            self.stop()
            raise
        return self

    def answers(self) -> bool:
        """Whether it can be used."""
        raise NotImplementedError

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def freeze(self) -> None:
        """Stop it where it is."""
        self.process.send_signal(signal.SIGSTOP)
        wait_until_stopped(self.process.pid)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it without a warning, whatever state it is in."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it, and forget its folder."""
        if self._process is not None and self._process.poll() is None:
            self.thaw()
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self.kill()
        if self._owned is not None:
            shutil.rmtree(self._owned, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
