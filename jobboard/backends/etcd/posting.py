"""The producers' primitives: post, and cancel."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from jobboard.backends.etcd.changing import PATIENCE, Change, Changing
from jobboard.backends.etcd.layout import Stored, content_of, steps_between
from jobboard.backends.etcd.rows import Row, draft, fill
from jobboard.backends.etcd.telling import Told, told_of
from jobboard.backends.etcd.txn import (
    MOST_BYTES,
    Compare,
    Done,
    KeyValue,
    Op,
    Txn,
    absent,
    get,
    less,
    many,
    modified_at,
    put,
)
from jobboard.backends.rows import CancelOutcome, IfExists, NewJob, Posted, PostOutcome
from jobboard.events import HISTORY_LENGTH, EventKind

#: Postings in one transaction, so that all their comparisons fit into it.
MOST_POSTINGS = 50

#: No sequence is as large as this: it is a time in microseconds, or a little more.
_MOST_SEQUENCE = 10**18


@dataclass(slots=True)
class Known:
    """What is on the board under the uuids and keys of a batch; ``is_read`` False: nothing is known yet."""

    is_read: bool = False
    by_uuid: dict[str, Stored] = field(default_factory=dict)
    by_key: dict[tuple[str, str], Stored] = field(default_factory=dict)
    #: Keys that lead to no live job any more, and their revisions.
    dangling: dict[tuple[str, str], KeyValue] = field(default_factory=dict)


@dataclass(slots=True)
class Step:
    """What is to become of one posting: ``row`` is the job that is the one; ``replaced`` what it was before."""

    outcome: PostOutcome
    row: Row
    replaced: Stored | None = None


class Plan:
    """What would become of each posting of a batch, those before it counted in."""

    def __init__(self, known: Known, now: float, latest: float) -> None:
        self._known = known
        self._now, self._latest = now, latest
        self._by_uuid: dict[str, Row] = {uuid: job.row for uuid, job in known.by_uuid.items()}
        self._by_key: dict[tuple[str, str], Row] = {key: job.row for key, job in known.by_key.items()}
        self._stored = {job.row.uuid: job for job in known.by_key.values()}

    def step(self, new: NewJob) -> Step:
        known = self._by_uuid.get(new.uuid)
        if known is not None:
            return Step(PostOutcome.SAME, known)
        holder = None if new.key is None else self._by_key.get((new.name, new.key))
        if holder is None:
            return Step(PostOutcome.POSTED, self._drafted(new))
        if new.if_exists is IfExists.KEEP:
            return Step(PostOutcome.KEPT, holder)
        if new.if_exists is IfExists.REPLACE and holder.grant is None and holder.newer is None:
            return self._replacing(holder, new)
        return Step(PostOutcome.TAKEN, holder)

    def _drafted(self, new: NewJob) -> Row:
        row = self._by_uuid[new.uuid] = draft(new, self._now, self._latest)
        row.note(EventKind.POSTED, None, self._now, None)
        if new.key is not None:
            self._by_key[new.name, new.key] = row
        return row

    def _replacing(self, holder: Row, new: NewJob) -> Step:
        """Change the row itself, so that every step of the batch that leads to it shows what it has become."""
        stored = self._stored.get(holder.uuid)
        before = None if stored is None else replace(stored, row=stored.row.copy())
        self._stored.pop(holder.uuid, None)
        fill(holder, new, self._now, self._latest)
        holder.note(EventKind.REPLACED, None, self._now, None, new.uuid)
        holder.aliases = (*holder.aliases, new.uuid)[-HISTORY_LENGTH:]
        self._by_uuid[new.uuid] = holder
        return Step(PostOutcome.REPLACED, holder, before)


class Posting(Changing):
    """Posts without a look first, if nothing speaks against it; what is on the board already is read after that."""

    def post(self, entries: Sequence[NewJob]) -> list[Posted]:
        self._check_open()
        parts = _parts_of(entries)
        if len(parts) > 1:
            # Too large for one transaction: at least nothing is posted if it is known by now that a key is taken.
            plan = Plan(self._known_of(entries), self.now(), self.end_of(0.0))
            steps = [plan.step(new) for new in entries]
            if any(step.outcome is PostOutcome.TAKEN for step in steps):
                return _posted(steps)
        return [posted for part in parts for posted in self._post(part)]

    def _post(self, entries: Sequence[NewJob]) -> list[Posted]:
        known = Known()
        deadline = time.monotonic() + PATIENCE
        tries = 0
        while True:
            now = self.now()
            plan = Plan(known, now, self.end_of(0.0))
            steps = [plan.step(new) for new in entries]
            if any(step.outcome is PostOutcome.TAKEN for step in steps):
                if known.is_read:
                    return _posted(steps)
            elif self._write(steps, known, now, tries):
                return _posted(steps)
            tries += 1
            known = self._known_of(entries)
            self._until(deadline, "others post under the same keys")

    def _write(self, steps: Sequence[Step], known: Known, now: float, tries: int) -> bool:
        """Carry a plan out as a whole; False if the board is not as it assumed."""
        self._number([step.row for step in steps if step.outcome is PostOutcome.POSTED], now, tries)
        txn = self.posting_txn(steps, known, now)
        if not txn.then:
            return True
        txn.then = many(txn.then, len(txn.compares))
        done = self._send(txn)
        self._learn_sequence(done)
        if not done.succeeded:
            return False
        for step in steps:
            self._orders.put(step.row.uuid, step.row.order)
        return True

    def posting_txn(self, steps: Sequence[Step], known: Known, now: float) -> Txn:
        """Return what carries out a plan; it fails as a whole if the board is not as the plan assumed."""
        txn = Txn(otherwise=[get(self.keys.sequence)])
        last = max((step.row.sequence for step in steps if step.outcome is PostOutcome.POSTED), default=None)
        if last is not None:
            number = b"%020d" % last
            txn.compares.append(less(self.keys.sequence, number))
            txn.then.append(put(self.keys.sequence, number))
        told: list[Told] = []
        for step in steps:
            if step.outcome is PostOutcome.POSTED:
                txn.compares += self._compares_of(step.row, known)
                txn.then += steps_between({}, content_of(self.keys, step.row))
                told.append(told_of(step.row, EventKind.POSTED, now))
            elif step.outcome is PostOutcome.REPLACED:
                if step.replaced is not None:
                    txn.compares += step.replaced.unchanged(self.keys)
                    old = content_of(self.keys, step.replaced.row)
                    txn.then += steps_between(old, content_of(self.keys, step.row))
                told.append(told_of(step.row, EventKind.REPLACED, now, reason=step.row.aliases[-1]))
        txn.then += self._telling(told)
        return txn

    def _compares_of(self, row: Row, known: Known) -> list[Compare]:
        new = absent(self.keys.job(row.uuid))
        if row.key is None:
            return [new]
        place = self.keys.key(row.name, row.key)
        stray = known.dangling.get((row.name, row.key))
        return [new, absent(place) if stray is None else modified_at(place, stray.modified)]

    # -- sequences -------------------------------------------------------------------------------------------------

    def _number(self, rows: Sequence[Row], now: float, tries: int) -> None:
        """Give new rows their sequences: the server's time in microseconds, above all that were given before.

        The store takes them only if the last one that it has is smaller. So no counter has to be read first: clients
        whose clocks agree seldom meet, and one that lags learns the last sequence from its refusal.
        """
        with self._sequence_lock:
            ahead = random.randint(0, 1000 << min(tries, 8)) if tries else 0
            first = max(round(now * 1_000_000), self._sequence + 1) + ahead
            for at, row in enumerate(rows):
                row.sequence = first + at
            if rows:
                self._sequence = first + len(rows) - 1

    def _learn_sequence(self, done: Done) -> None:
        """Take in the last sequence; make the key if there is none yet."""
        if done.succeeded:
            return
        last = next(done.found()).first
        if last is None:
            self._send(Txn([absent(self.keys.sequence)], [put(self.keys.sequence, b"%020d" % 0)]))
            return
        if not (last.value.isdigit() and int(last.value) < _MOST_SEQUENCE):
            # The place of what can't be read is in the keys; the time is beyond all of them.
            number = max(self._sequence, round(self.now() * 1_000_000))
            self._send(Txn([modified_at(last.key, last.modified)], [put(last.key, b"%020d" % number)]))
            return
        with self._sequence_lock:
            self._sequence = max(self._sequence, int(last.value))

    # -- what is there ---------------------------------------------------------------------------------------------

    def _known_of(self, entries: Sequence[NewJob]) -> Known:
        """Read what is on the board under these uuids and keys, settled."""
        keys = self.keys
        wanted = list(dict.fromkeys((new.name, new.key) for new in entries if new.key is not None))
        uuids = list(dict.fromkeys(new.uuid for new in entries))
        reads: list[Op] = [get(keys.job(uuid)) for uuid in uuids]
        reads += [get(keys.key(name, key)) for name, key in wanted]
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self._ask(reads)
            orders = list(dict.fromkeys(part.first.value for part in found if part.first is not None))
            read = self._fetch_at(orders)
            if not self._settle(read):
                break
            self._until(deadline, "jobs become due all the time")
        jobs = dict(zip(orders, read, strict=True))
        known = Known(is_read=True)
        for uuid, part in zip(uuids, found, strict=False):
            job = None if part.first is None else jobs[part.first.value]
            if job is not None:
                known.by_uuid[uuid] = job
        for place, part in zip(wanted, found[len(uuids) :], strict=True):
            if part.first is None:
                continue
            job = jobs[part.first.value]
            if job is not None and job.row.is_live:
                known.by_key[place] = job
            else:
                known.dangling[place] = part.first
        return known

    # -- cancel ----------------------------------------------------------------------------------------------------

    def cancel(self, uuids: Sequence[str]) -> list[CancelOutcome]:
        return self._alter(uuids, lambda uuid: uuid, _cancelled)


def _cancelled(uuid: str, stored: Stored | None, now: float) -> tuple[CancelOutcome, Change | None]:
    if stored is None or stored.row.uuid != uuid:
        return CancelOutcome.MISSING, None
    row = stored.row.copy()
    if row.grant is not None:
        if row.grant.cancel_asked:
            return CancelOutcome.ASKED, None
        kind, who = EventKind.CANCEL_ASKED, row.grant.who
        notes = (*row.grant.notes, (kind.value, who, now, row.granted, None))
        row.grant = replace(row.grant, cancel_asked=True, modified=now, notes=notes)
        return CancelOutcome.ASKED, Change(row, [told_of(row, kind, now, who, row.granted)])
    if row.is_live:
        row.take_off(now, None, None)
        return CancelOutcome.CANCELLED, Change(row, [told_of(row, EventKind.CANCELLED, now)])
    return CancelOutcome.REPEATED if row.has_note((EventKind.CANCELLED,)) else CancelOutcome.MISSING, None


def _posted(steps: Sequence[Step]) -> list[Posted]:
    return [Posted(step.outcome, step.row.view()) for step in steps]


def _parts_of(entries: Sequence[NewJob]) -> list[list[NewJob]]:
    """Cut a batch into parts of which each fits one transaction."""
    parts: list[list[NewJob]] = []
    size = MOST_BYTES
    for new in entries:
        size += len(new.body) + 1000
        if size > MOST_BYTES or len(parts[-1]) == MOST_POSTINGS:
            parts.append([])
            size = len(new.body) + 1000
        parts[-1].append(new)
    return parts
