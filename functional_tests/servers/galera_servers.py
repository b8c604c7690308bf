"""Galera clusters of MariaDB of the tests' own."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import pymysql

from jobboard.testing import eventually
from servers.base import HOST, free_port
from servers.mariadb_servers import MariadbServer

_PROVIDER = Path("/usr/lib/galera/libgalera_smm.so")
_USER = "mysql"


def _provider() -> Path:
    if not _PROVIDER.exists():
        subprocess.run(["apt-get", "install", "-y", "-q", "galera-4"], check=True, stdout=subprocess.DEVNULL)
    return _PROVIDER


class GaleraNode(MariadbServer):
    """One node.

    :param port: at which it listens to the other nodes.
    :param ports: those of all nodes of the cluster.
    """

    def __init__(self, port: int, ports: list[int]) -> None:
        provider = {
            "gmcast.listen_addr": f"tcp://{HOST}:{port}",
            "ist.recv_addr": f"{HOST}:{port + 1}",
            "gcache.size": "16M",
            # A node that is killed is out after two seconds instead of five.
            "evs.keepalive_period": "PT0.5S",
            "evs.inactive_check_period": "PT0.5S",
            "evs.suspect_timeout": "PT2S",
            "evs.inactive_timeout": "PT4S",
        }
        super().__init__(
            {
                # What sends changes to a new node (rsync) gives up the rights of root.
                "user": _USER,
                "wsrep-on": "ON",
                "wsrep-provider": str(_provider()),
                "wsrep-provider-options": ";".join(f"{name}={value}" for name, value in provider.items()),
                "wsrep-cluster-address": f"gcomm://{','.join(f'{HOST}:{each}' for each in ports)}",
                "wsrep-node-address": f"{HOST}:{port}",
                "wsrep-sst-method": "rsync",
                "wsrep-sst-receive-address": f"{HOST}:{port + 2}",
                "wsrep-slave-threads": "2",
                "binlog-format": "ROW",
                "innodb-autoinc-lock-mode": "2",
            }
        )
        self._plain_command = self.command
        self._was_killed = False
        #: Whether it makes a new cluster when it starts, instead of joining one.
        self.is_first = False

    def launch(self) -> None:
        if not os.geteuid():
            subprocess.run(["chown", "-R", f"{_USER}:", self.folder], check=True)
        start = ["--wsrep-new-cluster"] if self.is_first else self._position() if self._was_killed else []
        self.command = [*self._plain_command, *start]
        super().launch()

    def kill(self) -> None:
        super().kill()
        self._was_killed = True

    def _position(self) -> list[str]:
        """Look up what it has, as Debian's service does; otherwise another node would send all of its data."""
        recover = [*self._plain_command, "--wsrep-recover"]
        said = subprocess.run(recover, check=True, capture_output=True, text=True, cwd=self.folder).stderr
        found = re.search(r"Recovered position: *(\S+)", said)
        assert found is not None, said
        return [f"--wsrep-start-position={found[1]}"]

    def take_data_of(self, other: GaleraNode) -> None:
        """Begin where a node that has ended stands, so that only what is written from then on must be sent."""
        subprocess.run(["cp", "-a", "--sparse=always", other._data, self._data], check=True)
        self._is_made = True

    def answers(self) -> bool:
        # A node that joins takes connections, and drops them.
        with contextlib.suppress(pymysql.OperationalError):
            return super().answers() and self.status("wsrep_ready") == "ON"
        return False

    def takes_part(self) -> bool:
        """Whether it and the two others hear each other: one that was frozen does not know yet that they left it."""
        # A node that joins, or leaves, drops connections.
        with contextlib.suppress(pymysql.OperationalError), self.client(None) as client, client.cursor() as cursor:
            # This read goes to all of them and comes back.
            cursor.execute("SET wsrep_sync_wait = 7")
            return bool(cursor.execute("SELECT 1")) and self.answers() and self.status("wsrep_cluster_size") == "3"
        return False

    def status(self, name: str) -> str:
        with self.client(None) as client, client.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS LIKE %s", [name])
            return str(cursor.fetchone()[1])


class GaleraCluster:
    """Three nodes with an empty database ``jobs``; each can be written to."""

    def __init__(self) -> None:
        ports = [free_port(1, 2) for _ in range(3)]
        self.nodes = [GaleraNode(port, ports) for port in ports]

    @property
    def uri(self) -> str:
        return self.uri_of(*self.nodes)

    def uri_of(self, *nodes: MariadbServer) -> str:
        """Return the URI that names these nodes, in this order."""
        return f"mysql://root@{','.join(f'{HOST}:{node.port}' for node in nodes)}/jobs"

    def __enter__(self) -> Self:
        try:
            first, *others = self.nodes
            first.is_first = True
            first.start()
            first.process.terminate()
            first.process.wait(30)
            for node in others:
                node.take_data_of(first)
            first.start()
            for node in others:
                node.launch()
            first.is_first = False
            self.until_whole()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def until_whole(self) -> None:
        """Wait until all three work together."""
        eventually(lambda: all(node.takes_part() for node in self.nodes), within=60)

    def stop(self) -> None:
        # Without the rest of its cluster a node may wait for it as it ends.
        for node in self.nodes:
            if node.is_running:
                node.kill()
            node.stop()
