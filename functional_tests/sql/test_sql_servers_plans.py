"""What the statements cost on each server: the pages that PostgreSQL reads, the rows that MariaDB reads."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg.sql
import pytest
from harnesses.sql_site import Site

import jobboard
from jobboard import Every, JobBoard, JobState, Schedule
from jobboard.backends.sql import (
    admin_statements,
    audit,
    job_statements,
    journal_statements,
    schedules,
)
from jobboard.backends.sql.mysql import fast_statements as mysql
from jobboard.backends.sql.postgresql import claiming as postgresql_claims
from jobboard.backends.sql.postgresql import fast_path as postgresql
from jobboard.backends.sql.postgresql.pages import page_of
from jobboard.backends.sql.schema import CLAIMED, DELAYED, PLACES_OF_A_RANK, STATES, UNCLAIMED
from jobboard.backends.sql.statement import Statement

pytest_plugins = ("harnesses.sql_fixtures",)
pytestmark = pytest.mark.in_turn(1)

#: What finds one job, a few or a page; what only one kind of server runs has its name before it.
STATEMENTS: dict[str, Statement] = {
    "postgresql: claim_next": postgresql_claims.CLAIM_NEXT,
    "postgresql: claim_next of names": postgresql_claims.CLAIM_NEXT_OF_NAMES,
    "postgresql: whether to wait": postgresql.READY_IN,
    "postgresql: whether to wait for names": postgresql.READY_IN_OF_NAMES,
    "postgresql: consume": postgresql.CONSUME,
    "many": job_statements.FIND_MANY,
    "what was done": journal_statements.NOTES,
    "trimming": journal_statements.TRIM_HISTORY,
    "renewals": journal_statements.DROP_UNRECORDED,
    "lines of no job": journal_statements.FORGET_EVENTS,
    "pauses": admin_statements.PAUSES,
    "letting go": job_statements.PROMOTE.find,
    "the status": job_statements.STATUS,
    "postgresql: claim_next, the long way": job_statements.CLAIM_NEXT.at_once,
    "mysql: claim_next, the short way": mysql.HEADS,
    "mysql: claim_next of a name, the short way": mysql.HEADS_OF_NAME,
    "mysql: claim": mysql.CLAIM,
    "mysql: consume": mysql.CONSUME,
    "mysql: the first that is ready": mysql.FIRST,
    "mysql: the first of a name": mysql.FIRST_OF_NAME,
    "mysql: the first from a floor": mysql.FIRST_FROM_FLOOR,
    "mysql: the first of a name from a floor": mysql.FIRST_OF_NAME_FROM_FLOOR,
    "mysql: claim_next": job_statements.CLAIM_NEXT.find,
    "the heads of a name": job_statements.HEADS_OF_NAME,
    "the next ready names": job_statements.FIRST_OF_NEXT_NAMES,
    "the first that are ready": job_statements.FIRST_READY,
    "is anything ready": job_statements.IS_READY,
    "is a name ready": job_statements.IS_NAME_READY,
    "what is due": job_statements.OVERDUE,
    "the next due": job_statements.NEXT_DUE,
    "a fence": job_statements.LOCK,
    "fences": job_statements.LOCK_MANY,
    "a key": job_statements.FIND_KEY,
    "keys": job_statements.FIND_KEYS,
    "a replacement": job_statements.REPLACED_BY,
    "history": job_statements.HISTORY,
    "what is over": job_statements.OVER,
    "schedules that are due": schedules.DUE,
    "postgresql: the next schedule": schedules.NEXT_AFTER_NOW,
    "postgresql: a page of claimed jobs": page_of(frozenset({CLAIMED}), False),
    "postgresql: a page of a name's claimed jobs": page_of(frozenset({CLAIMED}), True),
    "postgresql: a page of a name's ready jobs": page_of(frozenset({UNCLAIMED}), True),
    "postgresql: a page of the claimed and the others": page_of(frozenset({DELAYED, UNCLAIMED, CLAIMED}), False),
    "postgresql: what is claimed under a request": job_statements.CLAIMED_UNDER,
    "postgresql: how many are on the board": job_statements.COUNT,
    "mysql: how many are on the board": job_statements.COUNT,
    **{
        f"postgresql: a page of {code}": page_of(frozenset({code}), is_by_name)
        for code in STATES
        for is_by_name in (False, True)
        if code not in (UNCLAIMED, CLAIMED)
    },
    **{f"mysql: a page of {code}": job_statements.PAGES[code].of_place for code in STATES},
    **{f"mysql: later pages of {code}": job_statements.PAGES[code].later for code in STATES},
}

#: Before the jobs of a normal priority.
_PLACE = -3 * PLACES_OF_A_RANK
_VALUES: dict[str, Any] = {
    "now": 1e9, "limit": 1, "size": 100, "place": _PLACE, "id": 1, "name": "resize", "uuid": "u", "uuids": ["u", "v"],
    "ids": [1, 2], "key": "k", "keys": ["k", "l"], "token": 1, "who": "alice", "claim_id": "c", "expiry": 30.0,
    "due_at": 2e9, "whos": ["alice"], "tokens": [1], "results": [None], "retentions": [60.0], "names": ["resize"],
    "ranks": [-3], "bodies": [b"."], "max_attempts": [None], "run_ats": [None], "delays": [None], "channel": "c",
    "kinds": ["CLAIMED"], "at": 1.0, "result": None, "retention": 60.0, "last": 0, "fences": ("u", 1, "alice"),
    "least_token": 1, "floor": _PLACE, "floors": [], "better": _PLACE, "mark": None, "due_floor": -1e300,
}  # fmt: skip


def cost_of(site: Site, board: JobBoard, statement: Statement, **there: Any) -> int:
    """Return how many pages, or on MariaDB rows, a statement about what is there reads; undo what it changes."""
    database: Any = board._backend.database  # type: ignore[attr-defined]
    dialect = database.driver.dialect
    sql, constants = statement.on(dialect)
    lists = {name: dialect.as_list(value) if not site.is_postgresql else value for name, value in _VALUES.items()
             if isinstance(value, list)}  # fmt: skip
    lists["fences"] = ((there.get("uuid"), 1, "alice"),)
    values = {**_VALUES, **lists, **there, **constants, "board": database.board}
    with database._borrow() as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        try:
            return (_pages_of if site.is_postgresql else _rows_of)(cursor, sql, values)
        finally:
            cursor.execute("ROLLBACK")


def _pages_of(cursor: Any, sql: str, values: dict[str, Any]) -> int:
    cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", values)
    (((plan,),),) = cursor.fetchall()
    return int(plan["Plan"]["Shared Hit Blocks"]) + int(plan["Plan"]["Shared Read Blocks"])


def _rows_of(cursor: Any, sql: str, values: dict[str, Any]) -> int:
    cursor.execute(f"SET @jobboard_now = 1e9, @jobboard_place = {_PLACE}, @jobboard_first = 1")
    cursor.execute("SET @jobboard_status = 0, @jobboard_has_floors = 1")
    cursor.execute("FLUSH STATUS")
    cursor.execute(sql, values)
    cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
    return sum(int(row[1]) for row in cursor.fetchall())


def _nodes(plan: Any) -> Iterator[dict[str, Any]]:
    if isinstance(plan, dict):
        yield plan
        plan = list(plan.values())
    if isinstance(plan, list):
        for part in plan:
            yield from _nodes(part)


#: A statement reads fewer pages or rows than this, and a scan of a board's jobs more.
_FEW = 30
#: Statements that read many jobs on purpose.
_MANY = {"the first that are ready": 510, "the next ready names": 110, "how many are on the board": 3200}


@pytest.fixture(params=["few", "mostly waiting", "mostly complete"])
def board(request: pytest.FixtureRequest, site: Site) -> JobBoard:
    """A board whose tables' statistics would mislead a planner in one way or another."""
    board = site.harness.board()
    # Lines of other boards' pauses, which are as many as the tests before this one left.
    site.run("DELETE FROM jobboard_journal WHERE job IS NULL")
    if request.param == "few":
        # Of a single job any index of its board is as good as another.
        site.fill(board, 100)
    # With few rows in the whole table, any index of one page is as good as another.
    site.fill(board if request.param != "few" else site.harness.board(), 3000)
    (number,) = site.run("SELECT id FROM jobboard_boards WHERE name = %s", board.name)[0]
    if request.param == "mostly complete":
        site.run("UPDATE jobboard_jobs SET state = 3, retain_until = 2e9 WHERE board = %s AND id %% 1000 <> 1", number)
    board.post("keyed", key="k")
    lines, of_these = "(board, job, kind, uuid, name, at, reason)", "FROM jobboard_jobs WHERE board >= %s"
    values = "board, id, 'REPLACED', uuid, name, 1e9, uuid"
    site.run(f"INSERT INTO jobboard_journal {lines} SELECT {values} {of_these}", number)
    into = "jobboard_schedules (board, id, version, next_at, body)"
    site.run(f"INSERT INTO {into} SELECT board, uuid, 'v', 9e9, '' {of_these}", number)
    board.schedules.add(Schedule("nightly", Every(days=1), "resize"))
    if site.is_postgresql:
        # While autovacuum analyzes the table, nobody else may drop index entries of rows that have changed since.
        site.run("ALTER TABLE jobboard_jobs SET (autovacuum_enabled = off)")
        site.run("VACUUM ANALYZE jobboard_jobs")
    site.run("ANALYZE" if site.is_postgresql else "ANALYZE TABLE jobboard_jobs, jobboard_journal, jobboard_schedules")
    return board


