"""Jobs in the trash that hold up others: those wait for them, until somebody brings them back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jobboard.backends.outcomes import has_children
from jobboard.backends.rows import JobRow
from jobboard.board import JobBoard, client_of
from jobboard.client import BackendClient
from jobboard.graph.blocked import Wait, wait_of
from jobboard.operate.restoring import holder_of_key
from jobboard.operate.why_missed import missed_waiting

#: How many jobs of the trash that have children are looked at closely, and how many children of each: two requests, and
#: a third one for a job with a key. Of the others the first child is looked at: two requests for all of them.
MAX_PARENTS, MAX_CHILDREN = 5, 100
#: How many pages of children are read where all of them are gone, as those of a fan-out that was given up.
_MAX_PAGES = 20


@dataclass(frozen=True, slots=True)
class FailedParent:
    """A job in the trash for which others wait.

    :ivar waiting: those that wait of its first :data:`MAX_CHILDREN` children, or of its first one.
    :ivar has_more: whether it has more.
    :ivar is_deep: whether others were posted to wait for those in turn, which are not counted.
    :ivar holder: the live job that has its key, so that it can't be restored; of the first :data:`MAX_PARENTS` only.
    :ivar has_missed: whether some of these wait in the trash, since they had not begun by the moment of ``start_by``.
    """

    uuid: str
    name: str
    key: str | None
    reason: str | None
    waiting: frozenset[str]
    has_more: bool
    is_deep: bool
    holder: JobRow | None
    has_missed: bool = False


def failed_parents(board: JobBoard, trashed: Sequence[JobRow]) -> Iterator[FailedParent]:
    """Yield those of these jobs in the trash for which others wait: no request if none of them ever had children.

    One that only had not begun in time, since it waits for others, is not the cause, and is left out.

    :raises BoardUnavailable: the store can't be reached.
    """
    client = client_of(board)
    parents = [row for row in trashed if has_children(row) and not missed_waiting(row)]
    for parent in parents[:MAX_PARENTS]:
        children, has_more = _first_children(client, parent.uuid)
        if any(map(_waits, children)):
            yield _failed_parent(parent, children, has_more, holder_of_key(board, parent.name, parent.key))
    for parent, children, has_more in _with_first_child(client, parents[MAX_PARENTS:]):
        if any(map(_waits, children)):
            yield _failed_parent(parent, children, has_more, None)


def _waits(row: JobRow) -> bool:
    return wait_of(row) is Wait.PARENTS or missed_waiting(row)


def _failed_parent(parent: JobRow, children: Sequence[JobRow], has_more: bool, holder: JobRow | None) -> FailedParent:
    waiting = [row for row in children if _waits(row)]
    return FailedParent(
        parent.uuid,
        parent.name,
        parent.key,
        parent.reason,
        frozenset(row.uuid for row in waiting),
        has_more,
        any(map(has_children, waiting)),
        holder,
        any(map(missed_waiting, waiting)),
    )


def _with_first_child(client: BackendClient, parents: Sequence[JobRow]) -> Iterator[tuple[JobRow, list[JobRow], bool]]:
    """Yield jobs with their first child, if that is there, and whether they have more."""
    for part in client.batches(parents):
        pages = client.call(client.backend.edges.first_children, [row.uuid for row in part], 2)
        first = [page.edges[0].child if page.edges else None for page in pages]
        uuids = list(dict.fromkeys(uuid for uuid in first if uuid is not None))
        rows = dict(zip(uuids, client.call(client.backend.jobs.read, uuids), strict=True)) if uuids else {}
        for parent, uuid, page in zip(part, first, pages, strict=True):
            row = None if uuid is None else rows[uuid]
            yield parent, [] if row is None else [row], len(page.edges) > 1 or page.cursor is not None


def _first_children(client: BackendClient, parent: str) -> tuple[list[JobRow], bool]:
    """Return the first children of a job, and whether it has more; pages of jobs that are gone are passed over."""
    cursor, found = None, list[JobRow]()
    for _ in range(_MAX_PAGES):
        page = client.call(client.backend.edges.children, parent, cursor, MAX_CHILDREN)
        uuids, cursor = [edge.child for edge in page.edges], page.cursor
        rows = [row for part in client.batches(uuids) for row in client.call(client.backend.jobs.read, part)]
        found = [row for row in rows if row is not None]
        if found or cursor is None:
            break
    return found, cursor is not None
