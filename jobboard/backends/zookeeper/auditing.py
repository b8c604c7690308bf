"""Looks for what contradicts itself on a board, and mends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kazoo.exceptions import KazooException

from jobboard.backends.rows import AuditFinding
from jobboard.backends.zookeeper.checks import uuid_in
from jobboard.backends.zookeeper.client import Client
from jobboard.backends.zookeeper.editing import Fate
from jobboard.backends.zookeeper.faults import translated
from jobboard.backends.zookeeper.moves import put_back
from jobboard.backends.zookeeper.record import Newer, Record
from jobboard.backends.zookeeper.requests import Data, Multi, MultiRead, fault_in
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind
from jobboard.states import JobState

_AT_ONCE = 500

#: A blob that is younger, in seconds, may belong to a post or an end that is under way.
_UNDER_WAY = 60.0


class _Suspect(NamedTuple):
    """What seems wrong; ``seen`` are the transactions that what was read of it is from, 0 for what was not there."""

    uuid: str | None
    problem: str
    seen: tuple[int, ...]
    path: str | None = None
    #: The field whose znode is gone.
    field: str | None = None


class Auditing(Client):
    """Reads the whole board twice, if the first time anything seems wrong.

    Others change the board meanwhile, and its znodes are read one after the other. What was read of a suspect in both
    rounds, and is from the same transactions, was so in between at one moment; only that is a fault.
    """

    def audit(self, repair: bool) -> list[AuditFinding]:
        self._begin()
        suspects = self._suspects()
        counted = self._commits_of_blobs() if suspects else 0
        if suspects:
            first = set(suspects)
            suspects = [suspect for suspect in self._suspects() if suspect in first and not self._is_under_way(suspect)]
        return [
            AuditFinding(suspect.uuid, suspect.problem, repaired=repair and self._mend(suspect, counted))
            for suspect in suspects
        ]

    def _suspects(self) -> list[_Suspect]:
        found = dict(self._all_records())
        records = {uuid: record for uuid, record in found.items() if isinstance(record, Record)}
        newer = {uuid for uuid, record in found.items() if isinstance(record, Newer)}
        # Whatever the records are from is in the log that is read now.
        self._tracker.refresh()
        return [
            *self._of_records(records),
            *self._of_keys(records, newer),
            # What nobody here can read may have blobs, too.
            *(suspect for suspect in self._of_blobs(records) if suspect.uuid is not None or not newer),
        ]

    def _all_records(self) -> Iterator[tuple[str, Record | Newer | str | None]]:
        uuids = [name for path in self._children([self._layout.jobs]) for name in self._children([path])]
        names = [path.rpartition("/")[2] for path in uuids]
        for start in range(0, len(names), _AT_ONCE):
            part = names[start : start + _AT_ONCE]
            yield from zip(part, self._editor.read(part), strict=True)

    def _children(self, paths: Sequence[str]) -> list[str]:
        if not paths:
            return []
        request = MultiRead()
        for path in paths:
            request.children(self._line.chroot + path)
        found = self._line.read(request, is_fresh=False)
        return [f"{path}/{name}" for path, names in zip(paths, found, strict=True) for name in names or ()]

    def _data(self, paths: Sequence[str]) -> dict[str, Data]:
        found: dict[str, Data] = {}
        for start in range(0, len(paths), _AT_ONCE):
            part = paths[start : start + _AT_ONCE]
            request = MultiRead()
            for path in part:
                request.get(self._line.chroot + path)
            for path, data in zip(part, self._line.read(request, is_fresh=False), strict=True):
                if data is not None:
                    found[path] = data
        return found

    # -- what is wrong ---------------------------------------------------------------------------------------------

    def _of_records(self, records: dict[str, Record]) -> Iterator[_Suspect]:
        for record in records.values():
            for problem in self._problems_of(record):
                yield _Suspect(record.uuid, problem, (record.zxid,))

    def _problems_of(self, record: Record) -> Iterator[str]:
        if record.state is JobState.CLAIMED and (record.owner is None or record.presence is None):
            yield "it is claimed, but nobody is its owner"
        if record.state is JobState.DELAYED and record.run_at is None:
            yield "it is delayed, but for no moment"
        with self._listing.lock:
            item = self._listing.items.get(record.uuid)
            is_behind = item is None or item.zxid < record.zxid
            if is_behind or (item is not None and item.zxid == record.zxid and item.state is not record.state):
                yield f"it is {record.state}, but not listed as such"

    def _of_keys(self, records: dict[str, Record], newer: set[str]) -> Iterator[_Suspect]:
        held = self._data(self._children(self._children([self._layout.keys])))
        theirs = {path for path, holder in held.items() if uuid_in(holder) in newer}
        for record in records.values():
            if record.key is not None and record.is_live:
                path = self._layout.key(record.name, record.key)
                holder = held.pop(path, None)
                if path not in theirs and (holder is None or uuid_in(holder) != record.uuid):
                    seen = (record.zxid, 0 if holder is None else holder.stat.mzxid)
                    yield _Suspect(record.uuid, "its key leads to another job, or nowhere", seen, path)
        for path, holder in held.items():
            if path in theirs:
                continue
            problem = (
                f"the key {path.rpartition('/')[2]} leads to {uuid_in(holder)}, which is not live or does not have it"
            )
            yield _Suspect(None, problem, (holder.stat.mzxid,), path)

    def _of_blobs(self, records: dict[str, Record]) -> Iterator[_Suspect]:
        there = set(self._children(self._children([self._layout.blobs])))
        for record in records.values():
            for field, blob in record.blobs.items():
                path = self._layout.blob(blob)
                if path not in there:
                    yield _Suspect(record.uuid, f"its {field} is missing", (record.zxid,), field=field)
                there.discard(path)
        for path in sorted(there):
            yield _Suspect(None, f"{path} belongs to no job", (), path)

    def _is_under_way(self, suspect: _Suspect) -> bool:
        """Whether this is a blob that was written just now for a job that is still to be."""
        if suspect.path is None or not suspect.path.startswith(self._layout.blobs):
            return False
        try:
            stat = self._line.call("exists", suspect.path)
        except KazooException as error:
            raise translated(self._line.where, error) from None
        return stat is None or self._clock.now() - stat.ctime / 1000 < _UNDER_WAY

    # -- mending ---------------------------------------------------------------------------------------------------

    def _mend(self, suspect: _Suspect, counted: int) -> bool:
        if suspect.path is None:
            return self._write_anew(suspect)
        if suspect.uuid is not None:
            return self._give_back_key(suspect.uuid, suspect.path)
        request = Multi(self._line.chroot, ())
        if suspect.path.startswith(self._layout.blobs):
            # Whoever has written it ahead may have gone on after all, and it belongs to a job since.
            request.check(self._layout.blobs, counted)
            request.delete(suspect.path)
        else:
            (holder,) = self._data([suspect.path]).values() or (None,)
            if holder is None or (holder.stat.mzxid,) != suspect.seen:
                return False
            request.delete(suspect.path, holder.stat.version)
        return fault_in(self._line.ask(request)) is None

    def _commits_of_blobs(self) -> int:
        """Return the version that counts the jobs that were written after their blobs."""
        found = self._data([self._layout.blobs]).get(self._layout.blobs)
        if found is None:
            raise BoardUnavailable(f"{self._layout.blobs} is missing; was the board deleted?")
        return found.stat.version

    def _write_anew(self, suspect: _Suspect) -> bool:
        """Write a job again, settled and with a line of the log, so that every client lists it as it is."""

        def write(record: Record | None, now: float) -> tuple[bool, Fate]:
            if record is None or (record.zxid,) != suspect.seen:
                return False, Fate.KEPT
            if record.state is JobState.CLAIMED and record.owner is None:
                put_back(record, EventKind.EXPIRED, now, "nobody was its owner")
            if suspect.field is not None:
                # A posting without a body can't be read, and goes to the trash as such.
                del record.blobs[suspect.field]
                setattr(record, suspect.field, b"" if suspect.field == "body" else None)
            return True, Fate.WRITTEN

        assert suspect.uuid is not None
        return self._editor.edit([(suspect.uuid, write)])[0]

    def _give_back_key(self, uuid: str, path: str) -> bool:
        """Let a key lead to the job that has it; of two that have it, the one that it leads to keeps it."""
        reading = MultiRead()
        reading.get(self._line.chroot + path)
        (holder,) = self._line.read(reading)
        rival_uuid = uuid if holder is None else uuid_in(holder)
        record, rival = self._editor.records([uuid, rival_uuid])
        if record is None or record.key is None or not record.is_live:
            return False
        if (
            rival is not None
            and rival_uuid != uuid
            and rival.is_live
            and (rival.name, rival.key) == (record.name, record.key)
        ):
            return self._take_key(record)
        self._engine.make_room([path])
        request = Multi(self._line.chroot, self._acl_now())
        request.check(self._layout.job(uuid), record.version)
        if holder is None:
            request.create(path, uuid.encode())
        else:
            request.set(path, uuid.encode(), holder.stat.version)
        return fault_in(self._line.ask(request)) is None

    def _take_key(self, found: Record) -> bool:
        def write(record: Record | None, _now: float) -> tuple[bool, Fate]:
            if record is None or record.zxid != found.zxid:
                return False, Fate.KEPT
            record.key = None
            return True, Fate.WRITTEN

        return self._editor.edit([(found.uuid, write)])[0]