def test_no_statement_reads_more_than_it_needs_beside_thousands_of_jobs(site: Site, board: JobBoard) -> None:
    [job] = board.iterjobs(states=[JobState.UNCLAIMED], names=["keyed"])
    there = {"uuid": job.uuid, "id": job.sequence, "name": "keyed"}
    dear = {}
    for what, statement in STATEMENTS.items():
        if what.startswith("mysql:" if site.is_postgresql else "postgresql:"):
            continue
        wanted = {**there, "size": 5, "id": 0} if "page" in what else there
        # The first execution may also tidy what it passes.
        cost = min(cost_of(site, board, statement, **wanted) for _ in range(2))
        if cost > _MANY.get(what.partition(": ")[2] or what, _FEW):
            dear[what] = cost
    assert dear == {}


_FIFTY = [f"b{number}" for number in range(50)]
#: What is wanted of a name among others, and what is not there.
PLANNED_ONCE: dict[str, tuple[Statement, dict[str, Any]]] = {
    "claim_next": (postgresql_claims.CLAIM_NEXT, {}),
    "claim_next of names": (postgresql_claims.CLAIM_NEXT_OF_NAMES, {"names": ["b"]}),
    "claim_next of a name without jobs": (postgresql_claims.CLAIM_NEXT_OF_NAMES, {"names": ["b1"]}),
    "whether to wait for names": (postgresql.READY_IN_OF_NAMES, {"names": ["b"]}),
    "whether to wait for a name without jobs": (postgresql.READY_IN_OF_NAMES, {"names": ["b1"]}),
    "the heads of a name": (job_statements.HEADS_OF_NAME, {"name": "b"}),
    "the heads of a name without jobs": (job_statements.HEADS_OF_NAME, {"name": "b1"}),
    "the next ready names": (job_statements.FIRST_OF_NEXT_NAMES, {"name": "a"}),
    "the next ready names, of none": (job_statements.FIRST_OF_NEXT_NAMES, {"name": "c"}),
    "is a name ready": (job_statements.IS_NAME_READY, {"name": "b"}),
    "is a name without jobs ready": (job_statements.IS_NAME_READY, {"name": "b1"}),
    "a page of a name": (page_of(frozenset({UNCLAIMED}), True), {"names": ["b"], "id": 0}),
    "a page of a name without jobs": (
        page_of(frozenset({UNCLAIMED}), True),
        {"names": ["b1"], "place": -4 * PLACES_OF_A_RANK},
    ),
    "a page": (page_of(frozenset({DELAYED, UNCLAIMED, CLAIMED}), False), {"id": 0}),
    "a key": (job_statements.FIND_KEY, {"name": "a", "key": "k"}),
    "keys": (job_statements.FIND_KEYS, {"name": "a"}),
    "consume": (postgresql.CONSUME, {}),
    "a job": (job_statements.FIND, {}),
    "a lock": (job_statements.LOCK, {}),
    "many": (job_statements.FIND_MANY, {}),
    "many that are visible": (job_statements.FIND_MANY_VISIBLE, {}),
    "many that others locked": (job_statements.READ_LOCKED, {}),
    "locks": (job_statements.LOCK_MANY, {}),
    "locks of what is free": (job_statements.LOCK_FREE, {}),
    "what the new are numbered": (job_statements.SEQUENCES, {}),
    "to delete": (job_statements.DELETE, {}),
    "to claim the heads of names": (job_statements.CLAIM_HEADS.at_once, {}),
    "claim_next, the long way": (job_statements.CLAIM_NEXT.at_once, {}),
    "to let go": (job_statements.PROMOTE.at_once, {"now": 1e10}),
    "to let nothing go": (job_statements.PROMOTE.at_once, {}),
    "what is overdue": (job_statements.OVERDUE, {"now": 1e10}),
    "what is claimed under a request": (job_statements.CLAIMED_UNDER, {}),
    "a replacement": (job_statements.REPLACED_BY, {}),
    "what is over": (job_statements.OVER, {}),
    "a page of claimed jobs": (page_of(frozenset({CLAIMED}), False), {}),
    "to end": (job_statements.CONSUME, {"state": 3, "retain_until": 2e9}),
    "history": (job_statements.HISTORY, {}),
    "what was done": (journal_statements.NOTES, {}),
    "renewals": (journal_statements.DROP_UNRECORDED, {}),
    "renewals that stand": (journal_statements.EXTENDED_UNTIL, {}),
    "trimming": (journal_statements.TRIM_HISTORY, {}),
    "histories to delete": (journal_statements.DELETE_HISTORY, {}),
    "events": (journal_statements.EVENTS_OF, {}),
    "schedules": (schedules.READ, {"ids": ["s7", "s9"]}),
    "versions of schedules": (schedules.READ_VERSIONS, {"ids": ["s7", "s9"]}),
    "a schedule to delete": (schedules.DELETE, {"id": "s7"}),
    "a schedule to change": (schedules.CHANGE, {"id": "s7", "version": "v", "next_at": 9e9, "body": b""}),
    "schedules that are due": (schedules.DUE, {}),
    "the next schedule": (schedules.NEXT_AFTER_NOW, {}),
    "post": (postgresql.POST_WITH_KEYS, {"names": ["b"], "uuids": ["of no other"], "keys": ["of no other"]}),
}


