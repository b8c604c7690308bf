"""What operators and housekeeping do to a whole board."""

from __future__ import annotations

from jobboard.backends import roles
from jobboard.backends.etcd.audit import Audit
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.events import Event, event_ops
from jobboard.backends.etcd.participants import Participants
from jobboard.backends.etcd.txn import Txn, absent, delete, present, put, scan_prefix
from jobboard.backends.findings import AuditFinding, Holder
from jobboard.backends.kv.codec import MAX_HISTORY_REASON, NUMBER, TEXT_OR_NONE, items_of, pack
from jobboard.backends.rows import Pause
from jobboard.events import EventKind
from jobboard.text import shortened
from jobboard.validation import moment


class Maintenance(roles.Maintenance):
    """Pauses are keys: every claim compares that the one of its pause is not there."""

    def __init__(self, connection: Connection, participants: Participants, audit: Audit) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._participants = participants
        self._audit = audit

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
        (found,) = self._connection.read([scan_prefix(self._keys.paused, keys_only=True)])
        return self._keys.paused_names(found)

    def pauses(self) -> list[Pause]:
        (found,) = self._connection.read([scan_prefix(self._keys.paused)])
        return [_pause_of(self._keys.paused_name(kv), kv.value) for kv in found.kvs]

    def tidy(self, limit: int) -> int:
        return self._participants.tidy(limit)

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
