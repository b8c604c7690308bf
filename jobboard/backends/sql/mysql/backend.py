"""The MySQL backend, for MariaDB too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pymysql
from sqlalchemy.engine import Engine

from jobboard.backends.address import Address
from jobboard.backends.sql.backend import Operations
from jobboard.backends.sql.dialect import TableNames
from jobboard.backends.sql.driver import Driver
from jobboard.backends.sql.mysql.connection import Connect, connector
from jobboard.backends.sql.mysql.driver import MysqlDriver
from jobboard.backends.sql.mysql.fast_path import MysqlClaimedJobs, MysqlClaiming, MysqlPosting
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
        else:
            _check_engine(self._engine)

    def _operations_on(self, database: ServerDatabase) -> Operations:
        return Operations(database, MysqlPosting, MysqlClaiming, MysqlClaimedJobs)

    def _driver(self) -> Driver:
        if self._engine is not None:
            return _driver_of(self._engine, self._table_names, self._socket_timeout)
        where = f"MySQL at {self._parameters['host']}:{self._parameters['port']}/{self._parameters['database']}"
        return MysqlDriver(connector(self._parameters, self._socket_timeout), where, self._table_names)


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


# -- connections of an engine ------------------------------------------------------------------------------------------


def _check_engine(engine: Engine) -> None:
    if engine.dialect.name not in ("mysql", "mariadb") or engine.dialect.driver != "pymysql":
        found = f"{engine.dialect.name}+{engine.dialect.driver}"
        raise ValueError(f"the engine speaks {found}; make it with mysql+pymysql://")


def _driver_of(engine: Engine, table_names: TableNames, reply_timeout: float) -> Driver:
    """Make connections as the engine makes them, but out of its pool: none of its own is changed or taken."""
    return MysqlDriver(_connector(engine, reply_timeout), f"MySQL at {engine.url.render_as_string()}", table_names)


def _connector(engine: Engine, reply_timeout: float) -> Connect:
    def connect(_timeout: float) -> Any:
        pooled = engine.raw_connection()
        connection: Any = pooled.driver_connection
        pooled.detach()
        assert isinstance(connection, pymysql.Connection)
        connection._read_timeout = connection._write_timeout = reply_timeout  # type: ignore[attr-defined]
        return connection

    return connect
