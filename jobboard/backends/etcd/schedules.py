"""Stores schedules: each step is one transaction, together with its postings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jobboard.backends.errors import after_a_change
from jobboard.backends.etcd.batches import Batches
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.events import Event, event_ops
from jobboard.backends.etcd.keys import behind, decoded
from jobboard.backends.etcd.planning import Existing
from jobboard.backends.etcd.posting import Posting
from jobboard.backends.etcd.txn import Found, KeyValue, Op, Txn, after, delete, get, kvs_of, modified_at, put, scan
from jobboard.backends.kv.cache import LruCache
from jobboard.backends.kv.codec import BYTES, NUMBER_OR_NONE, TEXT, items_of, pack
from jobboard.backends.kv.read_modify_write import CHANGE_TIMEOUT, Deadline
from jobboard.backends.roles import ScheduleStore
from jobboard.backends.rows import Verdict
from jobboard.backends.schedule_rows import DueSchedules, SchedulePage, ScheduleRow, ScheduleStep

#: The event slot of a step's events; its postings use the first ones.
_EVENT_SLOT = 99

#: Schedules of more bytes than this stand in the queue of moments without their body.
_LARGE = 50_000
_READ_AT_ONCE = 20


class Schedules(ScheduleStore):
    """A schedule has a key by its id, and one in the queue of moments; each holds all of it.

    The queue has a large one without its body: a request can't hold this twice, and a job of that size as well.
    """

    def __init__(self, connection: Connection, posting: Posting, batches: Batches) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._posting, self._batches = posting, batches
        #: Each schedule as this client read or wrote it last, and the revision in which it was written.
        self._seen: LruCache[tuple[ScheduleRow, int]] = LruCache(10_000)

    def step(self, steps: Sequence[ScheduleStep]) -> list[Verdict]:
        """Take one step after the other, since their jobs are posted in this order."""
        verdicts: list[Verdict] = []
        with after_a_change(lambda: Verdict.DONE in verdicts):
            for step in steps:
                verdicts.append(self._step(step))
        return verdicts

    def _step(self, step: ScheduleStep) -> Verdict:
        deadline, tries = Deadline(CHANGE_TIMEOUT), 0
        while (verdict := self._take(step, tries)) is None:
            tries += 1
            deadline.check(f"the schedule {step.id!r} changes all the time")
        return verdict

    def _take(self, step: ScheduleStep, tries: int) -> Verdict | None:
        """Take a step if its schedule allows it; None, and nothing is done, if the board is not as it assumed."""
        old, revision = (None if tries else self._guess(step)) or self._read(step.id)
        verdict = step.verdict(None if old is None else old.version)
        if verdict is Verdict.DONE:
            existing = self._posting.existing(step.postings) if tries else Existing()
            if not self._write(step, old, revision, existing, tries):
                self._seen.forget(step.id)
                return None
        return verdict

    def _read(self, id: str) -> tuple[ScheduleRow | None, int]:
        stored = self._connection.read([get(self._keys.schedule(id))])[0].first
        return (None, 0) if stored is None else (self._schedule_of(stored), stored.modified)

    def _guess(self, step: ScheduleStep) -> tuple[ScheduleRow | None, int] | None:
        """Return what the step assumes, if this client knows it: that saves a read unless the schedule has changed."""
        if step.after is None:
            return None, 0
        seen = self._seen.get(step.id)
        return seen if seen is not None and seen[0].version == step.after else None

    def _write(
        self, step: ScheduleStep, old: ScheduleRow | None, revision: int, existing: Existing, tries: int
    ) -> bool:
        """Carry out the whole step; False, and nothing is done, if the board is not as it assumed."""
        keys, now = self._keys, self._connection.now()
        txn = self._batches.txn_of(self._batches.plan(step.postings, existing, now), existing, now, tries)
        txn.compares.append(modified_at(keys.schedule(step.id), revision))
        events = [Event(item.kind, item.uuid, item.name, item.who, None, now, item.reason) for item in step.events]
        txn.then += [*self._steps_to(step, old), *event_ops(keys, events, _EVENT_SLOT)]
        result = self._batches.send(txn)
        if result.succeeded and step.row is not None:
            self._seen.put(step.id, (step.row, result.revision))
        return result.succeeded

    def _steps_to(self, step: ScheduleStep, old: ScheduleRow | None) -> list[Op]:
        keys, new = self._keys, step.row
        ops: list[Op] = []
        place = None if new is None else keys.due_at(new.next_at, new.id)
        before = None if old is None else keys.due_at(old.next_at, old.id)
        if before is not None and before != place:
            ops.append(delete(before))
        if new is None or place is None:
            return [*ops, delete(keys.schedule(step.id))]
        return [*ops, put(keys.schedule(new.id), _packed(new)), put(place, _in_queue(new))]

    def read(self, ids: Sequence[str]) -> list[ScheduleRow | None]:
        if not ids:
            return []
        found = self._connection.read([get(self._keys.schedule(id)) for id in ids])
        return [None if part.first is None else self._schedule_of(part.first) for part in found]

    def due(self, limit: int) -> DueSchedules:
        keys, now = self._keys, self._connection.now()
        until = keys.due_until(now)
        # Read what is due, and the first schedule that is not.
        found = self._read_queue([scan(keys.due, until, limit + 1), scan(until, after(keys.due), 1)])
        rows = []
        for kv in kvs_of(found):
            rows.append(self._schedule_of(kv))
            # Both keys of a schedule are written in one transaction, so they have one revision.
            self._seen.put(rows[-1].id, (rows[-1], kv.modified))
        due = [row for row in rows if _is_due(row, now)][:limit]
        following = rows[len(due)].next_at if len(rows) > len(due) else None
        # Another client may have stepped one on since the queue was read: it is not due any more.
        whole = [row for row in self._whole(due) if _is_due(row, now)]
        return DueSchedules(whole, None if following is None else following - now, now)

    def _read_queue(self, queue: Sequence[Op]) -> list[Found]:
        """Read parts of the queue of moments; write unreadable entries anew before."""
        found = self._connection.read(queue)
        unreadable = [kv for kv in kvs_of(found) if self._readable(kv) is None]
        for kv in unreadable:
            self._rewrite_place(kv)
        return self._connection.read(queue) if unreadable else found

    def _rewrite_place(self, place: KeyValue) -> None:
        """Write the entry of a schedule in the queue anew, since it can't be read."""
        keys, id = self._keys, self._id_of(place.key)
        row, revision = self._read(id)
        steps = [delete(place.key)]
        if row is not None:
            at = keys.due_at(row.next_at, id)
            # Both keys are written, so that they have one revision again.
            steps = [put(keys.schedule(id), _packed(row)), put(at, _in_queue(row))]
            steps += [delete(place.key)] if at != place.key else []
        unchanged = [modified_at(place.key, place.modified), modified_at(keys.schedule(id), revision)]
        self._connection.send(Txn(unchanged, steps))

    def _schedule_of(self, kv: KeyValue) -> ScheduleRow:
        """Read a schedule; one that can't be read is never due, and has all of its bytes as its body."""
        return self._readable(kv) or ScheduleRow(self._id_of(kv.key), "", None, kv.value)

    def _readable(self, kv: KeyValue) -> ScheduleRow | None:
        """Read a schedule; None if it can't be read, or does not belong to its key."""
        row = _row_in(kv)
        return row if row is not None and row.id == self._id_of(kv.key) else None

    def _id_of(self, key: bytes) -> str:
        if key.startswith(self._keys.schedules):
            return decoded(key[len(self._keys.schedules) :])
        return key[len(self._keys.due) :].partition(b"/")[2].decode(errors="replace")

    def page(self, cursor: object | None, size: int) -> SchedulePage:
        due = self._keys.due
        (found,) = self._read_queue([scan(behind(cursor, due), after(due), size)])
        rows = [self._schedule_of(kv) for kv in found.kvs]
        return SchedulePage(self._whole(rows), found.cursor)

    def _whole(self, rows: Sequence[ScheduleRow]) -> list[ScheduleRow]:
        """Read the large schedules by their ids; leave out those that are gone meanwhile."""
        large = [row.id for row in rows if not row.body]
        found: dict[str, ScheduleRow | None] = {}
        for start in range(0, len(large), _READ_AT_ONCE):
            ids = large[start : start + _READ_AT_ONCE]
            found |= zip(ids, self.read(ids), strict=True)
        whole = (found.get(row.id, row) for row in rows)
        return [row for row in whole if row is not None]


def _packed(row: ScheduleRow) -> bytes:
    return pack([row.id, row.version, row.next_at, row.body])


def _in_queue(row: ScheduleRow) -> bytes:
    """Return the entry in the queue of moments: the schedule, a large one without its body."""
    value = _packed(row)
    return value if len(value) <= _LARGE else _packed(replace(row, body=b""))


def _is_due(row: ScheduleRow, now: float) -> bool:
    return row.next_at is not None and row.next_at <= now


def _row_in(kv: KeyValue) -> ScheduleRow | None:
    try:
        return ScheduleRow(*items_of(kv.value, (TEXT, TEXT, NUMBER_OR_NONE, BYTES))[0])
    except ValueError:
        return None
