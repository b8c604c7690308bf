"""Where a backend's board is, from the settings, and Django's connection to that database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections

import jobboard
from jobboard.backends.options import LIBPQ
from jobboard.board import JobBoard
from jobboard.contrib.django.between_tests import begin_anew

#: What libpq and PyMySQL call as the board does; the rest of a database's OPTIONS is Django's business.
_SAME_OPTIONS: dict[str, tuple[str, ...]] = {"postgresql": LIBPQ, "mysql": ("unix_socket",), "sqlite": ()}
_MYSQL_TLS = {"ca": "ssl_ca", "cert": "ssl_cert", "key": "ssl_key"}

_boards: dict[str, JobBoard] = {}
_lock = threading.Lock()


class Site:
    """The board of one backend.

    :param options: ``uri`` or ``database`` (an alias of ``DATABASES``), ``name``, and the options of
        :func:`jobboard.fetch`.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = dict(options)
        self._uri = self._options.pop("uri", None)
        #: Whose transactions decide on a post.
        self.database: str = self._options.pop("database", DEFAULT_DB_ALIAS)
        self.name: str = self._options.pop("name", "jobs")
        self._instead: JobBoard | None = None

    @property
    def is_in_database(self) -> bool:
        """Whether the board is in Django's own database; one in memory has no room for it."""
        return self._uri is None and not self._is_database_in_memory

    @property
    def is_in_memory(self) -> bool:
        """Whether the board is in the memory of this process."""
        return str(self.conf["board"]).partition(":")[0] == "memory"

    @property
    def is_in_test_memory(self) -> bool:
        """Whether the board is in memory since Django's runner has put the database there, for tests."""
        is_of_runner = "memorydb_" in str(self.connection().settings_dict["NAME"])
        return self._uri is None and self._is_database_in_memory and is_of_runner

    @property
    def conf(self) -> dict[str, Any]:
        """What :func:`jobboard.fetch` takes beside the name.

        :raises ImproperlyConfigured: the database is none that a board can be in.
        """
        if self._uri is not None:
            return {"board": self._uri, **self._options}
        if self._is_database_in_memory:
            return {"board": "memory", **self._options}
        return {**_conf_of(self.database), **self._options}

    @property
    def _is_database_in_memory(self) -> bool:
        connection = self.connection()
        return connection.vendor == "sqlite" and bool(connection.is_in_memory_db())

    def fetch(self) -> JobBoard:
        """Return the board, not connected; errors as :func:`jobboard.fetch`."""
        return jobboard.fetch(self.name, self.conf)

    def board(self) -> JobBoard:
        """Return the board, connected; there is one for all threads of a process.

        :raises BoardUnavailable: the store can't be reached.
        """
        if self._instead is not None:
            return self._instead
        conf = self.conf
        place = repr((self.name, sorted(conf.items(), key=str)))
        with _lock:
            if place not in _boards:
                _boards[place] = jobboard.fetch(self.name, conf)
            board = _boards[place]
        # It may be another process than the one that connected it: servers fork.
        board.connect()
        begin_anew(board, self.connection())
        return board

    @contextmanager
    def replaced_by(self, instead: JobBoard) -> Iterator[None]:
        """Let :meth:`board` return another one, which is connected."""
        before, self._instead = self._instead, instead
        try:
            yield
        finally:
            self._instead = before

    def migrate(self) -> None:
        """Make the board's tables, or upgrade them."""
        self.fetch().migrate()

    def in_transaction(self) -> bool:
        """Whether this thread is in a transaction of Django's."""
        connection = self.connection()
        return connection.in_atomic_block or (connection.connection is not None and not connection.get_autocommit())

    def connection(self) -> Any:
        """Return this thread's connection of Django's to the database."""
        return connections[self.database]


def close_boards() -> None:
    """Close the boards of this process; the next use of one opens it again."""
    with _lock:
        boards = list(_boards.values())
        _boards.clear()
    for board in boards:
        board.close()


def _conf_of(alias: str) -> dict[str, Any]:
    connection = connections[alias]
    given, vendor = connection.settings_dict, connection.vendor
    if vendor not in _SAME_OPTIONS:
        kind = given["ENGINE"]
        raise ImproperlyConfigured(
            f"a board can't be in the database {alias!r} ({kind}); name another in OPTIONS['uri']"
        )
    if vendor == "sqlite":
        return {"board": "sqlite", "path": f"/{given['NAME']}"}
    parts = zip(("host", "port", "username", "password"), ("HOST", "PORT", "USER", "PASSWORD"), strict=True)
    conf = {"board": vendor, "path": f"/{given['NAME'] or ''}"}
    conf |= {part: given[key] for part, key in parts if given[key]}
    options = given["OPTIONS"]
    conf |= {name: options[name] for name in _SAME_OPTIONS[vendor] if name in options}
    return (_with_libpq_tls if vendor == "postgresql" else _with_mysql_places)(conf, options)


def _with_libpq_tls(conf: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
    """Say in the board's words what libpq's modes without verification mean."""
    if conf.get("sslmode") in ("allow", "prefer"):
        del conf["sslmode"]
    elif conf.get("sslmode") == "require" and "sslrootcert" not in conf:
        del conf["sslmode"]
        conf["tls_unverified"] = True
    return conf


def _with_mysql_places(conf: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    if options.get("ssl_mode") == "DISABLED" or options.get("ssl_disabled"):
        conf["ssl_disabled"] = True
    conf |= {ours: options["ssl"][key] for key, ours in _MYSQL_TLS.items() if key in options.get("ssl", {})}
    if str(conf.get("host", "")).startswith("/"):
        conf["unix_socket"] = conf.pop("host")
    return conf
