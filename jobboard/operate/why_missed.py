"""What a job still waited for that had not begun in time: it is in the trash, and so may be those it waited for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from jobboard.backends.edge_rows import EdgeRow, Outcome
from jobboard.backends.reasons import MISSED
from jobboard.backends.rows import JobRow
from jobboard.board import client_of
from jobboard.client.edge_reading import parents_of_each
from jobboard.graph.blocked import Wait, wait_of
from jobboard.naming import named
from jobboard.operate.reason import Reason
from jobboard.operate.restoring import holder_of_key, way_back
from jobboard.states import LIVE, JobState
from jobboard.text import in_one_line

if TYPE_CHECKING:
    from jobboard.board import JobBoard

#: How many levels are looked at, how many jobs of each, and how many edges to find them.
MAX_LEVELS, MAX_WIDTH, MAX_EDGES = 10, 100, 10_000
#: How many jobs are named.
MAX_NAMED = 3


def missed_waiting(row: JobRow) -> bool:
    """Whether a job is in the trash since it had not begun in time, and waited for parents then as it does now."""
    return row.state is JobState.TRASHED and row.reason == MISSED and row.ties is not None and row.ties.has_parents


def why_missed(board: JobBoard, row: JobRow) -> Iterator[Reason]:
    """Yield what such a job waits for over all levels: what is in the trash for another cause, and else what is live.

    Kinds: ``parent_failed``, ``parents``. Two requests a level, of ten at most, and one for each 100 parents of a job
    that has more than 20; one for each of three jobs that has a key.
    """
    failed, live = _causes(board, row)
    for one in failed[:MAX_NAMED]:
        yield _failed(board, one)
    if len(failed) > MAX_NAMED:
        yield Reason("parent_failed", f"{len(failed) - MAX_NAMED:,} more jobs for which it waits are in the trash.")
    if live and not failed:
        listed = [f"{named(one)}, which is {one.state.value.lower()}" for one in live[:MAX_NAMED]]
        more = f" and {len(live) - MAX_NAMED:,} more" if len(live) > MAX_NAMED else ""
        cure = f"Bring it back, to run once they have ended, with: jobboard restore {row.uuid}"
        yield Reason("parents", f"It still waits for {'; '.join(listed)}{more}.", cure)


def _failed(board: JobBoard, row: JobRow) -> Reason:
    reason = in_one_line(row.reason or "no reason was given")
    taken, cure = way_back(row.uuid, holder_of_key(board, row.name, row.key))
    text = f"It still waits for {named(row)}, which is in the trash: {reason}. {taken}".rstrip()
    return Reason("parent_failed", text, f"{cure} --with-children", row.uuid)


def _causes(board: JobBoard, row: JobRow) -> tuple[list[JobRow], list[JobRow]]:
    """Return the jobs in the trash that keep others from running, and those that may run, the nearest first."""
    failed, live = list[JobRow](), list[JobRow]()
    level, seen = [row.uuid], {row.uuid}
    for _ in range(MAX_LEVELS):
        parents = _parents(board, level, seen)
        seen.update(parent.uuid for parent in parents)
        level = []
        for parent in parents:
            if missed_waiting(parent) or wait_of(parent) is Wait.PARENTS:
                level.append(parent.uuid)
            elif parent.state is JobState.TRASHED:
                failed.append(parent)
            elif parent.state in LIVE:
                live.append(parent)
        if not level:
            break
    return failed, live


def _parents(board: JobBoard, uuids: Sequence[str], seen: set[str]) -> list[JobRow]:
    """Return the jobs for which these wait, but those that were seen."""
    client = client_of(board)
    met = dict.fromkeys(edge.parent for edge in _edges(board, uuids) if edge.parent not in seen)
    rows = client.call(client.backend.jobs.read, list(met)[:MAX_WIDTH]) if met else []
    return [row for row in rows if row is not None]


def _edges(board: JobBoard, uuids: Sequence[str]) -> Iterator[EdgeRow]:
    client = client_of(board)
    found = parents_of_each(client.call, client.backend.edges, uuids)
    edges = islice((edge for _, edges in found for edge in edges), MAX_EDGES)
    yield from (edge for edge in edges if edge.outcome in (Outcome.OPEN, Outcome.FAILED))
