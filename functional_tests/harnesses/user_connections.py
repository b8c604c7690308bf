"""How users of a database open transactions on it: by each driver, alone or through SQLAlchemy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple, Protocol, TypeVar

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

T = TypeVar("T")


class UserTransactions(Protocol):
    """Runs ``act`` with a connection, and ends the transaction: by a commit, or by a rollback."""

    def __call__(self, act: Callable[[Any], T], *, commit: bool) -> T: ...


class Way(NamedTuple):
    """
    :param store: whose fixture gives the server.
    :param module: what has to be installed.
    :param of: makes the transactions from SQLAlchemy's address of the database.
    """

    store: str
    module: str
    of: Callable[[str], UserTransactions]


def _raw(module: str) -> Callable[[str], UserTransactions]:
    def of(address: str) -> UserTransactions:
        url = make_url(address)
        driver = pytest.importorskip(module)
        database = "dbname" if module == "psycopg2" else "database"
        parameters = {"host": url.host, "port": url.port, "user": url.username, database: url.database}

        def run(act: Callable[[Any], T], *, commit: bool) -> T:
            with closing(driver.connect(**parameters)) as connection:
                found = act(connection)
                (connection.commit if commit else connection.rollback)()
                return found

        return run

    return of


def _connection(scheme: str) -> Callable[[str], UserTransactions]:
    def of(address: str) -> UserTransactions:
        engine = create_engine(make_url(address).set(drivername=scheme), poolclass=NullPool)

        def run(act: Callable[[Any], T], *, commit: bool) -> T:
            with engine.connect() as connection:
                found = act(connection)
                (connection.commit if commit else connection.rollback)()
                return found

        return run

    return of


def _session(scheme: str, make: Callable[[Any], Any] = Session) -> Callable[[str], UserTransactions]:
    def of(address: str) -> UserTransactions:
        session = make(create_engine(make_url(address).set(drivername=scheme), poolclass=NullPool))

        def run(act: Callable[[Any], T], *, commit: bool) -> T:
            found = act(session)
            (session.commit if commit else session.rollback)()
            session.close()
            return found

        return run

    return of


def _scoped(engine: Any) -> Any:
    return scoped_session(sessionmaker(engine))


def _pooled(scheme: str) -> Callable[[str], UserTransactions]:
    """The connection that ``engine.raw_connection()`` returns."""

    def of(address: str) -> UserTransactions:
        engine = create_engine(make_url(address).set(drivername=scheme), poolclass=NullPool)

        def run(act: Callable[[Any], T], *, commit: bool) -> T:
            with closing(engine.raw_connection()) as connection:
                found = act(connection)
                (connection.commit if commit else connection.rollback)()
                return found

        return run

    return of


def _async_session(scheme: str) -> Callable[[str], UserTransactions]:
    def of(address: str) -> UserTransactions:
        from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

        async def run_async(act: Callable[[Any], T], commit: bool) -> T:
            engine = create_async_engine(make_url(address).set(drivername=scheme), poolclass=NullPool)
            async with AsyncSession(engine) as session:
                found = await session.run_sync(act)
                await (session.commit if commit else session.rollback)()
            await engine.dispose()
            return found

        def run(act: Callable[[Any], T], *, commit: bool) -> T:
            return asyncio.run(run_async(act, commit))

        return run

    return of


WAYS = {
    "sqlite-connection": Way("sqlite", "sqlite3", _connection("sqlite")),
    "sqlite-scoped-session": Way("sqlite", "sqlite3", _session("sqlite", _scoped)),
    "sqlite-aiosqlite": Way("sqlite", "aiosqlite", _async_session("sqlite+aiosqlite")),
    "postgresql-psycopg2": Way("postgresql", "psycopg2", _raw("psycopg2")),
    "postgresql-psycopg2-session": Way("postgresql", "psycopg2", _session("postgresql+psycopg2")),
    "postgresql-psycopg-pooled": Way("postgresql", "psycopg", _pooled("postgresql+psycopg")),
    "postgresql-psycopg-async": Way("postgresql", "psycopg", _async_session("postgresql+psycopg")),
    "postgresql-asyncpg": Way("postgresql", "asyncpg", _async_session("postgresql+asyncpg")),
    "mariadb-mysqlclient": Way("mariadb", "MySQLdb", _raw("MySQLdb")),
    "mariadb-mysqlclient-connection": Way("mariadb", "MySQLdb", _connection("mysql+mysqldb")),
    "mariadb-pymysql-session": Way("mariadb", "pymysql", _session("mysql+pymysql")),
    "mariadb-asyncmy": Way("mariadb", "asyncmy", _async_session("mysql+asyncmy")),
}
