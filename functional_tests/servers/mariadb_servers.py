"""MariaDB servers of the tests' own; those of MySQL if ``JOBBOARD_MYSQLD`` names its program, for the contract."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Any

import pymysql

from servers.base import HOST, RunningServer, free_port, program
from servers.new_data import put_new_data

_MYSQLD = os.environ.get("JOBBOARD_MYSQLD")


def _own_temporary(folder: Path) -> Path:
    # A server that starts removes what looks like a temporary table: in a shared folder, those of all others.
    temporary = folder / "tmp"
    temporary.mkdir()
    return temporary


def _make_data(folder: Path) -> None:
    temporary = _own_temporary(folder.parent)
    given = ["--no-defaults", "--user=root", f"--datadir={folder}", f"--tmpdir={temporary}"]
    if _MYSQLD is not None:
        make = [_MYSQLD, *given, "--initialize-insecure"]
    else:
        make = [program("mariadb-install-db", "mariadb-server"), *given]
        make += ["--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class MariadbServer(RunningServer):
    """One ``mariadbd`` with an empty database ``jobs``.

    :param options: settings of its command line; by default nothing waits for the disk.
    """

    def __init__(self, options: dict[str, str] | None = None) -> None:
        super().__init__([])
        self.port = free_port()
        self._data = self.folder / "data"
        temporary = _own_temporary(self.folder)
        settings = {
            "user": "root",
            "datadir": str(self._data),
            "tmpdir": str(temporary),
            "port": str(self.port),
            "bind-address": HOST,
            "socket": str(self.folder / "socket"),
            "pid-file": str(self.folder / "pid"),
            "innodb-flush-log-at-trx-commit": "2",
            "innodb-buffer-pool-size": "64M",
            "max-connections": "200",
            **({"mysqlx": "OFF"} if _MYSQLD else {}),
            **(options or {}),
        }
        given = [f"--{name}={value}" for name, value in settings.items()]
        self.command = [_MYSQLD or program("mariadbd", "mariadb-server"), "--no-defaults", *given]
        self._is_made = False

    @property
    def uri(self) -> str:
        return f"mysql://root@{HOST}:{self.port}/jobs"

    def start(self) -> MariadbServer:
        if not self._is_made:
            put_new_data(_make_data, self._data)
        super().start()
        if not self._is_made:
            with self.client(None) as client, client.cursor() as cursor:
                cursor.execute("CREATE DATABASE jobs")
            self._is_made = True
        return self

    def client(self, database: str | None = "jobs", **options: Any) -> Any:
        """Return a plain connection that commits every statement; a context manager."""
        # PyMySQL would read all authorities of the machine for each connection, which takes some 50 ms.
        options = {"ssl_disabled": True, **options}
        return pymysql.connect(
            host=HOST, port=self.port, user="root", database=database, autocommit=True, connect_timeout=5,
            read_timeout=30, **options
        )  # fmt: skip

    def answers(self) -> bool:
        assert self.process.poll() is None, (self.folder / "log").read_text()
        with contextlib.suppress(pymysql.OperationalError), self.client(None):
            return True
        return False

    def end_connections(self) -> int:
        """Break all connections to the database but one's own."""
        with self.client() as client, client.cursor() as cursor:
            cursor.execute("SELECT id FROM information_schema.processlist WHERE db = 'jobs' AND id <> CONNECTION_ID()")
            numbers = [row[0] for row in cursor.fetchall()]
            for number in numbers:
                with contextlib.suppress(pymysql.Error):
                    cursor.execute(f"KILL {number}")
        return len(numbers)
