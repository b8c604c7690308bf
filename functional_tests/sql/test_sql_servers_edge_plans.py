"""What edges and marks cost on each server: the same beside thousands of others, whatever the planner knows of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from harnesses.sql_site import Site
from test_sql_servers_plans import _connected, _pages_read, _rows_read

import jobboard
from jobboard import JobBoard, Posting
from jobboard.backends.sql import edge_statements, marks
from jobboard.backends.sql.mysql.transaction import MysqlTransaction
from jobboard.backends.sql.postgresql.transaction import PostgresqlTransaction
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import Transaction
from jobboard.testing.contract.edge_case import end_next, fan_in

pytest_plugins = ("harnesses.sql_fixtures",)

MANY = 5000
#: Of a child with many parents, and a parent with many children; ``p7`` and ``c7`` are in their midst.
_THERE: dict[str, Any] = {
    "parent": "parent", "child": "child", "last_child": "c7", "outcome": 1, "limit": 50, "size": 50, "after": "p7",
    "first": "c7", "last": "c71", "children": ["c7", "c70", "c71"], "parents": ["p7", "p8", "p9"], "name": "n",
    "is_cut": 0, "result": None, "now": 2e9,
}  # fmt: skip
STATEMENTS: dict[str, Statement] = {
    "how parents stand": edge_statements.STANDING,
    "the next children": edge_statements.NEXT_CHILDREN,
    "what children are told": edge_statements.RESOLVE,
    "edges that go": edge_statements.DELETE,
    "what is linked": edge_statements.LINKED,
    "a page of parents": edge_statements.PARENTS,
    "a page of children": edge_statements.CHILDREN,
    "marks of these": marks.LOCK_THESE,
    "marks that are left": marks.DUE_OF_THESE,
}


def _fill(site: Site, number: int, prefix: str) -> None:
    columns = f"{prefix}edges (board, parent, child, outcome, name, is_cut)"
    numbers = f"generate_series(1, {MANY}) AS n"
    for parent, child, outcome in (("'p' || n", "'child'", "n %% 2"), ("'parent'", "'c' || n", "0")):
        site.run(f"INSERT INTO {columns} SELECT {number}, {parent}, {child}, {outcome}, 'n', 0 FROM {numbers}")
    site.run(
        f"INSERT INTO {prefix}marks (board, parent, outcome, due_at, last_child, name, is_cut)"
        f" SELECT {number}, 'p' || n, 1, 1e9, '', 'n', 0 FROM {numbers}"
    )


def test_plans_that_were_made_for_no_edges_or_for_many_read_little(site: Site) -> None:
    if not site.is_postgresql:
        pytest.skip("each statement is planned anew there, and told its index")
    prefix = "edgeplans_"
    with jobboard.fetch("b", site.server.uri, prefix=prefix) as board:
        child = board.post("child")
        tables = ", ".join(f"{prefix}{table}" for table in ("jobs", "edges", "marks"))
        (number,) = site.run(f"SELECT id FROM {prefix}boards WHERE name = 'b'")[0]
        with _connected(board) as connection:
            reads = {what: _pages_read(connection, board, statement) for what, statement in STATEMENTS.items()}

            def dear() -> dict[str, int]:
                wanted = {**_THERE, "child": child.uuid, "uuids": [child.uuid]}
                costs = {
                    what: min(read({**wanted, "child": "child"} if "page" in what else wanted) for _ in range(2))
                    for what, read in reads.items()
                }
                return {what: cost for what, cost in costs.items() if cost >= 90}

            assert dear() == {}
            _fill(site, number, prefix)
            site.run(f"UPDATE {prefix}edges SET child = %s WHERE child = 'child'", child.uuid)
            assert dear() == {}
            site.run(f"ANALYZE {tables}")
            assert dear() == {}


CALLS: dict[str, Callable[[JobBoard], Any]] = {
    "the end of one of many parents": lambda board: end_next(board, "many"),
    "the end of one of three parents": lambda board: end_next(board, "three"),
    "a graph of four": lambda board: fan_in(board, 3, "new"),
}


def test_the_end_of_a_parent_reads_as_much_beside_many_others_on_mariadb(site: Site) -> None:
    if site.is_postgresql:
        pytest.skip("its plans are measured above")
    board = site.harness.board()

    def costs() -> dict[str, int]:
        fan_in(board, 3, "three")
        # The server counts for all clients, some of whom look at the journal meanwhile.
        return {what: min(_rows_read(site, partial(call, board)) for _ in range(3)) for what, call in CALLS.items()}

    fan_in(board, 20, "many")
    few = costs()
    fan_in(board, 1500, "many")
    many = costs()
    assert {what: (few[what], many[what]) for what in many if many[what] > few[what] + 500} == {}


def test_a_large_graph_reads_as_much_beside_many_jobs_on_mariadb(site: Site) -> None:
    """MariaDB makes a join of a list of a thousand uuids: it must find each by the index all the same."""
    if site.is_postgresql:
        pytest.skip("it has no counter of rows that are read")
    board = site.harness.board()
    few = _rows_read(site, lambda: fan_in(board, 1500, "first"))
    board.post_many([Posting("other") for _ in range(10_000)])
    assert _rows_read(site, lambda: fan_in(board, 1500, "later")) <= few + 3000


def test_a_graph_takes_as_many_statements_with_thousands_of_parents(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    def count(kind: type[Transaction], way: str) -> None:
        real = getattr(kind, way)

        def counted(self: Transaction, *args: Any, **kwargs: Any) -> Any:
            sent.append(way)
            return real(self, *args, **kwargs)

        monkeypatch.setattr(kind, way, counted)

    kind = PostgresqlTransaction if site.is_postgresql else MysqlTransaction
    for way in ("rows", "run", "run_many"):
        count(kind, way)
    board = site.harness.board()

    def ways(parents: int) -> list[str]:
        sent.clear()
        fan_in(board, parents, "part")
        return sent.copy()

    few = ways(3)
    assert "run_many" in few
    assert ways(2000) == few
