"""The schedules' primitives: each step is one transaction with its postings."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from jobboard.backends.etcd.changing import PATIENCE
from jobboard.backends.etcd.client import Memory
from jobboard.backends.etcd.keys import decoded
from jobboard.backends.etcd.posting import Known, Plan, Posting
from jobboard.backends.etcd.telling import Told
from jobboard.backends.etcd.txn import Found, KeyValue, Op, Txn, after, delete, get, many, modified_at, put, scan
from jobboard.backends.etcd.values import BYTES, NUMBER_OR_NONE, TEXT, items_of, pack
from jobboard.backends.rows import DueSchedules, PostOutcome, SchedulePage, ScheduleRow, ScheduleStep, Verdict

#: The event slot of a step's announcements, behind those of its postings.
_ANNOUNCED = 99

#: Larger schedules than this, in bytes, are in the line of moments without their body.
_LARGE = 50_000
_READ_AT_ONCE = 20


class Scheduling(Posting):
    """A schedule is a key of its id, and one in the line of moments whose value is the whole of it, too.

    Of a large one it is a reference: twice its bytes and a job that has them as well are more than one request may be.
    """

    def _opened_anew(self) -> None:
        super()._opened_anew()
        self._seen: Memory[tuple[ScheduleRow, int]] = Memory(10_000)

    def step_schedules(self, steps: Sequence[ScheduleStep]) -> list[Verdict]:
        self._check_open()
        return [self._step(step) for step in steps]

    def _step(self, step: ScheduleStep) -> Verdict:
        keys = self.keys
        key = keys.schedule(step.id)
        known, tries, deadline = Known(), 0, time.monotonic() + PATIENCE
        guess = self._guess(step)
        while True:
            if guess is None:
                stored = self._ask([get(key)])[0].first
                old = None if stored is None else self._schedule_of(stored)
                revision = 0 if stored is None else stored.modified
            else:
                (old, revision), guess = guess, None
            version = None if old is None else old.version
            if version == (None if step.row is None else step.row.version):
                return Verdict.REPEATED
            if version != step.after:
                return Verdict.LOST
            if self._take(step, old, revision, known, tries):
                return Verdict.DONE
            self._seen.forget(step.id)
            tries += 1
            known = self._known_of(step.postings)
            self._until(deadline, f"the schedule {step.id!r} changes all the time")

    def _guess(self, step: ScheduleStep) -> tuple[ScheduleRow | None, int] | None:
        """Return what the step goes on from as this client saw it last, which saves a read if it still holds."""
        if step.after is None:
            return None, 0
        seen = self._seen.get(step.id)
        return seen if seen is not None and seen[0].version == step.after else None

    def _take(self, step: ScheduleStep, old: ScheduleRow | None, revision: int, known: Known, tries: int) -> bool:
        """Carry a step out as a whole; False if something is not as it assumed."""
        now = self.now()
        plan = Plan(known, now, self.end_of(0.0))
        planned = [plan.step(new) for new in step.postings]
        new_rows = [planned_step.row for planned_step in planned if planned_step.outcome is PostOutcome.POSTED]
        self._number(new_rows, now, tries)
        txn = self.posting_txn(planned, known, now)
        txn.compares.append(modified_at(self.keys.schedule(step.id), revision))
        txn.then += self._steps_to(step, old)
        told = [Told(item.kind, item.uuid, item.name, item.who, None, now, item.reason) for item in step.announcements]
        txn.then += self._telling(told, _ANNOUNCED)
        txn.then = many(txn.then, len(txn.compares))
        done = self._send(txn)
        self._learn_sequence(done)
        if done.succeeded and step.row is not None:
            self._seen.put(step.id, (step.row, done.revision))
        return done.succeeded

    def _steps_to(self, step: ScheduleStep, old: ScheduleRow | None) -> list[Op]:
        keys, new = self.keys, step.row
        ops: list[Op] = []
        place = None if new is None else keys.due_at(new.next_at, new.id)
        before = None if old is None else keys.due_at(old.next_at, old.id)
        if before is not None and before != place:
            ops.append(delete(before))
        if new is None or place is None:
            return [*ops, delete(keys.schedule(step.id))]
        return [*ops, put(keys.schedule(new.id), _packed(new)), put(place, _in_line(new))]

    def read_schedules(self, ids: Sequence[str]) -> list[ScheduleRow | None]:
        self._check_open()
        if not ids:
            return []
        found = self._ask([get(self.keys.schedule(id)) for id in ids])
        return [None if part.first is None else self._schedule_of(part.first) for part in found]

    def due_schedules(self, limit: int) -> DueSchedules:
        self._check_open()
        keys, now = self.keys, self.now()
        until = keys.due_until(now)
        # What is due, and the first that is not: the others are not read.
        found = self._look_along([scan(keys.due, until, limit + 1), scan(until, after(keys.due), 1)])
        kvs = [kv for part in found for kv in part.kvs]
        entries = [self._schedule_of(kv) for kv in kvs]
        for entry, kv in zip(entries, kvs, strict=True):
            # Both keys of a schedule are written in one transaction, so they have one revision.
            self._seen.put(entry.id, (entry, kv.modified))
        due = [entry for entry in entries if entry.next_at is not None and entry.next_at <= now][:limit]
        behind = entries[len(due)].next_at if len(entries) > len(due) else None
        # One that has been stepped on since the scan is not due any more.
        whole = [entry for entry in self._whole(due) if entry.next_at is not None and entry.next_at <= now]
        return DueSchedules(whole, None if behind is None else behind - now, now)

    def _look_along(self, line: Sequence[Op]) -> list[Found]:
        """Read parts of the line of moments; what stands there and can't be read is put where it belongs first."""
        found = self._ask(line)
        unreadable = [kv for part in found for kv in part.kvs if self._readable(kv) is None]
        for kv in unreadable:
            self._mend_due(kv)
        return self._ask(line) if unreadable else found

    def _mend_due(self, place: KeyValue) -> None:
        """Put a schedule where it belongs in the line, since what stands there can't be read."""
        keys, id = self.keys, self._id_of(place.key)
        stored = self._ask([get(keys.schedule(id))])[0].first
        steps = [delete(place.key)]
        if stored is not None:
            entry = self._schedule_of(stored)
            at = keys.due_at(entry.next_at, id)
            # Both are written, so that they have one revision again.
            steps = [put(stored.key, _packed(entry)), put(at, _in_line(entry))]
            steps += [delete(place.key)] if at != place.key else []
        revision = 0 if stored is None else stored.modified
        unchanged = [modified_at(place.key, place.modified), modified_at(keys.schedule(id), revision)]
        self._send(Txn(unchanged, steps))

    def _schedule_of(self, kv: KeyValue) -> ScheduleRow:
        """Read a schedule; one that can't be read is never due, and its body is all of its bytes."""
        return self._readable(kv) or ScheduleRow(self._id_of(kv.key), "", None, kv.value)

    def _readable(self, kv: KeyValue) -> ScheduleRow | None:
        """Read a schedule, unless it can't be that of its key."""
        entry = _read(kv)
        return entry if entry is not None and entry.id == self._id_of(kv.key) else None

    def _id_of(self, key: bytes) -> str:
        if key.startswith(self.keys.schedules):
            return decoded(key[len(self.keys.schedules) :])
        return key[len(self.keys.due) :].partition(b"/")[2].decode(errors="replace")

    def page_schedules(self, cursor: object | None, size: int) -> SchedulePage:
        if cursor is not None and not isinstance(cursor, bytes):
            raise TypeError(f"not a cursor of this backend: {cursor!r}")
        self._check_open()
        start = self.keys.due if cursor is None else cursor + b"\0"
        (found,) = self._look_along([scan(start, after(self.keys.due), size)])
        entries = [self._schedule_of(kv) for kv in found.kvs]
        return SchedulePage(self._whole(entries), found.kvs[-1].key if found.more else None)

    def _whole(self, entries: Sequence[ScheduleRow]) -> list[ScheduleRow]:
        """Read those of which the line of moments has a reference only; without those that are gone by now."""
        large = [entry.id for entry in entries if not entry.body]
        found: dict[str, ScheduleRow | None] = {}
        for start in range(0, len(large), _READ_AT_ONCE):
            ids = large[start : start + _READ_AT_ONCE]
            found |= zip(ids, self.read_schedules(ids), strict=True)
        whole = (found.get(entry.id, entry) for entry in entries)
        return [entry for entry in whole if entry is not None]


def _packed(entry: ScheduleRow) -> bytes:
    return pack([entry.id, entry.version, entry.next_at, entry.body])


def _in_line(entry: ScheduleRow) -> bytes:
    """Return what stands in the line of moments: the schedule, or a reference to it."""
    value = _packed(entry)
    return value if len(value) <= _LARGE else _packed(replace(entry, body=b""))


def _read(kv: KeyValue) -> ScheduleRow | None:
    try:
        return ScheduleRow(*items_of(kv.value, (TEXT, TEXT, NUMBER_OR_NONE, BYTES))[0])
    except ValueError:
        return None
