"""How a transaction of the user's is reached: what each kind of connection takes, and what is refused."""

from __future__ import annotations

import abc
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from sqlalchemy.engine import AdaptedConnection, Connection
from sqlalchemy.pool import PoolProxiedConnection

from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.server_errors import ServerErrors
from jobboard.backends.sql.transaction import Transaction
from jobboard.errors import BoardUnavailable

COMMITS_BY_ITSELF = "the connection commits every statement by itself; begin a transaction first"

Parameters = Mapping[str, Any]
#: Makes a driver's statement and parameters of ours.
Convert = Callable[[str, Parameters], tuple[str, Any]]


class UserConnection(abc.ABC):
    """How the connections of one driver are used; they are left as they were found."""

    #: The driver, for messages; None if its own connections are not taken, but only SQLAlchemy's over them.
    name: ClassVar[str | None] = None
    dialect: Dialect
    error: type[Exception]
    transaction: type[Transaction]
    #: Selects the time by the clock that judges expiry and delay.
    now_statement: ClassVar[str]

    @abc.abstractmethod
    def takes(self, connection: Any) -> bool:
        """Whether it is a connection of this driver's."""

    @abc.abstractmethod
    def cursor(self, connection: Any) -> Any:
        """Return a cursor in a transaction, which may be begun for it.

        :raises ValueError: the connection commits every statement by itself.
        """

    def lock(self, cursor: Any) -> None:  # noqa: B027, servers lock each row by itself
        """Wait for what only one transaction has at a time, before anything is read; raises its own errors."""

    def now(self, cursor: Any) -> float:
        """Return the time by the clock that judges expiry and delay; raises its own errors."""
        cursor.execute(self.now_statement)
        return float(cursor.fetchone()[0])

    def notify(self, cursor: Any, channel: str) -> None:  # noqa: B027, where there are no channels, other processes poll
        """Notify the listeners of a channel, once the transaction commits; raises its own errors."""

    @abc.abstractmethod
    def explain(self, error: Exception) -> BoardUnavailable:
        """Return our error for the driver's."""

    @abc.abstractmethod
    def is_table_missing(self, error: Exception) -> bool:
        """Whether the database that the connection leads to has no such table."""


class OtherDriverConnection(UserConnection):
    """Of a driver that is not the board's own, on a server; it takes the same statements.

    :param errors: the server's errors in our words.
    """

    #: The modules of SQLAlchemy's adapters that it takes.
    adapters: ClassVar[tuple[str, ...]] = ()

    def __init__(self, dialect: Dialect, errors: ServerErrors) -> None:
        self.dialect = dialect
        self._errors = errors

    def takes(self, connection: Any) -> bool:
        if not is_adapted(connection, *self.adapters):
            return False
        self.error = connection.dbapi.Error
        return True

    def explain(self, error: Exception) -> BoardUnavailable:
        return self._errors.explain(error)

    def is_table_missing(self, error: Exception) -> bool:
        return self._errors.is_table_missing(error)


class ConvertingCursor:
    """A cursor for drivers that take parameters in another form, or return rows that are no tuples."""

    __slots__ = ("_convert", "_cursor")

    def __init__(self, cursor: Any, convert: Convert) -> None:
        self._cursor = cursor
        self._convert = convert

    def execute(self, sql: str, parameters: Parameters | None = None) -> None:
        self._cursor.execute(*(sql,) if parameters is None else self._convert(sql, parameters))

    def executemany(self, sql: str, many: Sequence[Parameters]) -> None:
        converted = [self._convert(sql, parameters) for parameters in many]
        self._cursor.executemany(converted[0][0], [parameters for _, parameters in converted])

    def fetchone(self) -> tuple[Any, ...] | None:
        row = self._cursor.fetchone()
        return None if row is None else tuple(row)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._cursor.fetchall()]

    @property
    def rowcount(self) -> int:
        return int(self._cursor.rowcount)


