"""Pauses: the paused names stand in one znode, whose version every claim checks; by whom, when and why in another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from jobboard.backends.kv.codec import LIST, MAX_HISTORY_REASON, TEXT_OR_NONE, WHOLE, Kind, check_kinds, items_of, pack
from jobboard.backends.kv.read_modify_write import CHANGE_TIMEOUT, Deadline
from jobboard.backends.rows import Pause
from jobboard.backends.zookeeper.codec import NameRules, name_rules
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.requests import Data
from jobboard.backends.zookeeper.stored_job import THIS
from jobboard.backends.zookeeper.transactions import Transaction, Transactions
from jobboard.events import EventKind
from jobboard.text import shortened
from jobboard.validation import moment

#: What is known of a pause: by whom, why, and since which millisecond.
_Known = tuple[str | None, str | None, int]

#: The same behind its name, as it is stored.
_ENTRY: list[Kind] = [TEXT_OR_NONE, TEXT_OR_NONE, TEXT_OR_NONE, WHOLE]


class StoredRules(NamedTuple):
    """What claims ask for, and what is known of the pauses, as both were read."""

    rules: NameRules
    details: Data | None

    @property
    def known(self) -> dict[str | None, _Known]:
        return _known(self.details, self.rules.paused, self.rules.version)


class Pauses:
    """The pauses of a board."""

    def __init__(self, connection: Connection, layout: Layout, transactions: Transactions) -> None:
        self._connection, self._layout, self._transactions = connection, layout, transactions

    def pause(self, name: str | None, by: str | None = None, reason: str | None = None) -> None:
        self._change(name, (by, shortened(reason, MAX_HISTORY_REASON), THIS))

    def resume(self, name: str | None) -> None:
        self._change(name, None)

    def paused(self) -> frozenset[str | None]:
        path = self._layout.paused
        return name_rules(self._connection.read_one(path), path).paused

    def pauses(self) -> list[Pause]:
        stored = self.read()
        known = stored.known
        return [_pause_of(name, known.get(name)) for name in stored.rules.paused]

    def read(self) -> StoredRules:
        """Read what claims ask for, with what is known of the pauses."""
        return self.read_with([])[0]

    def read_with(self, paths: Sequence[str]) -> tuple[StoredRules, list[Data | None]]:
        """Read the same, and what is under these paths."""
        paused, details, *found = self._connection.read_many([self._layout.paused, self._layout.pauses, *paths])
        return StoredRules(name_rules(paused, self._layout.paused), details), found

    def write(
        self, transaction: Transaction, stored: StoredRules, rules: NameRules, known: Mapping[str | None, _Known]
    ) -> None:
        """Add what changes ``stored`` into these rules and pauses, unless it has changed meanwhile."""
        version = stored.rules.version
        transaction.set(self._layout.paused, rules.pack(), version)
        data = pack([version + 1, [(name, *pause) for name, pause in known.items()]])
        if stored.details is not None:
            transaction.set(self._layout.pauses, data, stored.details.stat.version)
        elif known:
            transaction.create(self._layout.pauses, data)

    def _change(self, name: str | None, pause: _Known | None) -> None:
        """Pause a name, or end its pause if ``pause`` is None."""
        deadline = Deadline(CHANGE_TIMEOUT)
        while not self._is_changed(name, pause):
            deadline.check("pauses change all the time")

    def _is_changed(self, name: str | None, pause: _Known | None) -> bool:
        stored = self.read()
        paused, known = stored.rules.paused, stored.known
        if (name in paused) is (pause is not None):
            return True
        transaction = self._transactions.begin()
        if pause is None:
            known.pop(name, None)
            transaction.change.add_event(EventKind.RESUMED, name)
        else:
            known[name] = pause
            transaction.change.add_event(EventKind.PAUSED, name, *pause[:2])
        changed = paused - {name} if pause is None else paused | {name}
        self.write(transaction, stored, stored.rules._replace(paused=changed), known)
        return self._transactions.is_committed(transaction)


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
