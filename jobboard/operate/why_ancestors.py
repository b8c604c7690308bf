"""Which job in the trash a job waits for by others: its parents wait for it, or their parents do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jobboard.backends.edge_rows import EdgeRow, Outcome
from jobboard.backends.rows import IfFailed, JobRow
from jobboard.board import client_of
from jobboard.graph.blocked import Wait, wait_of

if TYPE_CHECKING:
    from jobboard.board import JobBoard

#: How many levels above the parents are looked at, how many jobs of each, and of how many jobs the parents are read.
MAX_LEVELS, MAX_WIDTH, MAX_LOOKS = 10, 100, 50
#: How many jobs in the trash are named.
MAX_NAMED = 3


def failed_ancestors(board: JobBoard, row: JobRow) -> list[EdgeRow]:
    """Return the edges to jobs in the trash that keep the parents of a job waiting; those of the nearest level only.

    Two requests a level, and one for each job whose parents are read: 73 at most, three if no parent waits for others.
    """
    search = _Search(board, row)
    level = search.waiting_parents([row])
    for _ in range(MAX_LEVELS):
        if not level or (failed := search.failed_parents(level)):
            return failed if level else []
        level = search.waiting_parents(level)
    return []


class _Search:
    """Goes from children to parents, and meets no job twice."""

    def __init__(self, board: JobBoard, row: JobRow) -> None:
        self._client = client_of(board)
        self._seen = {row.uuid}
        self._looks = MAX_LOOKS

    def waiting_parents(self, rows: Sequence[JobRow]) -> list[JobRow]:
        """Return those parents of these jobs that wait for their own parents."""
        met = dict.fromkeys(edge.parent for edge in self._edges(rows, Outcome.OPEN) if edge.parent not in self._seen)
        uuids = list(met)[:MAX_WIDTH]
        self._seen.update(uuids)
        parents = self._client.call(self._client.backend.jobs.read, uuids) if uuids else []
        return [parent for parent in parents if parent is not None and wait_of(parent) is Wait.PARENTS]

    def failed_parents(self, rows: Sequence[JobRow]) -> list[EdgeRow]:
        """Return the edges to parents in the trash, of those jobs that wait for these to come back."""
        waiting = [row for row in rows if row.ties is not None and row.ties.if_failed is IfFailed.WAIT]
        if not waiting:
            return []
        counts = self._client.call(self._client.backend.edges.counts, [row.uuid for row in waiting])
        held_up = [row for row, count in zip(waiting, counts, strict=True) if count.failed]
        edges = {edge.parent: edge for edge in self._edges(held_up[:MAX_NAMED], Outcome.FAILED)}
        return list(edges.values())[:MAX_NAMED]

    def _edges(self, rows: Sequence[JobRow], outcome: Outcome) -> Iterator[EdgeRow]:
        for row in rows[: self._looks]:
            self._looks -= 1
            page = self._client.call(self._client.backend.edges.parents, row.uuid, None, MAX_WIDTH)
            yield from (edge for edge in page.edges if edge.outcome is outcome)
