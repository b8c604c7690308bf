"""Pausing and resuming."""

from __future__ import annotations

from typing import NamedTuple

from jobboard.backends.zookeeper.change_log import ChangeLogReader
from jobboard.backends.zookeeper.codec import pack, paused_names
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.transactions import Conflict, Transactions
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind

MAX_RETRIES = 50


class Paused(NamedTuple):
    """The paused names, and the version of their znode."""

    names: frozenset[str | None]
    version: int


class Pauses:
    """The paused names stand in one znode, whose version every claim checks."""

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        transactions: Transactions,
        listing: Listing,
        change_log: ChangeLogReader,
    ) -> None:
        self._connection, self._layout, self._transactions = connection, layout, transactions
        self._listing, self._change_log = listing, change_log

    def pause(self, name: str | None) -> None:
        self._change(name, is_paused=True)

    def resume(self, name: str | None) -> None:
        self._change(name, is_paused=False)

    def known(self) -> Paused:
        """Return what is paused as of this client's last look."""
        with self._listing.lock:
            return Paused(self._listing.paused, self._change_log.paused_version)

    def read(self) -> Paused:
        found = self._connection.read_one(self._layout.paused)
        if found is None:
            raise BoardUnavailable(f"{self._layout.paused} is missing; was the board deleted?")
        return Paused(paused_names(found, self._layout.paused), found.stat.version)

    def _change(self, name: str | None, *, is_paused: bool) -> None:
        for _ in range(MAX_RETRIES):
            names, version = self.read()
            if (name in names) is is_paused:
                return
            transaction = self._transactions.begin()
            changed = names | {name} if is_paused else names - {name}
            transaction.set(self._layout.paused, pack(sorted(changed, key=str)), version)
            transaction.change.add_event(EventKind.PAUSED if is_paused else EventKind.RESUMED, name)
            try:
                self._transactions.commit(transaction)
            except Conflict:
                continue
            return
        raise BoardUnavailable("others pause and resume faster than this client can")
