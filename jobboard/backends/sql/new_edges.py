"""New edges: between jobs that are posted and their parents, or between jobs that are on the board."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from jobboard.backends.edge_rows import EdgeRow, Outcome, is_graph
from jobboard.backends.edges import Ended
from jobboard.backends.outcomes import edge_to
from jobboard.backends.rows import JobRow, Ties
from jobboard.backends.sql import edge_statements
from jobboard.backends.sql.rows import SMALL_TYPES, columns_of, read_job
from jobboard.backends.sql.schema import OUTCOME_CODES
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import Transaction

#: Of such a parent the end, or the restore, is still to come.
_TO_COME = (Outcome.OPEN, Outcome.FAILED)


def lock(transaction: Transaction, uuids: Iterable[str]) -> dict[str, JobRow]:
    """Lock jobs that are to be parents, or a child of others, with as much of their results as goes with an edge.

    What the end of a parent reads comes after this transaction then: the row, or its lock, is the fence.
    """
    wanted = sorted(set(uuids))
    if not wanted:
        return {}
    if transaction.moves_others:
        return _locked(transaction, edge_statements.LOCK, wanted)
    found = _locked(transaction, edge_statements.LOCK_ROWS, wanted)
    # The snapshot of a user's transaction may be older than a job.
    younger = [uuid for uuid in wanted if uuid not in found]
    return found | _locked(transaction, edge_statements.LOCK, younger) if younger else found


def _locked(transaction: Transaction, statement: Statement, uuids: Sequence[str]) -> dict[str, JobRow]:
    rows = transaction.rows(statement, uuids=transaction.list_of(uuids))
    return {job.uuid: job for job in (read_job(JobRow, row, SMALL_TYPES) for row in rows)}


class NewEdges:
    """The edges that a step adds."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._edges: list[EdgeRow] = []
        #: Jobs on the board that have no children yet.
        self._parents: dict[str, JobRow] = {}

    def add(self, child: JobRow, parents: Sequence[JobRow], graph: str | None = None) -> Ended:
        """Add those of a child to its parents, each once, and to its graph; return how they stand."""
        edges = [edge_to(child.uuid, parent) for parent in parents]
        for edge, parent in zip(edges, parents, strict=True):
            if edge.outcome in _TO_COME and not is_parent(parent):
                parent.ties = replace(parent.ties or Ties(), has_children=True)
                self._parents[parent.uuid] = parent
        if graph is not None:
            edges.append(EdgeRow(child.uuid, graph, Outcome.OPEN))
        self._edges += edges
        return ended_of(edges)

    def write(self) -> None:
        """Write them, and let their parents know."""
        parents = [self._parents[uuid] for uuid in sorted(self._parents)]
        with self._transaction.together():
            self._transaction.run_many(edge_statements.SET_TIES, [columns_of(parent) for parent in parents])
            self._transaction.run_many(edge_statements.ADD, [_row_of(edge) for edge in self._edges])


def is_parent(job: JobRow) -> bool:
    """Whether a job knows that it has children."""
    return job.ties is not None and job.ties.has_children


def ended_of(edges: Sequence[EdgeRow]) -> Ended:
    """Return how the parents of a job stand, given all of its edges."""
    examples = {edge.outcome: edge.parent for edge in edges if not is_graph(edge.parent)}
    graphs = {edge.outcome: edge.parent for edge in edges if is_graph(edge.parent)}
    return Ended(
        graphs.get(Outcome.OPEN) or examples.get(Outcome.OPEN),
        examples.get(Outcome.FAILED),
        examples.get(Outcome.GONE),
        Outcome.GONE in graphs,
    )


def standing_of(transaction: Transaction, jobs: Iterable[JobRow]) -> dict[str, Ended]:
    """Return how the parents of each of these jobs stand, by their uuids."""
    rows = transaction.rows(edge_statements.STANDING, uuids=transaction.list_of(job.uuid for job in jobs))
    return {
        uuid: Ended(open, failed, gone, is_dropped=gone is not None and is_graph(gone))
        for uuid, open, failed, gone in rows
    }


def _row_of(edge: EdgeRow) -> dict[str, Any]:
    return {
        "parent": edge.parent,
        "child": edge.child,
        "outcome": OUTCOME_CODES[edge.outcome],
        "name": edge.name,
        "is_cut": int(edge.is_cut),
        "result": edge.result,
    }