def test_plans_that_were_made_for_an_empty_board_or_a_full_one_read_little(site: Site) -> None:
    if not site.is_postgresql:
        pytest.skip("each statement is planned anew there")
    prefix = f"p{uuid.uuid4().hex[:8]}_"
    with jobboard.fetch("b", site.server.uri, prefix=prefix) as board:
        tables = ", ".join(f"{prefix}{table}" for table in ("jobs", "journal", "schedules"))
        site.run(f"ANALYZE {tables}")
        with _connected(board) as connection:
            reads = {what: _pages_read(connection, board, statement) for what, (statement, _) in PLANNED_ONCE.items()}
            for what, read in reads.items():
                read(PLANNED_ONCE[what][1])
            _fill_with_three_names(site, board, prefix)
            there = _fill_with_the_rest(site, board, prefix)

            def dear() -> dict[str, int]:
                # The first execution may also make room for what it writes.
                costs = {
                    what: min(read(there | PLANNED_ONCE[what][1]) for _ in range(2)) for what, read in reads.items()
                }
                return {what: cost for what, cost in costs.items() if cost >= 40}

            assert dear() == {}
            # All is planned anew once statistics are.
            site.run(f"ANALYZE {tables}")
            assert dear() == {}


def test_a_claim_of_fifty_names_costs_beside_a_backlog_at_most_twice_what_it_costs_on_an_empty_board(
    site: Site,
) -> None:
    empty, full = site.harness.board(), site.harness.board()
    _fill_with_three_names(site, full)

    def cost(board: JobBoard) -> int:
        if not site.is_postgresql:
            return _rows_read(site, lambda: board.claim_next("alice", names=_FIFTY))
        with _connected(board) as connection:
            return _pages_read(connection, board, postgresql_claims.CLAIM_NEXT_OF_NAMES)({"names": _FIFTY})

    assert cost(full) <= 2 * cost(empty)


