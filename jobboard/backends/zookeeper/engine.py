"""Puts what changes jobs into transactions, carries them out, and looks at every result."""

from __future__ import annotations

import time
import uuid as uuids
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobboard.backends.zookeeper.changes import Change
from jobboard.backends.zookeeper.clock import Clock
from jobboard.backends.zookeeper.faults import refused
from jobboard.backends.zookeeper.layout import Layout, parent
from jobboard.backends.zookeeper.line import Line
from jobboard.backends.zookeeper.record import LONG_FIELDS, LONGEST_INLINE, Record, encode, size_of
from jobboard.backends.zookeeper.requests import NO_NODE, NODE_EXISTS, Multi, Stat, fault_in, pack_acl
from jobboard.backends.zookeeper.tracker import Tracker
from jobboard.errors import BoardUnavailable, ReplyLost

#: A transaction is cut at so many bytes or jobs; the server takes 1 MB.
LARGEST, MOST_JOBS = 700_000, 500


class Conflict(Exception):
    """Somebody was faster, and nothing was changed; ``path`` is what was not as expected."""

    def __init__(self, path: str, code: int) -> None:
        super().__init__(path, code)
        self.path, self.code = path, code
        #: Whether it was to be removed along with a job's change, and somebody has done so by hand.
        self.is_gone = False


@dataclass
class Writing:
    """A transaction in the making: the parts, and what they mean."""

    request: Multi
    change: Change = field(default_factory=Change)
    paths: list[str] = field(default_factory=list)
    written: list[tuple[int, Record, bool]] = field(default_factory=list)
    is_ready: int | None = None
    #: The places of what is set; each one's stat tells of the transaction.
    sets: list[int] = field(default_factory=list)
    #: What was written ahead for this transaction.
    ahead: list[str] = field(default_factory=list)
    #: Keys, blobs and aliases that it deletes; and those of them that a try before found to be gone.
    removed: set[str] = field(default_factory=set)
    gone: Collection[str] = ()

    @property
    def size(self) -> int:
        """How many bytes it is so far, the line of the log with it."""
        return self.request.size + self.change.size

    def check(self, path: str, version: int = -1) -> None:
        self.request.check(path, version)
        self.paths.append(path)

    def set(self, path: str, data: bytes, version: int = -1) -> int:
        self.paths.append(path)
        self.sets.append(self.request.set(path, data, version))
        return self.sets[-1]

    def create(self, path: str, data: bytes) -> int:
        self.paths.append(path)
        return self.request.create(path, data)

    def delete(self, path: str, version: int = -1) -> None:
        self.request.delete(path, version)
        self.paths.append(path)

    def remove(self, path: str) -> None:
        """Delete what a job has beside its znode, unless it is known to be gone."""
        if path not in self.gone:
            self.delete(path)
            self.removed.add(path)


