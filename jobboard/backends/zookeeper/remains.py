"""Deletes what jobs leave beside their own znodes once they are forgotten: edges, steps and signals."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from jobboard.backends.edge_rows import is_graph
from jobboard.backends.zookeeper.connection import MAX_READS, Connection
from jobboard.backends.zookeeper.edge_codec import decode_mark
from jobboard.backends.zookeeper.layout import Layout, last_part, last_two
from jobboard.backends.zookeeper.requests import Data
from jobboard.errors import BoardUnavailable

#: Znodes that one transaction deletes, and jobs of which one request lists what is there.
_MAX_DELETED, _MAX_LISTED = 400, 50
#: One tidying in this many looks for what is left of jobs that are gone, in so many buckets of each kind.
_TIDIES_PER_SWEEP, _BUCKETS_AT_ONCE = 12, 8


class Remains:
    """Every step is repeatable: what an interrupted one leaves is found by the next, or by a sweep."""

    def __init__(self, connection: Connection, layout: Layout) -> None:
        self._connection, self._layout = connection, layout
        #: How many tidyings there were, and where the next sweep begins.
        self._tidied = self._next_bucket = 0

    def clean_own(self, uuids: Sequence[str]) -> None:
        """Delete what jobs have left that this client has deleted, as far as that works; a sweep deletes the rest."""
        with contextlib.suppress(BoardUnavailable):
            self.clean(uuids)

    def clean(self, uuids: Sequence[str]) -> None:
        """Delete the steps, the signals and the edges of jobs; those to their children stay until these go."""
        for start in range(0, len(uuids), _MAX_LISTED):
            self._clean(uuids[start : start + _MAX_LISTED])

    def _clean(self, uuids: Sequence[str]) -> None:
        layout = self._layout
        edges = self._connection.children([layout.edges_of(uuid) for uuid in uuids])
        pairs = list(map(last_two, edges))
        parents = {parent for _, parent in pairs}
        folders = [folder for uuid in uuids for folder in (layout.steps_of(uuid), layout.signals_of(uuid))]
        own = self._connection.children(folders, is_fresh=False)
        # The edge itself comes last: it leads to the other one.
        self._delete([*own, *(layout.child(parent, child) for child, parent in pairs), *edges])
        emptied = [*folders, *map(layout.edges_of, uuids)]
        self._delete([path for path, _ in self._connection.existing(emptied)])
        self._delete_unused({*parents, *uuids})

    def _delete_unused(self, parents: Iterable[str]) -> None:
        """Delete what has held the children of parents that are gone, and of graphs, if there are none any more."""
        layout = self._layout
        folders = {layout.children_of(parent): parent for parent in parents}
        empty = {
            folders[path]: data
            for path, data in self._connection.existing(sorted(folders))
            if not data.stat.numChildren and not _is_pending_graph(folders[path], data)
        }
        jobs = {layout.job(parent) for parent in empty if not is_graph(parent)}
        there = {path for path, data in self._connection.existing(sorted(jobs))}
        self._delete([layout.children_of(parent) for parent in empty if layout.job(parent) not in there])

    def _delete(self, paths: Sequence[str]) -> None:
        """Delete those of these znodes that there are, in as few transactions as it takes."""
        for start in range(0, len(paths), _MAX_DELETED):
            part = paths[start : start + _MAX_DELETED]
            request = self._connection.new_write()
            for path in part:
                request.delete(path)
            if not self._connection.is_written(request):
                # One is gone, or has got children, meanwhile.
                self._delete_each(part)

    def _delete_each(self, paths: Sequence[str]) -> None:
        pending = []
        for path in paths:
            request = self._connection.new_write()
            request.delete(path)
            pending.append(self._connection.send(request))
        for answer in pending:
            self._connection.answer(answer)

    # -- what is left over -----------------------------------------------------------------------------------------

    def sweep(self) -> int:
        """Delete some of what is left of jobs that are gone, if it is time to look; return of how many jobs."""
        self._tidied += 1
        if self._tidied % _TIDIES_PER_SWEEP:
            return 0
        gone = self.orphans(range(self._next_bucket, self._next_bucket + _BUCKETS_AT_ONCE))
        self._next_bucket = (self._next_bucket + _BUCKETS_AT_ONCE) % self._layout.spread
        self.clean(gone)
        return len(gone)

    def orphans(self, buckets: Iterable[int]) -> list[str]:
        """Return the jobs that are gone and have left something in these buckets."""
        layout, uuids = self._layout, dict[str, None]()
        numbers = list(buckets)
        for kind in (layout.edges, layout.steps, layout.signals):
            paths = self._connection.children([f"{kind}/{number:02x}" for number in numbers], is_fresh=False)
            uuids |= dict.fromkeys(map(last_part, paths))
        folders = self._connection.children([f"{layout.children}/{number:02x}" for number in numbers], is_fresh=False)
        for path, data in self._connection.existing(folders, is_fresh=False):
            if not data.stat.numChildren and not is_graph(last_part(path)):
                uuids[last_part(path)] = None
        found: set[str] = set()
        for start in range(0, len(uuids), MAX_READS):
            part = list(uuids)[start : start + MAX_READS]
            found |= {last_part(path) for path, _ in self._connection.existing([layout.job(uuid) for uuid in part])}
        return [uuid for uuid in uuids if uuid not in found]


def _is_pending_graph(parent: str, data: Data) -> bool:
    return is_graph(parent) and decode_mark(data.data).due is not None