def unwrap(connection: Any) -> Any:
    """Return the DB-API connection below SQLAlchemy's or Django's, in the transaction that these know of.

    Of an asynchronous driver it is SQLAlchemy's adapter.
    """
    # A program with a session, or with Django, has imported it; importing it here would take long.
    orm = sys.modules.get("sqlalchemy.orm")
    if orm is not None and isinstance(connection, orm.scoped_session):
        connection = connection()
    if orm is not None and isinstance(connection, orm.Session):
        connection = connection.connection()
    if isinstance(connection, Connection):
        if not connection.in_transaction():
            # As its first statement would do.
            connection.begin()
        connection = connection.connection
    if isinstance(connection, PoolProxiedConnection):
        return connection.dbapi_connection
    return _below_django(connection) if _is_of_django(connection) else connection


def _is_of_django(connection: Any) -> bool:
    base, proxies = sys.modules.get("django.db.backends.base.base"), sys.modules.get("django.utils.connection")
    if base is None or proxies is None:
        return False
    # A proxy may also lead to a cache.
    is_proxy = isinstance(connection, proxies.ConnectionProxy) and hasattr(connection, "ensure_connection")
    return is_proxy or isinstance(connection, base.BaseDatabaseWrapper)


def _below_django(connection: Any) -> Any:
    connection.ensure_connection()
    if connection.get_autocommit() and not connection.in_atomic_block:
        raise ValueError(f"{COMMITS_BY_ITSELF}: with transaction.atomic()")
    return connection.connection


def kind_of(connection: Any, kinds: Sequence[UserConnection]) -> UserConnection:
    """Return the kind that takes an unwrapped connection.

    :raises TypeError: none does; says what would do.
    """
    for kind in kinds:
        if kind.takes(connection):
            return kind
    names = " or ".join(kind.name for kind in kinds if kind.name is not None)
    cls = type(connection)
    raise TypeError(
        f"connection must be of {names}, of SQLAlchemy (Connection, Session) or of Django, "
        f"not {cls.__module__}.{cls.__qualname__}{_advice(cls)}"
    )


_BY_SQLALCHEMY = "use it by SQLAlchemy's AsyncSession or AsyncConnection: await it.run_sync(...)"
_FROM_THE_POOL = "take a connection out of the pool"
#: What is refused, by its module and name -> what would do.
_ADVICE = {
    "sqlalchemy.ext.asyncio.": "a board of jobboard.aio takes it, and a plain one what it lends: "
    "await it.run_sync(lambda connection: board.post(..., connection=connection))",
    "sqlalchemy.engine.base.Engine": "begin a transaction: with engine.begin() as connection",
    "sqlalchemy.orm.session.sessionmaker": "begin a transaction: with it.begin() as session",
    "psycopg.AsyncConnection": _BY_SQLALCHEMY,
    "asyncpg.": _BY_SQLALCHEMY,
    "aiosqlite.": _BY_SQLALCHEMY,
    "asyncmy.": _BY_SQLALCHEMY,
    "aiomysql.": _BY_SQLALCHEMY,
    "psycopg_pool.": _FROM_THE_POOL,
    "psycopg2.pool.": _FROM_THE_POOL,
}


def _advice(cls: type) -> str:
    whole = f"{cls.__module__}.{cls.__qualname__}"
    found = (advice for beginning, advice in _ADVICE.items() if whole.startswith(beginning))
    advice = next(found, "hand over its connection" if cls.__qualname__.endswith("Cursor") else None)
    return "" if advice is None else f"; {advice}"


def is_adapted(connection: Any, *modules: str) -> bool:
    """Whether it is SQLAlchemy's adapter of an asynchronous driver, from one of these modules of its dialects."""
    module = type(connection).__module__.removeprefix("sqlalchemy.dialects.")
    return isinstance(connection, AdaptedConnection) and module in modules
