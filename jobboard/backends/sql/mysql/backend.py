"""The MySQL backend, for MariaDB too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from jobboard.backends.address import Address
from jobboard.backends.sql.backend import Operations
from jobboard.backends.sql.mysql.connection import Connect, connector
from jobboard.backends.sql.mysql.driver import MysqlDriver
from jobboard.backends.sql.mysql.fast_path import MysqlClaimedJobs, MysqlClaiming, MysqlPosting
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
            parameters = {**_parameters_of(address), **socket}
            self._parameters = parameters | tls_of(tls, parameters.get("unix_socket", parameters["host"]))

    def _operations_on(self, database: ServerDatabase) -> Operations:
        return Operations(database, MysqlPosting, MysqlClaiming, MysqlClaimedJobs, steps=MysqlSteps)

    def _connector(self) -> tuple[Connect, str]:
        known = self._parameters
        return connector(known, self._socket_timeout), f"{known['host']}:{known['port']}/{known['database']}"


def _parameters_of(address: Address) -> dict[str, Any]:
    if len(address.hosts) > 1:
        raise ValueError("name one host; where there are several, a proxy before them knows which can be written to")
    database = address.path.removeprefix("/")
    if not database:
        raise ValueError("name a database: mysql://user:password@host:3306/database")
    host, port = address.hosts[0] if address.hosts else ("localhost", None)
    return {
        "host": host,
        "port": port or 3306,
        "user": address.username,
        "password": address.password or "",
        "database": database,
    }
