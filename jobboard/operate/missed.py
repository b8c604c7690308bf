"""Jobs in the trash that had not begun in time, and wait for others still: those of a job that failed belong to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jobboard.backends.rows import JobRow
from jobboard.board import JobBoard, client_of
from jobboard.operate.held_up import FailedParent
from jobboard.operate.why_missed import missed_waiting

#: How many parents of each are read.
_MAX_PARENTS = 20


@dataclass(frozen=True, slots=True)
class Missed:
    """A job in the trash that had not begun by the moment of ``start_by``, and waits for others still.

    :ivar is_below: whether a job for which it waits, over all levels, is told of as one that failed.
    """

    uuid: str
    name: str
    key: str | None
    is_below: bool


def missed_of(board: JobBoard, trashed: Sequence[JobRow], failed: Iterable[FailedParent]) -> tuple[Missed, ...]:
    """Return those of these jobs in the trash: one request for each hundred if there are any.

    :raises BoardUnavailable: the store can't be reached.
    """
    client, rows = client_of(board), [row for row in trashed if missed_waiting(row)]
    children: dict[str, list[str]] = {}
    for part in client.batches(rows):
        pages = client.call(client.backend.edges.first_parents, [row.uuid for row in part], _MAX_PARENTS)
        for edge in (edge for page in pages for edge in page.edges):
            children.setdefault(edge.parent, []).append(edge.child)
    causes = list(failed)
    below = dict.fromkeys(uuid for cause in causes for uuid in (cause.uuid, *sorted(cause.waiting)))
    left = list(below)
    for uuid in left:
        new = [child for child in children.get(uuid, ()) if child not in below]
        below.update(dict.fromkeys(new))
        left += new
    return tuple(Missed(row.uuid, row.name, row.key, row.uuid in below) for row in rows)
