"""Reads the parents or the children of many jobs: the first ones of a hundred jobs by one request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from jobboard.backends.edge_rows import EdgePage, EdgeRow
from jobboard.backends.edge_store import EdgeStore
from jobboard.backends.rows import JobRow

#: Of how many jobs one request reads edges, and how many of each.
_JOBS, _FIRST = 100, 20
#: How many further edges of one job a request reads: those to parents come with their results.
_PARENTS, _CHILDREN = 100, 500
#: How many jobs are met at most beside those from which somebody goes along the edges of a graph.
MAX_JOBS = 10_000
#: How many edges of one job are read at most.
_MOST = 1_000_000

#: A job, and its edges in one direction; what is not taken of them is not read.
EdgesOfJob = tuple[str, Iterator[EdgeRow]]
ReadFirst = Callable[[Sequence[str], int], list[EdgePage]]
Read = Callable[[str, object | None, int], EdgePage]


def parents_of_each(call: Callable[..., Any], edges: EdgeStore, children: Sequence[str]) -> Iterator[EdgesOfJob]:
    """Iterate over some jobs and the edges to their parents; results may be missing.

    One request for a hundred jobs, and one for each hundred parents of a job that has more than twenty.

    :param call: sends a request until its answer is certain.
    """
    return _of_each(call, edges.first_parents, edges.parents, children, _PARENTS)


def children_of_each(call: Callable[..., Any], edges: EdgeStore, parents: Sequence[str]) -> Iterator[EdgesOfJob]:
    """Iterate over some jobs and the edges to their children.

    One request for a hundred jobs, and one for each 500 children of a job that has more than twenty.

    :param call: sends a request until its answer is certain.
    """
    return _of_each(call, edges.first_children, edges.children, parents, _CHILDREN)


def without_dropped(
    call: Callable[..., Any], edges: EdgeStore, rows: Mapping[str, JobRow | None]
) -> dict[str, JobRow | None]:
    """Return these jobs but those that were given up with a graph that was never complete: they never were.

    No request unless one of them is not there; else one for each hundred of these.

    :param call: sends a request until its answer is certain.
    """
    missing = [uuid for uuid, row in rows.items() if row is None]
    dropped = set[str]()
    for at in range(0, len(missing), _JOBS):
        some = missing[at : at + _JOBS]
        dropped.update(uuid for uuid, never in zip(some, call(edges.dropped, some), strict=True) if never)
    return {uuid: row for uuid, row in rows.items() if uuid not in dropped}


def _of_each(
    call: Callable[..., Any], read_first: ReadFirst, read: Read, uuids: Sequence[str], size: int
) -> Iterator[EdgesOfJob]:
    for at in range(0, len(uuids), _JOBS):
        some = uuids[at : at + _JOBS]
        for uuid, first in zip(some, call(read_first, some, _FIRST), strict=True):
            yield uuid, chain(first.edges, _rest(call, read, uuid, size, first.cursor))


def _rest(call: Callable[..., Any], read: Read, uuid: str, size: int, cursor: object | None) -> Iterator[EdgeRow]:
    for _ in range(_MOST // size):
        if cursor is None:
            return
        page = call(read, uuid, cursor, size)
        yield from page.edges
        cursor = page.cursor
