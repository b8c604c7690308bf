"""What operators and housekeeping do to a whole board."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from jobboard.backends import roles
from jobboard.backends.findings import AuditFinding, Holder
from jobboard.backends.kv.codec import LIST, MAX_HISTORY_REASON, TEXT_OR_NONE, WHOLE, Kind, check_kinds, items_of, pack
from jobboard.backends.kv.read_modify_write import CHANGE_TIMEOUT, Deadline
from jobboard.backends.rows import Pause
from jobboard.backends.zookeeper.audit import Auditor
from jobboard.backends.zookeeper.books import Books
from jobboard.backends.zookeeper.change_log import ChangeLogReader
from jobboard.backends.zookeeper.codec import paused_names
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.requests import Data
from jobboard.backends.zookeeper.stored_job import THIS
from jobboard.backends.zookeeper.transactions import Conflict, Transactions
from jobboard.backends.zookeeper.upkeep import Upkeep
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind
from jobboard.text import shortened
from jobboard.validation import moment

#: What is known of a pause: by whom, why, and since which millisecond.
_Known = tuple[str | None, str | None, int]

#: The same behind its name, as it is stored.
_ENTRY: list[Kind] = [TEXT_OR_NONE, TEXT_OR_NONE, TEXT_OR_NONE, WHOLE]


class Paused(NamedTuple):
    """The paused names, and the version of their znode."""

    names: frozenset[str | None]
    version: int


class Maintenance(roles.Maintenance):
    """The paused names stand in one znode, whose version every claim checks."""

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        transactions: Transactions,
        listing: Listing,
        change_log: ChangeLogReader,
        upkeep: Upkeep,
        auditor: Auditor,
        books: Books,
    ) -> None:
        self._connection, self._layout, self._transactions = connection, layout, transactions
        self._listing, self._change_log = listing, change_log
        self._upkeep, self._auditor, self._books = upkeep, auditor, books

    def tidy(self, limit: int) -> int:
        return self._upkeep.tidy(limit) + self._books.forget()

    def holders(self) -> list[Holder]:
        return []

    def server_version(self) -> str:
        return f"ZooKeeper {self._connection.server_version()}".rstrip()

    def audit(self, repair: bool) -> list[AuditFinding]:
        return self._auditor.audit(repair) + self._books.audit(repair)

    # -- pauses ----------------------------------------------------------------------------------------------------

    def pause(self, name: str | None, by: str | None = None, reason: str | None = None) -> None:
        self._change(name, (by, shortened(reason, MAX_HISTORY_REASON), THIS))

    def resume(self, name: str | None) -> None:
        self._change(name, None)

    def paused(self) -> frozenset[str | None]:
        return self.read_paused().names

    def known_paused(self) -> Paused:
        """Return what is paused as of this client's last look."""
        with self._listing.lock:
            return Paused(self._listing.paused, self._change_log.paused_version)

    def read_paused(self) -> Paused:
        return self._paused(self._connection.read_one(self._layout.paused))

    def _paused(self, found: Data | None) -> Paused:
        if found is None:
            raise BoardUnavailable(f"{self._layout.paused} is missing; was the board deleted?")
        return Paused(paused_names(found, self._layout.paused), found.stat.version)

    def pauses(self) -> list[Pause]:
        (names, version), details = self._read_all()
        known = _known(details, names, version)
        return [_pause_of(name, known.get(name)) for name in names]

    def _read_all(self) -> tuple[Paused, Data | None]:
        paused, details = self._connection.read_many([self._layout.paused, self._layout.pauses])
        return self._paused(paused), details

    def _change(self, name: str | None, pause: _Known | None) -> None:
        """Pause a name, or end its pause if ``pause`` is None."""
        deadline = Deadline(CHANGE_TIMEOUT)
        while not self._is_changed(name, pause):
            deadline.check("pauses change all the time")

    def _is_changed(self, name: str | None, pause: _Known | None) -> bool:
        (names, version), details = self._read_all()
        if (name in names) is (pause is not None):
            return True
        changed = names - {name} if pause is None else names | {name}
        known = _known(details, changed, version)
        transaction = self._transactions.begin()
        transaction.set(self._layout.paused, pack(sorted(changed, key=str)), version)
        if pause is None:
            transaction.change.add_event(EventKind.RESUMED, name)
        else:
            known[name] = pause
            transaction.change.add_event(EventKind.PAUSED, name, *pause[:2])
        data = pack([version + 1, [(name, *pause) for name, pause in known.items()]])
        if details is not None:
            transaction.set(self._layout.pauses, data, details.stat.version)
        elif known:
            transaction.create(self._layout.pauses, data)
        try:
            self._transactions.commit(transaction)
        except Conflict:
            return False
        return True


def _known(details: Data | None, names: Collection[str | None], version: int) -> dict[str | None, _Known]:
    """Return what is known of the pauses that stand in ``paused`` in this version.

    An earlier jobboard writes ``paused`` alone. If it has done so once, that was about another name; if more often, it
    may have ended any of these pauses and made it anew.
    """
    if details is None:
        return {}
    try:
        (written_at, entries), _ = items_of(details.data, [WHOLE, LIST])
        for entry in entries:
            check_kinds(entry, _ENTRY)
    except (ValueError, TypeError):
        return {}
    if not 0 <= version - written_at <= 1:
        return {}
    return {
        name: (by, reason, details.stat.mtime if at == THIS else at)
        for name, by, reason, at in entries
        if name in names
    }


def _pause_of(name: str | None, known: _Known | None) -> Pause:
    """Return a pause; of one that an earlier jobboard made, only the name is known."""
    if known is None:
        return Pause(name)
    by, reason, milliseconds = known
    return Pause(name, by, reason, moment(milliseconds / 1000))
