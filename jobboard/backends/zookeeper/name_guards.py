"""The guards of limited names, by which no more claims of a name are made than it may have."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jobboard.backends.zookeeper.change_log import ChangeLogReader
from jobboard.backends.zookeeper.codec import NameRules, name_rules
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.errors import Conflict
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.requests import BAD_VERSION, Data
from jobboard.backends.zookeeper.transactions import Transaction

#: The most guards that one look reads.
MAX_READ = 50


class NameGuards:
    """Knows guards that are no newer than the listing: claims that are not listed have set their names' guards since.

    So a claim that the listing has room for is within the limit if the guard is as it is known here. Each claim of the
    name sets it; no end of a claim does, which only makes room.
    """

    def __init__(self, connection: Connection, layout: Layout, listing: Listing, change_log: ChangeLogReader) -> None:
        self._connection, self._layout, self._listing, self._change_log = connection, layout, listing, change_log
        self._versions: dict[str, int] = {}

    def known_rules(self) -> NameRules:
        """Return what claims ask for, as of this client's last look."""
        with self._listing.lock:
            return self._listing.rules

    def read_rules(self) -> NameRules:
        """Return what claims ask for."""
        path = self._layout.paused
        return name_rules(self._connection.read_one(path), path)

    def has_room(self, name: str) -> bool:
        """Whether one more claim of this name may be made, as of the last look."""
        with self._listing.lock:
            return name not in self._listing.closed

    def catch_up(self, names: Collection[str] | None, also: Sequence[str] = ()) -> list[Data | None]:
        """Catch up with the board, and learn the guards of these names (None: of all) that are not known.

        Return what is under the paths of ``also``.
        """
        limited = self.known_rules().running
        wanted = [name for name in limited if name not in self._versions and (names is None or name in names)]
        unknown = wanted[:MAX_READ]
        found = self._change_log.refresh(also, before=list(map(self._layout.name, unknown)))
        for name, data in zip(unknown, found, strict=False):
            if data is not None:
                self._versions[name] = data.stat.version
        return found[len(unknown) :]

    def add(self, transaction: Transaction, names: Collection[str], rules: NameRules) -> list[str]:
        """Add that claims of these names are made, and return those that are limited.

        :raises Conflict: a guard is not known.
        """
        limited = sorted({name for name in names if name in rules.running})
        for name in limited:
            version, path = self._versions.get(name), self._layout.name(name)
            if version is None:
                raise Conflict(path, BAD_VERSION)
            transaction.set(path, b"", version)
        return limited

    def learn_own(self, names: Collection[str]) -> None:
        """Learn that a claim of this client has set these guards, once the listing knows of the claim."""
        for name in names:
            version = self._versions.get(name)
            if version is not None:
                self._versions[name] = version + 1

    def forget(self, names: Collection[str] | None = None) -> None:
        """Learn these guards (None: all) anew before the next claim."""
        for name in list(self._versions) if names is None else names:
            self._versions.pop(name, None)
