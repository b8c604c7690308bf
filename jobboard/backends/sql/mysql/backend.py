"""The MySQL backend, for MariaDB too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from jobboard.backends.address import Address
from jobboard.backends.sql.backend import Operations
from jobboard.backends.sql.mysql.connection import Connect, connector
from jobboard.backends.sql.mysql.driver import MysqlDriver
from jobboard.backends.sql.mysql.fast_path import MysqlClaimedJobs, MysqlClaiming, MysqlPosting
from jobboard.backends.sql.mysql.reading import MysqlReading
from jobboard.backends.sql.mysql.steps import MysqlSteps
from jobboard.backends.sql.mysql.tls import OPTIONS as TLS_OPTIONS
from jobboard.backends.sql.mysql.tls import tls_of
from jobboard.backends.sql.server_backend import ServerBackend
from jobboard.backends.sql.server_database import ServerDatabase


def _check_charset(value: Any) -> str:
    if value not in ("utf8", "utf8mb4"):
        raise ValueError(f"must be utf8mb4, which holds every text, not {value!r}")
    return "utf8mb4"


class MysqlBackend(ServerBackend):
    """A board in a database of MariaDB (10.6 or later) or MySQL (8): ``mysql://user:password@host:3306/database``.

    Several hosts are the nodes of a Galera cluster: they are tried in order.

    :param charset: ``utf8mb4``, which it is in any case; URIs of SQLAlchemy's may have it.
    """

    scheme: ClassVar[str] = "mysql"
    driver = MysqlDriver
    engines = ("mysql+pymysql", "mariadb+pymysql")
    options: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        **ServerBackend.options,
        **TLS_OPTIONS,
        "unix_socket": str,
        "charset": _check_charset,
    }

    def __init__(self, board: str, address: Address, **options: Any) -> None:
        tls = {name: options.pop(name) for name in TLS_OPTIONS if name in options}
        socket = {name: options.pop(name) for name in ("unix_socket",) if name in options}
        options.pop("charset", None)
        super().__init__(board, address, **options)
        if self._engine is None:
            self._nodes = _nodes_of(address, tls, socket)

    def _operations_on(self, database: ServerDatabase) -> Operations:
        return Operations(database, MysqlPosting, MysqlClaiming, MysqlClaimedJobs, MysqlReading, MysqlSteps)

    def _connector(self) -> tuple[Connect, str]:
        places = ",".join(f"{node['host']}:{node['port']}" for node in self._nodes)
        return connector(self._nodes, self._socket_timeout), f"{places}/{self._nodes[0]['database']}"


def _nodes_of(address: Address, tls: Mapping[str, Any], socket: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return PyMySQL's parameters of each host."""
    hosts = address.hosts or (("localhost", None),)
    if socket and len(hosts) > 1:
        raise ValueError("option unix_socket: leads to one server; name one host")
    database = address.path.removeprefix("/")
    if not database:
        raise ValueError("name a database: mysql://user:password@host:3306/database")
    known = {"user": address.username, "password": address.password or "", "database": database, **socket}
    return [
        {**known, "host": host, "port": port or 3306, **tls_of(tls, socket.get("unix_socket", host))}
        for host, port in hosts
    ]
