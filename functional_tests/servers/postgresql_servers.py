"""PostgreSQL servers of the tests' own."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import psycopg

from jobboard.testing import eventually
from servers.base import HOST, RunningServer, free_port
from servers.new_data import Make, put_new_data

#: What the packages install; ``PATH`` has them nowhere.
_PROGRAMS = "/usr/lib/postgresql/*/bin"
#: The server refuses to be root.
_USER = "postgres"


def programs() -> Path:
    """Return the folder of the server's programs; installs its package if it is missing."""
    found = sorted(Path("/").glob(_PROGRAMS.removeprefix("/")), key=lambda path: float(path.parent.name))
    if not found:
        subprocess.run(["apt-get", "install", "-y", "-q", "postgresql"], check=True, stdout=subprocess.DEVNULL)
        found = list(Path("/").glob(_PROGRAMS.removeprefix("/")))
    return found[-1]


def as_user(*command: object) -> list[str]:
    """Return what runs a command as a user that is not root."""
    words = [str(word) for word in command]
    return words if os.geteuid() else ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups", *words]


def give_to_user(folder: Path) -> None:
    """Let that user write a folder or a file."""
    if not os.geteuid():
        shutil.chown(folder, _USER, _USER)


@functools.cache
def _maker_of(folder_of_programs: Path) -> Make:
    """Return what makes new data of one version."""

    def make_data(folder: Path) -> None:
        give_to_user(folder.parent)
        initdb = (folder_of_programs / "initdb", "-D", folder, "-U", "postgres", "--auth=trust", "--no-sync")
        make = as_user(*initdb, "-E", "UTF8", "--locale=C.UTF-8")
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL, cwd=folder.parent)

    return make_data


class PostgresqlServer(RunningServer):
    """One ``postgres`` with an empty database ``jobs``.

    :param options: settings of its configuration; by default nothing waits for the disk.
    :param folder_of_programs: where its programs are; by default the newest that Debian has installed.
    """

    def __init__(self, options: dict[str, str] | None = None, folder_of_programs: Path | None = None) -> None:
        super().__init__([])
        self.port = free_port()
        self._data = self.folder / "data"
        settings = {
            "port": str(self.port),
            "listen_addresses": HOST,
            "unix_socket_directories": "",
            "fsync": "off",
            "max_connections": "150",
            "deadlock_timeout": "100ms",
            **(options or {}),
        }
        given = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._programs = folder_of_programs or programs()
        self.command = as_user(self._programs / "postgres", "-D", self._data, *given)
        self._is_made = False

    @property
    def uri(self) -> str:
        return f"postgresql://postgres@{HOST}:{self.port}/jobs"

    def start(self) -> PostgresqlServer:
        if not self._is_made:
            give_to_user(self.folder)
            put_new_data(_maker_of(self._programs), self._data)
        super().start()
        if not self._is_made:
            with self.client("postgres") as client:
                client.execute("CREATE DATABASE jobs")
            self._is_made = True
        return self

    def client(self, database: str = "jobs", **options: Any) -> psycopg.Connection[Any]:
        """Return a plain connection that commits every statement; a context manager."""
        return psycopg.connect(
            host=HOST, port=self.port, user="postgres", dbname=database, autocommit=True, connect_timeout=5, **options
        )

    def answers(self) -> bool:
        assert self.process.poll() is None, (self.folder / "log").read_text()
        with contextlib.suppress(psycopg.OperationalError), self.client("postgres"):
            return True
        return False

    def stop(self) -> None:
        # A fast shutdown, which does not wait for clients.
        if self._process is not None and self._process.poll() is None:
            self.thaw()
            self._process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
        super().stop()

    def kill(self) -> None:
        """End all of its processes without a warning, as a crash of the host would."""
        children = subprocess.run(
            ["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False
        ).stdout.split()
        super().kill()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        # One that is left would keep the memory that they share, and no server would start beside it.
        eventually(lambda: not any(Path(f"/proc/{child}").exists() for child in children))

    def end_connections(self) -> int:
        """Break all connections to the database but one's own."""
        with self.client() as client:
            cursor = client.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE datname = 'jobs' AND pid <> pg_backend_pid()"
            )
            row = cursor.fetchone()
        assert row is not None
        return int(row[0])