CALLS: dict[str, Callable[[JobBoard], Any]] = {
    "claim_next of a name": lambda board: board.claim_next("alice", names=["b"]),
    "claim_next of a name without jobs": lambda board: board.claim_next("alice", names=["b1"]),
    "claim_next of names": lambda board: board.claim_next("alice", names=["b", "b1", "b2"]),
    "whether to wait": lambda board: board._backend.waiter(frozenset({"b", "b1"})).ready_in(),
    "a page of a name": lambda board: next(board.iterjobs(names=["b"], states=[JobState.UNCLAIMED])),
}


def test_what_waits_under_other_names_is_not_read_on_mariadb(site: Site) -> None:
    if site.is_postgresql:
        pytest.skip("its plans are measured above")
    board = site.harness.board()
    _fill_with_three_names(site, board)
    # The server counts for all clients: a waiting board reads up to a hundred lines of the journal again and again.
    costs = {what: min(_rows_read(site, partial(call, board)) for _ in range(2)) for what, call in CALLS.items()}
    assert {what: cost for what, cost in costs.items() if cost >= 1000} == {}


def _fill_with_three_names(site: Site, board: JobBoard, prefix: str = "jobboard_") -> None:
    site.fill(board, 20_000, "a", prefix, is_keyed=True)
    site.fill(board, 5, "b", prefix)
    site.fill(board, 20_000, "c", prefix)


