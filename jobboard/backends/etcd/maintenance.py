"""What operators and housekeeping do to a whole board."""

from __future__ import annotations

from jobboard.backends import roles
from jobboard.backends.etcd.audit import Audit
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.events import Event, event_ops
from jobboard.backends.etcd.keys import decoded
from jobboard.backends.etcd.leftovers import Leftovers
from jobboard.backends.etcd.limits import Limits
from jobboard.backends.etcd.participants import Participants
from jobboard.backends.etcd.txn import KeyValue, Txn, absent, delete, get, kvs_of, present, put, scan_prefix
from jobboard.backends.findings import AuditFinding, Holder
from jobboard.backends.kv.codec import MAX_HISTORY_REASON, NUMBER, TEXT_OR_NONE, items_of, pack
from jobboard.backends.rows import Pause
from jobboard.backends.sweep import tidy_limits
from jobboard.events import EventKind
from jobboard.text import shortened
from jobboard.validation import moment


class Maintenance(roles.Maintenance):
    """Pauses are keys: every claim compares that the one of its pause is not there."""

    def __init__(
        self,
        connection: Connection,
        participants: Participants,
        audit: Audit,
        limits: Limits,
        leftovers: Leftovers,
    ) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._participants = participants
        self._audit = audit
        self._limits = limits
        self._leftovers = leftovers

    def pause(self, name: str | None, by: str | None = None, reason: str | None = None) -> None:
        key, now = self._keys.pause(name), self._connection.now()
        event = Event(EventKind.PAUSED, None, name, by, None, now, reason)
        known = pack([by, shortened(reason, MAX_HISTORY_REASON), now])
        self._connection.send(Txn([absent(key)], [put(key, known), *event_ops(self._keys, [event])]))

    def resume(self, name: str | None) -> None:
        key = self._keys.pause(name)
        event = Event(EventKind.RESUMED, None, name, None, None, self._connection.now(), due=0.0)
        self._connection.send(Txn([present(key)], [delete(key), *event_ops(self._keys, [event])]))

    def paused(self) -> frozenset[str | None]:
        return frozenset(self._paused_name(kv) for kv in self._pauses(keys_only=True))

    def pauses(self) -> list[Pause]:
        return [_pause_of(self._paused_name(kv), kv.value) for kv in self._pauses()]

    def _pauses(self, *, keys_only: bool = False) -> list[KeyValue]:
        keys = self._keys
        board = get(keys.paused_board, keys_only=keys_only)
        return kvs_of(self._connection.read([board, scan_prefix(keys.paused_names, keys_only=keys_only)]))

    def _paused_name(self, pause: KeyValue) -> str | None:
        return None if pause.key == self._keys.paused_board else decoded(pause.last_part)

    def tidy(self, limit: int) -> int:
        tidy_limits(self._limits, self._limits.all(), self._connection.now())
        forgotten = self._participants.tidy(limit)
        return forgotten + self._leftovers.tidy(max(1, limit - forgotten))

    def holders(self) -> list[Holder]:
        return []

    def server_version(self) -> str:
        return f"etcd {self._connection.server_version()}"

    def audit(self, repair: bool) -> list[AuditFinding]:
        return self._audit.audit(repair)


def _pause_of(name: str | None, value: bytes) -> Pause:
    """Return a pause; of one that an earlier version made, or that can't be read, only the name is known."""
    try:
        (by, reason, at), _ = items_of(value, (TEXT_OR_NONE, TEXT_OR_NONE, NUMBER))
    except ValueError:
        return Pause(name)
    return Pause(name, by, reason, moment(at))
