"""Looks for what contradicts itself on a board, and mends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobboard.backends.zookeeper.client import Client
from jobboard.backends.zookeeper.record import Record
from jobboard.backends.zookeeper.requests import Multi, MultiRead, fault_in
from jobboard.entry import Finding, JobState

_AT_ONCE = 500


class Auditing(Client):
    """Reads the whole board. What is being changed meanwhile is looked at twice before it counts as a fault."""

    def audit(self, repair: bool) -> list[Finding]:
        self._look_around()
        suspects = self._problems()
        if suspects:
            # What somebody was changing just then is right by now.
            again = set(self._problems())
            suspects = [problem for problem in suspects if problem in again]
        return [Finding(uuid, problem, repaired=repair and self._mend(uuid, path)) for uuid, problem, path in suspects]

    def _problems(self) -> list[tuple[str | None, str, str | None]]:
        records = {record.uuid: record for record in self._all_records()}
        return [*self._of_records(records), *self._of_keys(records), *self._of_blobs(records)]

    def _all_records(self) -> Iterator[Record]:
        uuids = [name for path in self._children([self._layout.jobs]) for name in self._children([path])]
        names = [path.rpartition("/")[2] for path in uuids]
        for start in range(0, len(names), _AT_ONCE):
            for found in self._editor.read(names[start : start + _AT_ONCE]):
                if isinstance(found, Record):
                    yield found

    def _children(self, paths: Sequence[str]) -> list[str]:
        if not paths:
            return []
        request = MultiRead()
        for path in paths:
            request.children(self._line.chroot + path)
        found = self._line.read(request, is_fresh=False)
        return [f"{path}/{name}" for path, names in zip(paths, found, strict=True) for name in names or ()]

    def _data(self, paths: Sequence[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for start in range(0, len(paths), _AT_ONCE):
            part = paths[start : start + _AT_ONCE]
            request = MultiRead()
            for path in part:
                request.get(self._line.chroot + path)
            for path, data in zip(part, self._line.read(request, is_fresh=False), strict=True):
                if data is not None:
                    found[path] = data.data
        return found

    def _of_records(self, records: dict[str, Record]) -> Iterator[tuple[str | None, str, str | None]]:
        for record in records.values():
            if record.state is JobState.CLAIMED and (record.owner is None or record.presence is None):
                yield record.uuid, "it is claimed, but nobody is its owner", None
            if record.state is JobState.DELAYED and record.run_at is None:
                yield record.uuid, "it is delayed, but for no moment", None
            with self._listing.lock:
                item = self._listing.items.get(record.uuid)
                if item is None or (item.zxid >= record.zxid and item.state is not record.state):
                    yield record.uuid, f"it is {record.state}, but not listed as such", None

    def _of_keys(self, records: dict[str, Record]) -> Iterator[tuple[str | None, str, str | None]]:
        paths = self._children(self._children([self._layout.keys]))
        held = {path: data.decode(errors="replace") for path, data in self._data(paths).items()}
        for record in records.values():
            if record.key is not None and record.is_live:
                path = self._layout.key(record.name, record.key)
                if held.pop(path, None) != record.uuid:
                    yield record.uuid, "its key leads to another job, or nowhere", path
        for path, uuid in held.items():
            yield (
                None,
                f"the key {path.rpartition('/')[2]} leads to {uuid}, which is not live or does not have it",
                path,
            )

    def _of_blobs(self, records: dict[str, Record]) -> Iterator[tuple[str | None, str, str | None]]:
        there = set(self._children(self._children([self._layout.blobs])))
        for record in records.values():
            for field, blob in record.blobs.items():
                path = self._layout.blob(blob)
                if path not in there:
                    yield record.uuid, f"its {field} is missing", None
                there.discard(path)
        for path in sorted(there):
            yield None, f"{path} belongs to no job", path

    def _mend(self, uuid: str | None, path: str | None) -> bool:
        """Delete what leads nowhere, and let a job have its key again; and list the board anew, whatever it was."""
        self._tracker.clear()
        if path is None:
            return False
        if uuid is not None:
            return self._give_back_key(uuid, path)
        request = Multi(self._line.chroot, ())
        request.delete(path)
        return fault_in(self._line.ask(request)) is None

    def _give_back_key(self, uuid: str, path: str) -> bool:
        """Let a key lead to the job that has it, unless it leads to another one that has it too."""
        reading = MultiRead()
        reading.get(self._line.chroot + path)
        (holder,) = self._line.read(reading)
        rival_uuid = uuid if holder is None else holder.data.decode(errors="replace")
        record, rival = self._editor.records([uuid, rival_uuid])
        if record is None or record.key is None or not record.is_live:
            return False
        if rival is not None and rival_uuid != uuid and rival.is_live and rival.key == record.key:
            return False
        self._engine.make_room([path])
        request = Multi(self._line.chroot, self._acl_now())
        request.check(self._layout.job(uuid), record.version)
        if holder is None:
            request.create(path, uuid.encode())
        else:
            request.set(path, uuid.encode(), holder.stat.version)
        return fault_in(self._line.ask(request)) is None
