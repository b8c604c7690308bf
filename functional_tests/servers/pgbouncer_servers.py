"""PgBouncer before a PostgreSQL server of the tests' own."""

from __future__ import annotations

import contextlib
import shutil

import psycopg
import pytest

from servers.base import HOST, RunningServer, free_port
from servers.postgresql_servers import PostgresqlServer, as_user, give_to_user


class PgbouncerServer(RunningServer):
    """One ``pgbouncer`` for the database ``jobs``.

    :param options: settings of its configuration.
    """

    def __init__(self, server: PostgresqlServer, **options: object) -> None:
        program = shutil.which("pgbouncer")
        if program is None:
            pytest.skip("pgbouncer is missing; install the package of this name")
        super().__init__([])
        self.port = free_port()
        settings = {"listen_addr": HOST, "listen_port": self.port, "unix_socket_dir": "", "auth_type": "any", **options}
        lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
        database = f"jobs = host={HOST} port={server.port} dbname=jobs user=postgres"
        ini = self.folder / "pgbouncer.ini"
        ini.write_text(f"[databases]\n{database}\n[pgbouncer]\n{lines}")
        give_to_user(self.folder)
        give_to_user(ini)
        # It refuses to be root.
        self.command = as_user(program, ini)

    @property
    def uri(self) -> str:
        return f"postgresql://postgres@{HOST}:{self.port}/jobs"

    def client(self) -> psycopg.Connection[tuple[object, ...]]:
        """Return a plain connection that commits every statement; a context manager."""
        return psycopg.connect(host=HOST, port=self.port, user="postgres", dbname="jobs", autocommit=True)

    def answers(self) -> bool:
        assert self.process.poll() is None, (self.folder / "log").read_text()
        with contextlib.suppress(psycopg.OperationalError), self.client():
            return True
        return False
