"""Two servers of PostgreSQL that Patroni keeps, with an etcd in which it notes which of them is the primary."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import psycopg
import requests

from jobboard.testing import eventually
from servers.base import HOST, RunningServer, free_port
from servers.etcd_servers import EtcdServer
from servers.postgresql_servers import as_user, give_to_user, programs

#: The program, if it is installed: ``pip install "patroni[etcd3,psycopg3]"``.
PROGRAM = shutil.which("patroni")
_SCOPE = "jobs"
_POSTGRES = {"username": "postgres"}


class PatroniServer(RunningServer):
    """One Patroni with its PostgreSQL; both end with it."""

    def __init__(self, etcd: EtcdServer) -> None:
        super().__init__([])
        self.port, self.rest_port = free_port(), free_port()
        self.name = f"n{self.port}"
        path = self.folder / "patroni.json"
        path.write_text(json.dumps(self._settings(etcd)))
        give_to_user(self.folder)
        self.command = as_user(PROGRAM, path)

    def _settings(self, etcd: EtcdServer) -> dict[str, Any]:
        rest, place = f"{HOST}:{self.rest_port}", f"{HOST}:{self.port}"
        return {
            "scope": _SCOPE,
            "name": self.name,
            "restapi": {"listen": rest, "connect_address": rest},
            "etcd3": {"host": f"{HOST}:{etcd.port}"},
            "bootstrap": {
                "dcs": {"ttl": 20, "loop_wait": 1, "retry_timeout": 5, "synchronous_mode": True},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, {"auth": "trust"}, "no-sync"],
            },
            "postgresql": {
                "listen": place,
                "connect_address": place,
                "data_dir": str(self.folder / "data"),
                "bin_dir": str(programs()),
                "pgpass": str(self.folder / "pgpass"),
                "basebackup": [{"checkpoint": "fast"}],
                "authentication": {"superuser": _POSTGRES, "replication": _POSTGRES},
                "parameters": {"unix_socket_directories": str(self.folder), "fsync": "off"},
                "pg_hba": [f"host {what} postgres {HOST}/32 trust" for what in ("all", "replication")],
            },
        }

    def is_primary(self) -> bool:
        return self._says("primary")

    def is_synchronous(self) -> bool:
        """Whether it is a standby that has all that was answered."""
        return self._says("synchronous")

    def _says(self, what: str) -> bool:
        try:
            return requests.get(f"http://{HOST}:{self.rest_port}/{what}", timeout=5).ok
        except requests.RequestException:
            return False

    def switch_over(self, candidate: PatroniServer) -> None:
        """Let this one, which is the primary, hand on its role to another one and become its standby."""
        wish = {"leader": self.name, "candidate": candidate.name}
        requests.post(f"http://{HOST}:{self.rest_port}/switchover", json=wish, timeout=60).raise_for_status()


class PatroniPair:
    """A primary and its synchronous standby, with an empty database ``jobs``."""

    def __init__(self) -> None:
        self._etcd = EtcdServer()
        self.primary, self.standby = PatroniServer(self._etcd), PatroniServer(self._etcd)

    @property
    def uri(self) -> str:
        return f"postgresql://postgres@{HOST}:{self.primary.port},{HOST}:{self.standby.port}/jobs"

    def __enter__(self) -> Self:
        try:
            self._etcd.start()
            self.primary.launch()
            _wait_for(self.primary.is_primary)
            with psycopg.connect(host=HOST, port=self.primary.port, user="postgres", autocommit=True) as client:
                client.execute("CREATE DATABASE jobs")
            self.standby.launch()
            self.until_whole()
        except BaseException:
            self._stop()
            raise
        return self

    def switch_over(self) -> None:
        self.primary.switch_over(self.standby)
        self.primary, self.standby = self.standby, self.primary
        self.until_whole()

    def until_whole(self) -> None:
        """Wait until there are a primary and its synchronous standby."""
        _wait_for(self.primary.is_primary)
        _wait_for(self.standby.is_synchronous)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        for server in (self.standby, self.primary, self._etcd):
            server.stop()


def _wait_for(condition: Callable[[], bool]) -> None:
    # A Patroni that is asked often has no time for its work.
    eventually(condition, within=60, every=0.5)
