"""Finds jobs on the board that wait for each other, which no end of any job lets go.

A post that would make such a cycle is refused. But transactions of users do not see each other's jobs, and earlier
versions did not look once more after they had linked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat

from jobboard.backends.edge_rows import Outcome
from jobboard.backends.outcomes import has_children
from jobboard.backends.rows import JobRow
from jobboard.client.client import BackendClient
from jobboard.client.edge_reading import children_of_each
from jobboard.states import JobState

#: Of how many jobs, and of how many generations, the children are looked at.
_MAX_LOOKED, _MAX_GENERATIONS = 10_000, 100
#: How many jobs one request reads.
_PAGE = 500
#: How many jobs of a cycle are named.
_MAX_NAMED = 10

_WAITING = (JobState.BLOCKED, JobState.DELAYED)


class WaitingCycles:
    """Goes down from parents to children: these edges have no results, and one request asks of many parents."""

    def __init__(self, client: BackendClient) -> None:
        self._client = client

    def all(self) -> list[list[str]]:
        """Return the jobs of each cycle, by their uuids; a job is in one of them at most.

        Reads all jobs that wait, and by one request the children of a hundred of those that have parents, too.
        """
        between = {row.uuid for row in self._waiting() if has_children(row)}
        some = sorted(between)[:_MAX_LOOKED]
        children = {parent: between.intersection(found) for parent, found in self._children_of(some)}
        cycles = []
        while cycle := _any_cycle(children):
            cycles.append(cycle)
            for uuid in cycle:
                del children[uuid]
        return cycles

    def of(self, uuid: str) -> list[str] | None:
        """Return the jobs of a cycle that begins with this one; None if there is none, or it is too large to be found.

        One request for each generation of those that wait for it, and for each hundred of a generation.
        """
        parent_of, generation = dict[str, str](), [uuid]
        for _ in range(_MAX_GENERATIONS):
            following = []
            for parent, children in self._children_of(generation):
                for child in children:
                    if child == uuid:
                        return _way(parent_of, uuid, parent)
                    if child not in parent_of:
                        parent_of[child] = parent
                        following.append(child)
            if not following or len(parent_of) > _MAX_LOOKED:
                return None
            generation = following
        return None

    def _waiting(self) -> Iterator[JobRow]:
        pages = self._client.pages(repeat(_PAGE), self._client.backend.jobs.page, _WAITING, None)
        rows = chain.from_iterable(page.rows for page in pages)
        return (row for row in rows if row.ties is not None and row.ties.has_parents)

    def _children_of(self, parents: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
        """Iterate over some jobs and the children of each that wait for it."""
        for parent, edges in children_of_each(self._client.call, self._client.backend.edges, parents):
            yield parent, [edge.child for edge in edges if edge.outcome is Outcome.OPEN]


def _any_cycle(children: dict[str, set[str]]) -> list[str]:
    """Return the jobs of a cycle, [] if there is none; forget those of which no way leads into one."""
    parents: dict[str, list[str]] = {uuid: [] for uuid in children}
    for parent, found in children.items():
        found.intersection_update(children)
        for child in found:
            parents[child].append(parent)
    ends = [uuid for uuid, found in children.items() if not found]
    while ends:
        end = ends.pop()
        del children[end]
        for parent in parents[end]:
            children[parent].discard(end)
            if not children[parent]:
                ends.append(parent)
    return _walk(children) if children else []


def _walk(children: dict[str, set[str]]) -> list[str]:
    """Return a cycle, given jobs each of which has a child among them."""
    at, way = min(children), dict[str, None]()
    while at not in way:
        way[at] = None
        at = min(children[at])
    names = list(way)
    return names[names.index(at) :]


def _way(parent_of: dict[str, str], first: str, last: str) -> list[str]:
    way = [last]
    while way[-1] != first:
        way.append(parent_of[way[-1]])
    return way[::-1]


def told(cycle: Sequence[str]) -> str:
    """Return what is wrong with a job of a cycle: how a sentence about it goes on."""
    return f"waits for itself: each of these jobs waits for the one before it: {shown(cycle)}"


def shown(cycle: Sequence[str]) -> str:
    """Return a cycle for people."""
    named = " -> ".join(cycle[:_MAX_NAMED])
    more = f" -> ({len(cycle) - _MAX_NAMED:,} more)" if len(cycle) > _MAX_NAMED else ""
    return f"{named}{more} -> {cycle[0]}"
