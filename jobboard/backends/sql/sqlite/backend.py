"""The SQLite backend: a file that several processes of one host share, with no server."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from jobboard.backends.address import Address
from jobboard.backends.base import Capabilities, Waiter
from jobboard.backends.findings import Migration, Persistence, Shortage
from jobboard.backends.sql import schema
from jobboard.backends.sql.backend import Operations, SqlBackend
from jobboard.backends.sql.sqlite.database import SqliteDatabase, board_names, existing
from jobboard.backends.sql.sqlite.fast_path import SqliteClaimedJobs, SqliteClaiming, SqlitePosting
from jobboard.backends.sql.sqlite.migration import statements, version_of
from jobboard.backends.sql.sqlite.path import check_directory, check_file
from jobboard.backends.sql.sqlite.space import shortages_of
from jobboard.backends.sql.sqlite.waiting import SqliteWaiter
from jobboard.validation import check_number, option_in_seconds

_SYNCHRONOUS = ("FULL", "NORMAL", "OFF", "EXTRA")


def _check_synchronous(value: Any) -> str:
    if not isinstance(value, str) or value.upper() not in _SYNCHRONOUS:
        raise ValueError(f"synchronous must be one of {', '.join(_SYNCHRONOUS)}; got {value!r}")
    return value.upper()


def _check_mode(value: Any) -> int:
    mode = int(value, 8) if isinstance(value, str) else int(value)
    if mode & ~0o666 or mode & 0o600 != 0o600:
        raise ValueError(f"mode must let its owner read and write and nobody execute, such as 600 or 660; got {mode:o}")
    return mode


def _check_busy_timeout(value: Any) -> float:
    seconds = check_number("busy_timeout", option_in_seconds(value))
    if seconds < 0 or math.isinf(seconds):
        raise ValueError(f"busy_timeout must be 0 or more seconds, and finite; got {value!r}")
    return seconds


class SqliteBackend(SqlBackend[SqliteDatabase]):
    """A board in an SQLite file: ``sqlite:///jobs.db``, or ``sqlite:////var/lib/jobs.db`` for an absolute path.

    Every operation is one transaction: it has happened, or nothing has. Only after a disk that failed in the middle of
    a commit this is unknown.

    :param synchronous: when SQLite waits for the disk: ``FULL`` (the default) at every commit.
    :param busy_timeout: seconds to wait for another process that writes.
    :param mode: the permissions of a file that is made, such as ``"600"``; by default those that the umask leaves.
    """

    scheme: ClassVar[str] = "sqlite"
    capabilities: ClassVar[Capabilities] = Capabilities(
        processes=True,
        durable=True,
        expiry="time",
        clock="client",
        largest_batch=1000,
        largest_step=1000,
        transactions=True,
        ties=True,
        edges=True,
        largest_graph=10_000,
    )
    options: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        "synchronous": _check_synchronous,
        "busy_timeout": _check_busy_timeout,
        "mode": _check_mode,
    }

    def __init__(
        self,
        board: str,
        address: Address,
        *,
        synchronous: str = "FULL",
        busy_timeout: float = 5.0,
        mode: int | None = None,
    ) -> None:
        super().__init__(board, address)
        self._path = _path_of(address)
        self._synchronous = synchronous
        self._busy_timeout = busy_timeout
        self._mode = mode

    def _connect(self, timeout: float) -> SqliteDatabase:
        check_directory(self._path)
        check_file(self._path)
        if self._mode is not None:
            _make_with_mode(self._path, self._mode)
        return SqliteDatabase(self._path, self.board, self._synchronous, self._busy_timeout, timeout)

    def _operations_on(self, database: SqliteDatabase) -> Operations:
        return Operations(database, SqlitePosting, SqliteClaiming, SqliteClaimedJobs)

    def waiter(self, names: frozenset[str] | None) -> Waiter:
        return SqliteWaiter(self.change_notifier, partial(self._ready_in, names), names, self.database)

    def migrate(self, timeout: float) -> Migration:
        found = None
        if self._path.exists():
            with existing(self._path, timeout) as file:
                file.execute("BEGIN IMMEDIATE")
                found = version_of(file)
                for statement in statements(file, self._path) if found else []:
                    file.execute(statement)
                file.execute("COMMIT")
        # Opening makes a new file, with pages of our size.
        self._connect(timeout).close()
        return Migration(found, str(schema.VERSION))

    def statements_of_migration(self, timeout: float) -> list[str]:
        with existing(self._path, timeout) as file:
            return statements(file, self._path)

    def boards(self, timeout: float) -> list[str]:
        return board_names(self._path, timeout)

    def shortages(self) -> list[Shortage]:
        return shortages_of(self._path)

    def persistence(self) -> Persistence:
        if self._synchronous == "OFF":
            return Persistence(False, f"a crash of this host can damage {self._path}. Leave synchronous=OFF out")
        is_late = self._synchronous == "NORMAL"
        text = "a crash of this host loses what was committed last (synchronous=NORMAL)"
        return Persistence(True, text if is_late else "")

    def now(self) -> float:
        return time.time()


def _path_of(address: Address) -> Path:
    if address.hosts or address.username or address.password:
        raise ValueError("SQLite is a file and has no host: sqlite:///jobs.db, or sqlite:////absolute/path/jobs.db")
    path = address.path.removeprefix("/")
    if not path or path == ":memory:":
        raise ValueError("name a file: sqlite:///jobs.db; for a board without one use memory://")
    if "\0" in path:
        raise ValueError("the name of a file can't hold a NUL")
    # Connections are also made later, when the process may be elsewhere.
    return Path(path).absolute()


def _make_with_mode(path: Path, mode: int) -> None:
    """Make the file with these permissions if there is none; SQLite gives them to the files beside it, too."""
    try:
        # What a symbolic link points at may be missing, too.
        handle = os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError:
        # It is there already, or SQLite will say what is wrong.
        return
    try:
        os.fchmod(handle, mode)
    finally:
        os.close(handle)
