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

#: How many jobs of the trash that have children are looked at, and how many children of each: two requests, and a
#: third one for a job with a key.
MAX_PARENTS, MAX_CHILDREN = 5, 100
#: How many pages of children are read where all of them are gone, as those of a fan-out that was given up.
_MAX_PAGES = 20


@dataclass(frozen=True, slots=True)
class FailedParent:
    """A job in the trash for which others wait.

    :ivar waiting: those of its first :data:`MAX_CHILDREN` children that wait.
    :ivar has_more: whether it has more.
    :ivar is_deep: whether others were posted to wait for those in turn, which are not counted.
    :ivar holder: the live job that has its key, so that it can't be restored.
    """

    uuid: str
    name: str
    key: str | None
    reason: str | None
    waiting: frozenset[str]
    has_more: bool
    is_deep: bool
    holder: JobRow | None


def failed_parents(board: JobBoard, trashed: Sequence[JobRow]) -> Iterator[FailedParent]:
    """Yield those of these jobs in the trash for which others wait: no request if none of them ever had children.

    :raises BoardUnavailable: the store can't be reached.
    """
    client = client_of(board)
    parents = [row for row in trashed if has_children(row)]
    for parent in parents[:MAX_PARENTS]:
        children, has_more = _first_children(client, parent.uuid)
        waiting = [row for row in children if wait_of(row) is Wait.PARENTS]
        is_deep = any(map(has_children, waiting))
        if waiting:
            holder = holder_of_key(board, parent.name, parent.key)
            which = parent.uuid, parent.name, parent.key, parent.reason
            yield FailedParent(*which, frozenset(row.uuid for row in waiting), has_more, is_deep, holder)


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