def _fill_with_the_rest(site: Site, board: JobBoard, prefix: str) -> dict[str, Any]:
    """Put a few claimed and delayed jobs, a long journal and many schedules there; return two of the jobs."""
    [(number,)] = site.run(f"SELECT id FROM {prefix}boards WHERE name = %s", board.name)
    site.fill(board, 4, "d", prefix)
    as_claimed = "state = 2, owner = 'alice', claim_id = 'c', due_at = 8e9"
    jobs = site.run(f"UPDATE {prefix}jobs SET {as_claimed} WHERE name = 'd' RETURNING id, uuid")
    site.run(f"UPDATE {prefix}jobs SET state = 0, due_at = 9e9 WHERE id = ANY(%s)", [jobs[0][0], jobs[1][0]])
    site.run(
        f"INSERT INTO {prefix}journal (board, job, kind, uuid, name, at)"
        f" SELECT board, id, 'POSTED', uuid, name, 1e9 FROM {prefix}jobs"
    )
    site.run(
        f"INSERT INTO {prefix}schedules (board, id, version, next_at, body)"
        f" SELECT {number}, 's' || number, 'v', 9e9, '' FROM generate_series(1, 20000) AS number"
    )
    ids, uuids = zip(*site.run(f"SELECT id, uuid FROM {prefix}jobs WHERE name = 'b' LIMIT 2"), strict=True)
    return {"uuid": uuids[0], "uuids": list(uuids), "id": ids[0], "ids": list(ids)}


