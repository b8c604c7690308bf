"""The edges between parents and children in SQL, and graphs."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from jobboard.backends import edge_store
from jobboard.backends.edge_rows import EdgeCounts, EdgePage, EdgeRow, LinkOutcome, graph_of_parent
from jobboard.backends.edges import link, refused_link, takes_parents
from jobboard.backends.outcomes import was_dropped
from jobboard.backends.rows import Fence, Verdict
from jobboard.backends.sql import edge_statements, job_statements, marks, new_edges
from jobboard.backends.sql.database import Transactions
from jobboard.backends.sql.expiry import expire_and_promote
from jobboard.backends.sql.new_edges import NewEdges, standing_of
from jobboard.backends.sql.reading import up_to_date
from jobboard.backends.sql.resolving import ending, resolve
from jobboard.backends.sql.rows import job_of
from jobboard.backends.sql.schema import OUTCOMES
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.transitions import save


class Edges(edge_store.EdgeStore):
    """Link, seal, drop, resolve; read parents and children."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def link(self, child: str, parents: Sequence[str], fence: Fence | None = None) -> LinkOutcome:
        with ending(self._transactions) as transaction:
            expire_and_promote(transaction)
            return _link(transaction, child, list(dict.fromkeys(parents)), fence)

    def seal(self, graph: str) -> Verdict:
        with ending(self._transactions) as transaction:
            return marks.seal(transaction, graph)

    def drop(self, graph: str) -> None:
        with ending(self._transactions) as transaction:
            marks.drop(transaction, graph)

    def resolve(self, parents: Sequence[str]) -> list[str]:
        return resolve(self._transactions, parents)

    def parents(self, child: str, cursor: object | None, size: int) -> EdgePage:
        return self._parents(edge_statements.PARENTS, [child], cursor, size)[0]

    def first_parents(self, children: Sequence[str], size: int) -> list[EdgePage]:
        return self._parents(edge_statements.PARENTS_ALONE, children, None, size) if children else []

    def _parents(self, wanted: Statement, children: Sequence[str], cursor: object | None, size: int) -> list[EdgePage]:
        after = str(cursor or "")
        each = [
            {"child": child, "outcome": code, "after": after, "size": size} for child in children for code in OUTCOMES
        ]
        with up_to_date(self._transactions) as transaction:
            rows = transaction.rows_of_each([wanted], each)
        edges: dict[str, list[EdgeRow]] = {child: [] for child in children}
        for child, parent, outcome, name, *more in rows:
            result, is_cut = more or (None, False)
            edges[child].append(EdgeRow(child, parent, OUTCOMES[outcome], name, result, bool(is_cut)))
        firsts = [heapq.nsmallest(size, its, key=lambda edge: edge.parent) for its in edges.values()]
        return [EdgePage(its, its[-1].parent if len(its) == size else None) for its in firsts]

    def children(self, parent: str, cursor: object | None, size: int) -> EdgePage:
        return self._children([parent], cursor, size)[0]

    def first_children(self, parents: Sequence[str], size: int) -> list[EdgePage]:
        return self._children(parents, None, size) if parents else []

    def _children(self, parents: Sequence[str], cursor: object | None, size: int) -> list[EdgePage]:
        each = [{"parent": parent, "after": str(cursor or ""), "size": size} for parent in parents]
        with up_to_date(self._transactions) as transaction:
            rows = transaction.rows_of_each([edge_statements.CHILDREN], each)
        edges: dict[str, list[EdgeRow]] = {parent: [] for parent in parents}
        for child, parent, outcome, name in rows:
            edges[parent].append(EdgeRow(child, parent, OUTCOMES[outcome], name))
        return [EdgePage(its, its[-1].child if len(its) == size else None) for its in edges.values()]

    def counts(self, children: Sequence[str]) -> list[EdgeCounts]:
        found: dict[str, dict[str, int]] = {}
        with up_to_date(self._transactions) as transaction:
            rows = transaction.rows(edge_statements.COUNTS, children=transaction.list_of(children)) if children else []
        for child, outcome, number in rows:
            found.setdefault(child, {})[OUTCOMES[outcome].value] = number
        return [EdgeCounts(**found.get(child, {})) for child in children]

    def graphs(self, children: Sequence[str]) -> list[str | None]:
        if not children:
            return []
        with up_to_date(self._transactions) as transaction:
            rows = transaction.rows(edge_statements.OPEN_GRAPHS, children=transaction.list_of(children))
        found: dict[str, str] = {child: graph_of_parent(parent) for child, parent in rows}
        return [found.get(child) for child in children]

    def dropped(self, uuids: Sequence[str]) -> list[bool]:
        with up_to_date(self._transactions) as transaction:
            rows = transaction.rows(job_statements.FIND_MANY, uuids=transaction.list_of(uuids)) if uuids else []
        found = {job.uuid: job for job in map(job_of, rows)}
        return [was_dropped(found.get(uuid)) for uuid in uuids]


def _link(transaction: Transaction, child: str, parents: list[str], fence: Fence | None) -> LinkOutcome:
    jobs = new_edges.lock(transaction, [child, *parents])
    job = jobs.get(child)
    if job is None or any(parent not in jobs for parent in parents):
        return LinkOutcome.MISSING
    rows = transaction.rows(edge_statements.LINKED, child=child, parents=transaction.list_of(parents))
    missing = [parent for parent in parents if (parent,) not in rows]
    if not missing:
        return LinkOutcome.REPEATED
    if not takes_parents(job, fence):
        return refused_link(fence)
    edges = NewEdges(transaction)
    ended = edges.add(job, [jobs[parent] for parent in missing])
    edges.write()
    if ended.failed is not None or ended.gone is not None or fence is not None:
        change = link(job, standing_of(transaction, [job])[child], transaction.now)
        save(transaction, [] if change is None else [(job, change)])
    return LinkOutcome.DONE