class Engine:
    """Every transaction of a board goes through here, and every result of one is looked at."""

    def __init__(self, line: Line, layout: Layout, tracker: Tracker, clock: Clock, acl: Callable[[], Any]) -> None:
        self._line, self._layout, self._tracker, self._clock, self._acl = line, layout, tracker, clock, acl
        #: Buckets that are known to be there.
        self._made: set[str] = set()
        #: The ACL that was packed last, and as what.
        self._packed: tuple[Any, bytes] = (None, b"")

    def begin(self, gone: Collection[str] = ()) -> Writing:
        acl = self._acl()
        if acl is not self._packed[0]:
            self._packed = (acl, pack_acl(acl))
        return Writing(Multi(self._line.chroot, self._packed[1]), gone=gone)

    # -- parts -----------------------------------------------------------------------------------------------------

    def expect(self, writing: Writing, records: Sequence[Record]) -> None:
        """Add that none of these jobs was deleted since it was read; the versions say the rest. Comes first of all."""
        writing.check(self._layout.deleted, min(record.deletions for record in records))

    def write(self, writing: Writing, record: Record, *, was_live: bool, is_new: bool = False) -> None:
        """Add what brings a job to the state of its record."""
        layout = self._layout
        path = layout.job(record.uuid)
        data = encode(record)
        place = writing.create(path, data) if is_new else writing.set(path, data, record.version)
        writing.written.append((place, record, is_new))
        if record.key is not None and record.is_live != was_live:
            key = layout.key(record.name, record.key)
            if was_live:
                writing.remove(key)
            else:
                writing.create(key, record.uuid.encode())
        for blob in record.orphans:
            writing.remove(layout.blob(blob))
        for blob, content in record.fresh:
            if content is None:
                self._expect_blob(writing, blob)
            else:
                writing.create(layout.blob(blob), content)
        writing.change.wrote(record)

    def _expect_blob(self, writing: Writing, blob: str) -> None:
        """Add that what was written ahead is still there, and count that it belongs to a job from now on.

        An audit that takes it for left over deletes it only if nothing was counted since it read the jobs.
        """
        writing.check(self._layout.blob(blob))
        if not writing.ahead:
            writing.set(self._layout.blobs, b"")
        writing.ahead.append(blob)

    def drop(self, writing: Writing, record: Record) -> None:
        """Add what deletes a job without a trace, which must not be live."""
        layout = self._layout
        writing.delete(layout.job(record.uuid), record.version)
        for alias in record.aliases:
            writing.remove(layout.job(alias))
        for blob in (*record.blobs.values(), *record.orphans):
            writing.remove(layout.blob(blob))
        if not writing.change.gone:
            writing.set(layout.deleted, b"")
        writing.change.dropped(record)

    # -- carrying out ----------------------------------------------------------------------------------------------

    def commit(self, writing: Writing) -> None:
        """Carry a transaction out; raises :class:`Conflict` if something was not as expected."""
        self.settle(self.send(writing))

    def send(self, writing: Writing) -> Sent:
        """Send a transaction, the line of the log with it."""
        # What is only created or deleted says nothing of the transaction, so that something must be set.
        if writing.change.makes_claimable or not writing.sets:
            writing.is_ready = writing.set(self._layout.ready, b"")
        log = self._tracker.log
        writing.paths.append(log)
        place = writing.request.create(f"{log}/c-", writing.change.pack(), sequential=True)
        return Sent(writing, place, time.monotonic(), self._line.send(writing.request))

    def settle(self, sent: Sent) -> None:
        writing = sent.writing
        answers = self._line.answer(sent.pending)
        fault = fault_in(answers)
        if fault is not None:
            self._discard(writing.ahead)
            self._refuse(writing, writing.paths[fault[0]], fault[1])
        stat: Stat = answers[writing.sets[0]]
        self._clock.saw(stat.mtime, sent.at, time.monotonic())
        for place, record, is_new in writing.written:
            record.written(stat._replace(version=0) if is_new else answers[place], is_new=is_new)
        if writing.is_ready is not None:
            self._bumped(answers[writing.is_ready].version)
        self._tracker.made(writing.change, int(answers[sent.log][-10:]), stat)

    def _bumped(self, version: int) -> None:
        """Learn that this client made a job claimable; if others did too, what is known of them is too old."""
        known = self._tracker.ready_version
        if known is not None:
            self._tracker.ready_version = version if version == known + 1 else None

    def _refuse(self, writing: Writing, path: str, code: int) -> None:
        if code in (NO_NODE, NODE_EXISTS, -103):
            conflict = Conflict(path, code)
            if code == NO_NODE:
                self._made.discard(parent(path))
                conflict.is_gone = path in writing.removed
            raise conflict
        raise refused(self._line.where, code)

    # -- what must be there before ---------------------------------------------------------------------------------

    def make_room(self, paths: Sequence[str]) -> None:
        """Make sure that the parents of these paths are there."""
        missing = {parent(path) for path in paths} - self._made
        pending = []
        for path in missing:
            request = Multi(self._line.chroot, self._acl())
            request.create(path, b"")
            pending.append((path, self._line.send(request)))
        for path, answer in pending:
            fault = fault_in(self._line.answer(answer))
            if fault is not None and fault[1] != NODE_EXISTS:
                raise refused(self._line.where, fault[1])
            self._made.add(path)

    def make_room_for(self, record: Record, *, is_new: bool = False) -> None:
        """Make sure that what a record needs beside itself can be written: its key, and what is long in it."""
        paths = [self._layout.job(record.uuid)] if is_new else []
        if record.key is not None:
            paths.append(self._layout.key(record.name, record.key))
        if paths:
            self.make_room(paths)

    def outsource(self, records: Sequence[Record], longest: int = LONGEST_INLINE, room: int = LARGEST) -> None:
        """Give what is long in these records znodes of its own, which the transaction makes that writes the records.

        What is too much for one transaction is written now, and nobody knows of it until the records are written.

        :param room: how many bytes the transaction can take.
        """
        for record in records:
            for name in LONG_FIELDS:
                value = getattr(record, name)
                if value is None or name in record.blobs or len(value) <= longest // 4:
                    continue
                data = value.encode() if isinstance(value, str) else value
                if len(data) > longest:
                    record.blobs[name] = uuids.uuid4().hex
                    record.fresh.append((record.blobs[name], data))
        self.make_room([self._layout.blob(blob) for record in records for blob, _ in record.fresh])
        sizes = (size_of(record) + sum(len(data or b"") for _, data in record.fresh) for record in records)
        if sum(sizes) > room:
            self._write_ahead(records)

    def _write_ahead(self, records: Sequence[Record]) -> None:
        pending = []
        for record in records:
            for blob, data in record.fresh:
                if data is not None:
                    request = Multi(self._line.chroot, self._acl())
                    request.create(self._layout.blob(blob), data)
                    pending.append(self._line.send(request))
            record.fresh = [(blob, None) for blob, _ in record.fresh]
        for answer in pending:
            fault = fault_in(self._line.answer(answer))
            if fault is not None:
                raise refused(self._line.where, fault[1])

    def _discard(self, blobs: Sequence[str]) -> None:
        """Delete what was written ahead for nothing; nobody waits for it."""
        for blob in blobs:
            request = Multi(self._line.chroot, ())
            request.delete(self._layout.blob(blob))
            self._line.send(request)


@dataclass
class Sent:
    """A transaction that is on its way; ``log`` is the place of its line of the log."""

    writing: Writing
    log: int
    at: float
    pending: Any


def certain(error: BoardUnavailable, *, began: bool) -> BoardUnavailable:
    """Return an error that says nothing of certainty if something was changed before."""
    if began and not isinstance(error, ReplyLost):
        return ReplyLost(f"only a part of this is certain: {error}")
    return error