def _rows_read(site: Site, call: Callable[[], Any]) -> int:
    """Return how many rows the server reads during a call."""
    read = [_rows_read_so_far(site) for _ in range(2)]
    call()
    read.append(_rows_read_so_far(site))
    # The question itself reads some.
    return (read[2] - read[1]) - (read[1] - read[0])


def _rows_read_so_far(site: Site) -> int:
    return sum(int(row[1]) for row in site.run("SHOW GLOBAL STATUS LIKE 'Handler%%read%%'"))


def test_a_long_journal_is_read_without_worker_processes(site: Site) -> None:
    if not site.is_postgresql:
        pytest.skip("there are none there")
    # What a journal of 100,000 lines does to a plan, a short one does too if workers seem to cost nothing.
    free = (
        "min_parallel_table_scan_size",
        "min_parallel_index_scan_size",
        "parallel_setup_cost",
        "parallel_tuple_cost",
    )
    done = _generic_plan(site.harness.board(), journal_statements.EVENTS, *(f"SET {name} = 0" for name in free))
    # Only a line without a uuid makes the server look for its job by the id, and new tables have none of those.
    assert done - {"Seq Scan"} == {"Limit", "Index Scan"}


def _generic_plan(board: JobBoard, statement: Statement, *settings: str) -> set[str]:
    """Return what is done in a plan that is made before the values are known."""
    with _connected(board) as connection:
        for setting in settings:
            connection.execute(setting)
        execute = _prepare(connection, board, statement)
        (plan,) = connection.execute(b"EXPLAIN (FORMAT JSON) " + execute({})).fetchone()
    return {str(node["Node Type"]) for node in _nodes(plan) if "Node Type" in node}


def _pages_read(connection: Any, board: JobBoard, statement: Statement) -> Callable[[dict[str, Any]], int]:
    """Prepare a statement, and return what executes it, undoes it, and returns how many pages of 8 KiB it read."""
    execute = _prepare(connection, board, statement)

    def read(wanted: dict[str, Any]) -> int:
        connection.execute("BEGIN")
        (plans,) = connection.execute(b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + execute(wanted)).fetchone()
        connection.execute("ROLLBACK")
        return int(plans[0]["Plan"]["Shared Hit Blocks"]) + int(plans[0]["Plan"]["Shared Read Blocks"])

    return read


def _connected(board: JobBoard) -> Any:
    """Borrow one of the board's connections, with all that is set in it."""
    database: Any = board._backend.database  # type: ignore[attr-defined]
    return database._borrow()


def _prepare(connection: Any, board: JobBoard, statement: Statement) -> Callable[[dict[str, Any]], bytes]:
    """Prepare a statement, and return what makes the text that executes it with values."""
    database: Any = board._backend.database  # type: ignore[attr-defined]
    sql, constants = statement.on(database.driver.dialect)
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", sql)))
    numbered = re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}", sql)
    name = f"planned_{uuid.uuid4().hex}"
    connection.execute(f"PREPARE {name} AS {numbered}".encode())

    def execute(wanted: dict[str, Any]) -> bytes:
        values = {**_VALUES, **constants, **wanted, "board": database.board}
        given = psycopg.sql.SQL(", ").join(psycopg.sql.Literal(values[each]) for each in names)
        return f"EXECUTE {name}({given.as_string(connection)})".encode()

    return execute


def test_lines_of_no_job_are_found_by_few_reads_for_each(site: Site, board: JobBoard) -> None:
    ((lines,),) = site.run("SELECT count(*) FROM jobboard_journal")
    assert cost_of(site, board, audit.ORPHANED_LINES) < 10 * lines + 200


def test_what_a_scan_or_a_sort_reads_is_more_than_a_few(site: Site, board: JobBoard) -> None:
    every, columns = job_statements.select(job_statements.jobs.c.uuid), job_statements.jobs.c
    for dear in (every.where(columns.last_error == "x"), every.order_by(columns.last_modified).limit(1)):
        assert cost_of(site, board, Statement(dear)) > 2 * _FEW
