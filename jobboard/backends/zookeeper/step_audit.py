"""Looks for steps and signals that can't be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from jobboard.backends.kv.step_audit import UNREADABLE_SIGNAL, is_checked, trash, unreadable_step
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.edge_codec import decode_named
from jobboard.backends.zookeeper.layout import Layout, last_part, last_two
from jobboard.backends.zookeeper.read_modify_write import ReadModifyWrite
from jobboard.backends.zookeeper.requests import Data
from jobboard.backends.zookeeper.stored_job import StoredJob

#: Jobs whose steps one request lists.
_MAX_LISTED = 100


class SuspectStep(NamedTuple):
    """What can't be read; ``seen`` has the transaction that wrote it."""

    uuid: str
    problem: str
    seen: tuple[int, ...]
    path: str


class StepAuditor:
    """Reads all steps and signals of live jobs."""

    def __init__(self, connection: Connection, layout: Layout, jobs: ReadModifyWrite) -> None:
        self._connection, self._layout, self._jobs = connection, layout, jobs

    def suspects(self, jobs: Mapping[str, StoredJob]) -> Iterator[SuspectStep]:
        """Say what seems wrong."""
        owners = [uuid for uuid, job in jobs.items() if job.has_folders and is_checked(job)]
        for start in range(0, len(owners), _MAX_LISTED):
            some = owners[start : start + _MAX_LISTED]
            found = dict[str, SuspectStep]()
            for uuid, path, data in self._unreadable(map(self._layout.steps_of, some)):
                # After the first one a job comes to no other.
                step = SuspectStep(uuid, unreadable_step(last_part(path)), (data.stat.mzxid,), path)
                found[uuid] = min(step, found.get(uuid, step), key=lambda suspect: suspect.path)
            yield from found.values()
            for uuid, path, data in self._unreadable(map(self._layout.signals_of, some)):
                yield SuspectStep(uuid, UNREADABLE_SIGNAL, (data.stat.mzxid,), path)

    def _unreadable(self, folders: Iterator[str]) -> Iterator[tuple[str, str, Data]]:
        paths = self._connection.children(list(folders), is_fresh=False)
        for path, data in self._connection.existing(paths, is_fresh=False):
            try:
                decode_named(data.data)
            except ValueError:
                yield last_two(path)[0], path, data

    def repair(self, suspect: SuspectStep) -> bool:
        """Put a job aside that can't go on, or delete a signal."""
        if suspect.path.startswith(self._layout.steps + "/"):
            return trash(self._jobs, suspect.uuid, suspect.problem)
        data = self._connection.read_one(suspect.path)
        if data is None or (data.stat.mzxid,) != suspect.seen:
            return False
        request = self._connection.new_write()
        request.delete(suspect.path, data.stat.version)
        return self._connection.is_written(request)
