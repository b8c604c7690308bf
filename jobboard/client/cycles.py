"""Finds jobs on the board that would wait for themselves, before anything of a graph is posted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from jobboard.backends.base import Backend
from jobboard.backends.edge_rows import Outcome
from jobboard.backends.edges import may_wait
from jobboard.backends.rows import JobRow, NewJob
from jobboard.client.edge_reading import parents_of_each
from jobboard.errors import InvalidPosting

#: How many jobs that wait for parents are looked at.
_MAX_LOOKED = 1000
#: Of how many jobs one request counts the parents.
_MAX_COUNTED = 100

#: How a parent stands that may wait for others still.
_NOT_OVER = (Outcome.OPEN, Outcome.FAILED)


def parents_by_child(before: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Group pairs of a child and a parent."""
    parents: dict[str, list[str]] = {}
    for child, parent in before:
        parents.setdefault(child, []).append(parent)
    return parents


class CycleSearch:
    """Goes up from the parents of a graph's jobs, before it is posted, and once more when all of its edges are there.

    So of two clients that link at the same moment, the one that looks later sees what both have linked.

    :param call: sends a request until its answer is certain.
    """

    def __init__(self, call: Callable[..., Any], backend: Backend) -> None:
        self._call, self._backend = call, backend

    def check(self, jobs: Sequence[NewJob], before: Sequence[tuple[str, str]]) -> None:
        """Check that no job which is to wait for one of the graph is itself one that the graph waits for.

        One request for each hundred jobs that the graph waits for, and one for each hundred of these that wait for
        parents themselves, over all levels.

        :param before: (child, parent) for each job on the board that is to wait for one of them.
        :raises InvalidPosting: there is one, or there are too many jobs to be sure.
        """
        self._check({new.uuid: new.parents for new in jobs}, before)

    def check_again(self, jobs: Sequence[NewJob], before: Sequence[tuple[str, str]]) -> None:
        """Check it of jobs that are posted by now, and may wait for more than they were posted with.

        One request more for each hundred of them.

        :raises InvalidPosting: as by :meth:`check`.
        """
        own: dict[str, Collection[str]] = {new.uuid: new.parents for new in jobs}
        uuids = list(own)
        linked: list[str] = []
        for at in range(0, len(uuids), _MAX_COUNTED):
            some = uuids[at : at + _MAX_COUNTED]
            for uuid, counts in zip(some, self._call(self._backend.edges.counts, some), strict=True):
                if counts.open + counts.done + counts.failed + counts.gone > len(own[uuid]):
                    linked.append(uuid)
        own.update(self._parents_of(linked))
        self._check(own, before)

    def _check(self, own: Mapping[str, Collection[str]], before: Sequence[tuple[str, str]]) -> None:
        for child, linked in parents_by_child(before).items():
            self._go_up(child, {each for each in _ancestors(own, linked) if each not in own})

    def _go_up(self, child: str, found: set[str]) -> None:
        seen: set[str] = set()
        left = _MAX_LOOKED
        while found:
            if child in found:
                raise InvalidPosting(
                    f"job {child}, and what is to be done before it, wait for each other", path="before"
                )
            seen |= found
            waiting = [row.uuid for row in self._rows(sorted(found)) if may_wait(row)]
            left -= len(waiting)
            if left < 0:
                raise InvalidPosting(
                    f"whether job {child} would wait for itself can't be said: more than {_MAX_LOOKED} jobs that wait "
                    "for others go before it",
                    path="before",
                )
            found = {parent for _, parents in self._parents_of(waiting) for parent in parents} - seen

    def _rows(self, uuids: Sequence[str]) -> Iterator[JobRow]:
        size = self._backend.capabilities.largest_batch
        for at in range(0, len(uuids), size):
            rows: list[JobRow | None] = self._call(self._backend.jobs.read, uuids[at : at + size])
            yield from (row for row in rows if row is not None)

    def _parents_of(self, uuids: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
        """Iterate over some jobs and the parents of each that may wait for others still."""
        for uuid, edges in parents_of_each(self._call, self._backend.edges, uuids):
            yield uuid, [edge.parent for edge in edges if edge.outcome in _NOT_OVER]


def _ancestors(own: Mapping[str, Collection[str]], some: Collection[str]) -> set[str]:
    """Return some jobs of a graph, all that they wait for in it, and what that waits for."""
    seen, left = set(some), list(some)
    while left:
        more = set(own.get(left.pop(), ())) - seen
        seen |= more
        left += more
    return seen
