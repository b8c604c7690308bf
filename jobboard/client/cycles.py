"""Finds jobs on the board that would wait for themselves, before anything of a graph is posted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from jobboard.backends.base import Backend
from jobboard.backends.edge_rows import EdgePage, Outcome
from jobboard.backends.edges import may_wait
from jobboard.backends.rows import JobRow, NewJob
from jobboard.errors import InvalidPosting

#: How many jobs that wait for parents are looked at, and how many edges one request reads.
_MAX_LOOKED, _PAGE = 1000, 500
#: Of how many jobs one request counts the parents.
_MAX_COUNTED = 100

#: How a parent stands that may wait for others still.
_NOT_OVER = (Outcome.OPEN, Outcome.FAILED)


class CycleSearch:
    """Goes up from the parents of a graph's jobs, before it is posted, and once more when all of its edges are there.

    So of two clients that link at the same moment, the one that looks later sees what both have linked.

    :param call: sends a request until its answer is certain.
    """

    def __init__(self, call: Callable[..., Any], backend: Backend) -> None:
        self._call, self._backend = call, backend

    def check(self, jobs: Sequence[NewJob], before: Sequence[tuple[str, str]]) -> None:
        """Check that no job which is to wait for one of the graph is itself one that the graph waits for.

        One request, and one for each job that waits for parents itself.

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
        for at in range(0, len(uuids), _MAX_COUNTED):
            some = uuids[at : at + _MAX_COUNTED]
            for uuid, counts in zip(some, self._call(self._backend.edges.counts, some), strict=True):
                if counts.open + counts.done + counts.failed + counts.gone > len(own[uuid]):
                    own[uuid] = list(self._parents_of(uuid))
        self._check(own, before)

    def _check(self, own: Mapping[str, Collection[str]], before: Sequence[tuple[str, str]]) -> None:
        parents: dict[str, list[str]] = {}
        for child, parent in before:
            parents.setdefault(child, []).append(parent)
        for child, linked in parents.items():
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
            found = {parent for uuid in waiting for parent in self._parents_of(uuid)} - seen

    def _rows(self, uuids: Sequence[str]) -> Iterator[JobRow]:
        size = self._backend.capabilities.largest_batch
        for at in range(0, len(uuids), size):
            rows: list[JobRow | None] = self._call(self._backend.jobs.read, uuids[at : at + size])
            yield from (row for row in rows if row is not None)

    def _parents_of(self, uuid: str) -> Iterator[str]:
        cursor: object | None = None
        while True:
            page: EdgePage = self._call(self._backend.edges.parents, uuid, cursor, _PAGE)
            yield from (edge.parent for edge in page.edges if edge.outcome in _NOT_OVER)
            cursor = page.cursor
            if cursor is None:
                return


def _ancestors(own: Mapping[str, Collection[str]], some: Collection[str]) -> set[str]:
    """Return some jobs of a graph, all that they wait for in it, and what that waits for."""
    seen, left = set(some), list(some)
    while left:
        more = set(own.get(left.pop(), ())) - seen
        seen |= more
        left += more
    return seen
