"""The PostgreSQL backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from jobboard.backends.address import Address
from jobboard.backends.options import LIBPQ, one_of, truth
from jobboard.backends.sql.backend import Operations
from jobboard.backends.sql.dialect import TableNames, check_name
from jobboard.backends.sql.postgresql.claiming import PostgresqlClaiming
from jobboard.backends.sql.postgresql.driver import PostgresqlDriver, connector
from jobboard.backends.sql.postgresql.fast_path import (
    PostgresqlClaimedJobs,
    PostgresqlPosting,
    PostgresqlReading,
)
from jobboard.backends.sql.postgresql.mode import Connect
from jobboard.backends.sql.postgresql.mode_choice import AUTO, MODES
from jobboard.backends.sql.postgresql.steps import PostgresqlSteps
from jobboard.backends.sql.postgresql.tls import tls_of
from jobboard.backends.sql.postgresql.user_posting import PostgresqlUserPosting
from jobboard.backends.sql.server_backend import ServerBackend
from jobboard.backends.sql.server_database import ServerDatabase


class PostgresqlBackend(ServerBackend):
    """A board in a PostgreSQL database: ``postgresql://user:password@host:5432/database``.

    Several hosts are tried in turn, for the one that can be written to. What the URI leaves out, libpq takes from its
    environment (``PGHOST``, ``PGUSER``, ...) and its password file.

    :param mode: ``session``: each connection has a session to itself; ``distributed``: sessions may be shared;
        ``auto``: as the server and its pooler allow.
    :param schema: the schema that the tables lie in; created if need be. By default the first of the search_path.
    """

    scheme: ClassVar[str] = "postgresql"
    driver = PostgresqlDriver
    engines = ("postgresql+psycopg",)
    options: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        **ServerBackend.options,
        "schema": check_name,
        **dict.fromkeys(LIBPQ, str),
        "tls_unverified": truth,
        "mode": one_of(*MODES),
    }

    def __init__(self, board: str, address: Address, **options: Any) -> None:
        parameters = {name: options.pop(name) for name in LIBPQ if name in options}
        unverified = options.pop("tls_unverified", False)
        self._mode = options.pop("mode", AUTO)
        super().__init__(board, address, **options)
        self._parameters = {**_parameters_of(address), **parameters}
        if self._engine is None:
            self._parameters |= tls_of(parameters, self._parameters.get("host"), unverified=unverified)

    def _operations_on(self, database: ServerDatabase) -> Operations:
        return Operations(
            database, PostgresqlPosting, PostgresqlClaiming, PostgresqlClaimedJobs, PostgresqlReading, PostgresqlSteps
        )

    def _operations_within(self, connection: Any) -> Operations:
        return Operations(self.database.join(connection), PostgresqlUserPosting)

    def _driver_of(self, connect: Connect, where: str, table_names: TableNames) -> PostgresqlDriver:
        return PostgresqlDriver(connect, where, table_names, self._mode)

    def _connector(self) -> tuple[Connect, str]:
        known = self._parameters
        where = f"{known.get('host', 'the default host')}:{known.get('port', '')}/{known.get('dbname', '')}"
        return connector(known, self._socket_timeout), where


def _parameters_of(address: Address) -> dict[str, Any]:
    parameters: dict[str, Any] = {
        "host": ",".join(host for host, _ in address.hosts),
        "port": ",".join(str(port or 5432) for _, port in address.hosts),
        "dbname": address.path.removeprefix("/"),
        "user": address.username,
        "password": address.password,
        "application_name": "jobboard",
        # Whatever the environment says: every text.
        "client_encoding": "UTF8",
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
    }
    if len(address.hosts) > 1:
        parameters["target_session_attrs"] = "read-write"
    return {name: value for name, value in parameters.items() if value not in (None, "")}
