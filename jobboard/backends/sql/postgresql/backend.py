"""The PostgreSQL backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import psycopg
from sqlalchemy.engine import Engine

from jobboard.backends.address import Address
from jobboard.backends.options import LIBPQ, truth
from jobboard.backends.sql.backend import Operations
from jobboard.backends.sql.dialect import TableNames, check_name
from jobboard.backends.sql.driver import Driver
from jobboard.backends.sql.postgresql.driver import Connect, PostgresqlDriver, connector, limit_replies
from jobboard.backends.sql.postgresql.fast_path import (
    PostgresqlClaimedJobs,
    PostgresqlClaiming,
    PostgresqlPosting,
    PostgresqlReading,
)
from jobboard.backends.sql.postgresql.tls import tls_of
from jobboard.backends.sql.postgresql.user_posting import PostgresqlUserPosting
from jobboard.backends.sql.server_backend import ServerBackend
from jobboard.backends.sql.server_database import ServerDatabase


class PostgresqlBackend(ServerBackend):
    """A board in a PostgreSQL database: ``postgresql://user:password@host:5432/database``.

    Several hosts are tried in turn, for the one that can be written to. What the URI leaves out, libpq takes from its
    environment (``PGHOST``, ``PGUSER``, ...) and its password file.

    :param schema: the schema that the tables lie in; created if need be. By default the first of the search_path.
    """

    scheme: ClassVar[str] = "postgresql"
    options: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        **ServerBackend.options,
        "schema": check_name,
        **dict.fromkeys(LIBPQ, str),
        "tls_unverified": truth,
    }

    def __init__(self, board: str, address: Address, **options: Any) -> None:
        parameters = {name: options.pop(name) for name in LIBPQ if name in options}
        unverified = options.pop("tls_unverified", False)
        super().__init__(board, address, **options)
        self._parameters = {**_parameters_of(address), **parameters}
        if self._engine is None:
            self._parameters |= tls_of(parameters, self._parameters.get("host"), unverified=unverified)
        else:
            _check_engine(self._engine)

    def _operations_on(self, database: ServerDatabase) -> Operations:
        return Operations(database, PostgresqlPosting, PostgresqlClaiming, PostgresqlClaimedJobs, PostgresqlReading)

    def _operations_within(self, connection: Any) -> Operations:
        return Operations(self.database.join(connection), PostgresqlUserPosting)

    def _driver(self) -> Driver:
        if self._engine is not None:
            return _driver_of(self._engine, self._table_names, self._socket_timeout)
        connect = connector(self._parameters, self._socket_timeout)
        return PostgresqlDriver(connect, _where(self._parameters), self._table_names)


def _parameters_of(address: Address) -> dict[str, Any]:
    parameters: dict[str, Any] = {
        "host": ",".join(host for host, _ in address.hosts),
        "port": ",".join(str(port or 5432) for _, port in address.hosts),
        "dbname": address.path.removeprefix("/"),
        "user": address.username,
        "password": address.password,
        "application_name": "jobboard",
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
    }
    if len(address.hosts) > 1:
        parameters["target_session_attrs"] = "read-write"
    return {name: value for name, value in parameters.items() if value not in (None, "")}


def _where(parameters: Mapping[str, Any]) -> str:
    return f"PostgreSQL at {parameters.get('host', 'the default host')}:{parameters.get('port', '')}/" + str(
        parameters.get("dbname", "")
    )


# -- connections of an engine ------------------------------------------------------------------------------------------


def _check_engine(engine: Engine) -> None:
    if engine.dialect.name != "postgresql" or engine.dialect.driver != "psycopg":
        found = f"{engine.dialect.name}+{engine.dialect.driver}"
        raise ValueError(f"the engine speaks {found}; make it with postgresql+psycopg://")


def _driver_of(engine: Engine, table_names: TableNames, reply_timeout: float) -> Driver:
    """Make connections as the engine makes them, but out of its pool: none of its own is changed or taken."""
    return PostgresqlDriver(
        _connector(engine, reply_timeout), f"PostgreSQL at {engine.url.render_as_string()}", table_names
    )


def _connector(engine: Engine, reply_timeout: float) -> Connect:
    def connect(_timeout: float) -> psycopg.Connection[Any]:
        pooled = engine.raw_connection()
        connection: Any = pooled.driver_connection
        pooled.detach()
        assert isinstance(connection, psycopg.Connection)
        limit_replies(connection, reply_timeout)
        connection.rollback()
        return connection

    return connect
