"""What the statements cost on each server, by its own plans: an index finds the rows, nothing is scanned or sorted."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg.sql
import pytest
from harnesses.sql_site import Site

import jobboard
from jobboard import Every, JobBoard, JobState, Schedule
from jobboard.backends.sql import audit, job_statements, journal_statements, schedule_statements
from jobboard.backends.sql.event_statements import EVENTS
from jobboard.backends.sql.mysql import fast_statements as mysql
from jobboard.backends.sql.postgresql import fast_path as postgresql
from jobboard.backends.sql.schema import CLAIMED, STATES, UNCLAIMED
from jobboard.backends.sql.statement import Statement

pytest_plugins = ("harnesses.sql_fixtures",)

#: The statement, and the index, ours without its prefix; what only one kind of server runs has its name before it.
BY_INDEX: dict[str, tuple[Statement, str]] = {
    "postgresql: claim_next": (postgresql.CLAIM_NEXT, "ready"),
    "postgresql: claim_next of names": (postgresql.CLAIM_NEXT_OF_NAMES, "ready_by_name"),
    "postgresql: whether to wait": (postgresql.READY_IN, "ready"),
    "postgresql: whether to wait for names": (postgresql.READY_IN_OF_NAMES, "ready_by_name"),
    "postgresql: consume": (postgresql.CONSUME, "uuid"),
    "postgresql: post": (postgresql.POST_WITH_KEYS, "key"),
    "many": (job_statements.FIND_MANY, "uuid"),
    "what was done": (journal_statements.NOTES, "history"),
    "trimming": (journal_statements.TRIM_HISTORY, "history"),
    "renewals": (journal_statements.DROP_UNRECORDED, "history"),
    "lines of no job": (journal_statements.FORGET_EVENTS, "history"),
    "letting go": (job_statements.PROMOTE.find, "due"),
    "due or paused": (job_statements.DUE_OR_PAUSED, "due"),
    "postgresql: claim_next, the long way": (job_statements.CLAIM_NEXT.at_once, "ready"),
    "mysql: claim_next, the short way": (mysql.HEADS, "ready"),
    "mysql: claim_next of a name, the short way": (mysql.HEADS_OF_NAME, "ready_by_name"),
    "mysql: claim": (mysql.CLAIM, "PRIMARY"),
    "mysql: consume": (mysql.CONSUME, "PRIMARY"),
    "mysql: the first that is ready": (mysql.FIRST, "ready"),
    "mysql: the first of a name": (mysql.FIRST_OF_NAME, "ready_by_name"),
    "mysql: claim_next": (job_statements.CLAIM_NEXT.find, "ready"),
    "the heads of a name": (job_statements.HEADS_OF_NAME, "ready_by_name"),
    "the next ready names": (job_statements.FIRST_OF_NEXT_NAMES, "ready_by_name"),
    "the first that are ready": (job_statements.FIRST_READY, "ready"),
    "is anything ready": (job_statements.IS_READY, "ready"),
    "is a name ready": (job_statements.IS_NAME_READY, "ready_by_name"),
    "is anything due": (job_statements.IS_ANY_DUE, "due"),
    "what is due": (job_statements.OVERDUE, "due"),
    "the next due": (job_statements.NEXT_DUE, "due"),
    "a fence": (job_statements.LOCK, "uuid"),
    "fences": (job_statements.LOCK_MANY, "uuid"),
    "a key": (job_statements.FIND_KEY, "key"),
    "keys": (job_statements.FIND_KEYS, "key"),
    "a replacement": (job_statements.REPLACED_BY, "replaced"),
    "history": (job_statements.HISTORY, "history"),
    "what is over": (job_statements.OVER, "over"),
    "schedules that are due": (schedule_statements.DUE, "next_at"),
    "postgresql: the next schedule": (schedule_statements.NEXT_AFTER_NOW, "next_at"),
    "postgresql: a page of claimed jobs": (job_statements.PAGES[CLAIMED].rest_of_rank, "due"),
    "postgresql: later ranks of claimed jobs": (job_statements.PAGES[CLAIMED].later_ranks, "due"),
    "postgresql: a page of a name's claimed jobs": (job_statements.PAGES_OF_NAME[CLAIMED].rest_of_rank, "due"),
    "postgresql: what is claimed under a request": (job_statements.CLAIMED_UNDER, "due"),
    "postgresql: how many are on the board": (job_statements.COUNT, "due"),
    "mysql: how many are on the board": (job_statements.COUNT, "ready"),
    "mysql: a page of claimed jobs": (job_statements.PAGES[CLAIMED].rest_of_rank, "ready"),
    "mysql: later ranks of claimed jobs": (job_statements.PAGES[CLAIMED].later_ranks, "ready"),
    **{f"a page of {code}": (job_statements.PAGES[code].rest_of_rank, "ready") for code in STATES if code != CLAIMED},
    **{
        f"later ranks of {code}": (job_statements.PAGES[code].later_ranks, "ready")
        for code in STATES
        if code != CLAIMED
    },
}

_VALUES: dict[str, Any] = {
    "now": 1e9, "limit": 1, "size": 100, "rank": -3, "id": 1, "name": "resize", "uuid": "u", "uuids": ["u", "v"],
    "ids": [1, 2], "key": "k", "keys": ["k", "l"], "token": 1, "who": "alice", "claim_id": "c", "expiry": 30.0,
    "due_at": 2e9, "whos": ["alice"], "tokens": [1], "results": [None], "retentions": [60.0], "names": ["resize"],
    "ranks": [-3], "bodies": [b"."], "max_attempts": [None], "run_ats": [None], "delays": [None], "channel": "c",
    "kinds": ["CLAIMED"], "at": 1.0, "result": None, "retention": 60.0, "last": 0, "fences": ("u", 1, "alice"),
}  # fmt: skip


def _plan(site: Site, board: JobBoard, statement: Statement, **there: Any) -> tuple[set[str], set[str]]:
    """Return the indexes that are used, and what else is done.

    :param there: parameters of what is there; a planner may look, and answer before it plans.
    """
    database: Any = board._backend.database  # type: ignore[attr-defined]
    dialect = database.driver.dialect
    sql, constants = statement.on(dialect)
    lists = {name: dialect.as_list(value) if not site.is_postgresql else value for name, value in _VALUES.items()
             if isinstance(value, list)}  # fmt: skip
    lists["fences"] = ((there.get("uuid"), 1, "alice"),)
    values = {**_VALUES, **lists, **there, **constants, "board": database.board}
    with database._borrow() as connection, connection.cursor() as cursor:
        if not site.is_postgresql:
            cursor.execute("SET @jobboard_now = 1e9, @jobboard_status = 0, @jobboard_rank = -3, @jobboard_first = 1")
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}" if site.is_postgresql else f"EXPLAIN FORMAT=JSON {sql}", values)
        (plan,) = cursor.fetchone()
    used: set[str] = set()
    done: set[str] = set()
    for node in _nodes(plan if site.is_postgresql else json.loads(plan)):
        used |= {str(node[name]) for name in ("Index Name", "key") if name in node}
        done |= {str(node[name]) for name in ("Node Type", "access_type") if name in node}
        done |= {name for name in ("filesort", "temporary_table", "read_sorted_file") if name in node}
    return used, done


def _nodes(plan: Any) -> Iterator[dict[str, Any]]:
    if isinstance(plan, dict):
        yield plan
        plan = list(plan.values())
    if isinstance(plan, list):
        for part in plan:
            yield from _nodes(part)


#: What reads all of a table, or puts rows in order.
_DEAR = {"Seq Scan", "Sort", "Bitmap Heap Scan", "Hash Join", "ALL", "index", "filesort", "read_sorted_file"}
#: Claimed jobs, and the best of several names, are put in order; what MySQL deletes it reads from a table of one row.
_HARMLESS = {"postgresql: claim_next of names": {"Sort"}, "trimming": {"ALL"}} | {
    what: {"Sort"} for what in BY_INDEX if what.startswith("postgresql:") and "claimed" in what
}


@pytest.fixture(params=["few", "mostly waiting", "mostly complete"])
def board(request: pytest.FixtureRequest, site: Site) -> JobBoard:
    """A board whose tables' statistics would mislead a planner in one way or another."""
    board = site.harness.board()
    if request.param == "few":
        # Of a single job any index of its board is as good as another.
        site.fill(board, 100)
    # With few rows in the whole table, any index of one page is as good as another.
    site.fill(board if request.param != "few" else site.harness.board(), 3000)
    if request.param == "mostly complete":
        (number,) = site.run("SELECT id FROM jobboard_boards WHERE name = %s", board.name)[0]
        site.run("UPDATE jobboard_jobs SET state = 3, retain_until = 2e9 WHERE board = %s AND id %% 1000 <> 1", number)
    board.post("keyed", key="k")
    board.schedules.add(Schedule("nightly", Every(days=1), "resize"))
    site.run("ANALYZE" if site.is_postgresql else "ANALYZE TABLE jobboard_jobs, jobboard_journal, jobboard_schedules")
    return board


def test_an_index_finds_the_rows_and_nothing_is_scanned_or_sorted(site: Site, board: JobBoard) -> None:
    [job] = board.iterjobs(states=[JobState.UNCLAIMED], names=["keyed"])
    there = {"uuid": job.uuid, "id": job.sequence, "name": "keyed"}
    wrong = []
    for what, (statement, index) in BY_INDEX.items():
        if what.startswith("mysql:" if site.is_postgresql else "postgresql:"):
            continue
        used, done = _plan(site, board, statement, **there)
        if not used & {f"jobboard_{index}", index} or done & (_DEAR - _HARMLESS.get(what, set())):
            wrong.append(f"{what}: {sorted(used)} {sorted(done)}")
    assert not wrong, "\n".join(wrong)


#: The conditions by which the index is to find the rows, in the words of the plan.
PLANNED_ONCE: dict[str, tuple[Statement, str]] = {
    "claim_next": (postgresql.CLAIM_NEXT, "state = 1"),
    "claim_next of names": (postgresql.CLAIM_NEXT_OF_NAMES, "ROW(state, name) >= "),
    "whether to wait for names": (postgresql.READY_IN_OF_NAMES, "ROW(state, name) >= "),
    "the heads of a name": (job_statements.HEADS_OF_NAME, "ROW(state, name) >= "),
    "the next ready names": (job_statements.FIRST_OF_NEXT_NAMES, "ROW(state, name) > "),
    "is a name ready": (job_statements.IS_NAME_READY, "ROW(state, name) >= "),
    "a page of a name": (job_statements.PAGES_OF_NAME[UNCLAIMED].rest_of_rank, "ROW(state, name) >= "),
    "later ranks of a name": (job_statements.PAGES_OF_NAME[UNCLAIMED].later_ranks, "ROW(state, name) >= "),
    "consume": (postgresql.CONSUME, "uuid = ends.uuid"),
    "post": (postgresql.POST_WITH_KEYS, "key = given"),
}


@pytest.mark.parametrize("what", PLANNED_ONCE)
@pytest.mark.parametrize("jobs", [0, 1])
def test_a_plan_that_was_made_for_an_empty_board_serves_a_full_one(site: Site, what: str, jobs: int) -> None:
    if not site.is_postgresql:
        pytest.skip("each statement is planned anew there")
    prefix = f"p{uuid.uuid4().hex[:8]}_"
    with jobboard.fetch("b", site.server.uri, prefix=prefix) as board:
        if jobs:
            board.post("keyed", key="k")
        site.run(f"ANALYZE {prefix}jobs, {prefix}journal")
        statement, condition = PLANNED_ONCE[what]
        conditions, done = _generic_plan(board, statement)
    assert [found for found in conditions if condition in found], conditions
    # An index without a condition is read from end to end.
    assert "" not in conditions, conditions
    assert not done & (_DEAR - {"Sort"}), done


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
    _, done = _generic_plan(site.harness.board(), EVENTS, *(f"SET {name} = 0" for name in free))
    # Only a line without a uuid makes the server look for its job by the id, and new tables have none of those.
    assert done - {"Seq Scan"} == {"Limit", "Index Scan"}


def _generic_plan(board: JobBoard, statement: Statement, *settings: str) -> tuple[list[str], set[str]]:
    """Return the conditions on indexes, and what is done, in a plan that is made before the values are known."""
    database: Any = board._backend.database  # type: ignore[attr-defined]
    sql, constants = statement.on(database.driver.dialect)
    values = {**_VALUES, **constants, "board": database.board}
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", sql)))
    numbered = re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}", sql)
    with database._borrow() as connection:
        for setting in settings:
            connection.execute(setting)
        connection.execute(f"PREPARE planned AS {numbered}".encode())
        given = psycopg.sql.SQL(", ").join(psycopg.sql.Literal(values[name]) for name in names)
        execute = psycopg.sql.SQL("EXPLAIN (FORMAT JSON) EXECUTE planned({})").format(given)
        (plan,) = connection.execute(execute).fetchone()
    nodes = list(_nodes(plan))
    conditions = [str(node.get("Index Cond", "")) for node in nodes if "Index Name" in node]
    return conditions, {str(node["Node Type"]) for node in nodes if "Node Type" in node}


def test_lines_of_no_job_are_found_by_a_look_at_an_index_for_each(site: Site, board: JobBoard) -> None:
    used, _ = _plan(site, board, audit.ORPHANED_LINES)
    assert ("jobboard_uuid" if site.is_postgresql else "PRIMARY") in used


def test_a_plan_that_scans_or_sorts_would_be_seen(site: Site) -> None:
    board = site.harness.board()
    by_time = Statement(job_statements.select(job_statements.jobs.c.uuid).order_by(job_statements.jobs.c.last_modified))
    _, done = _plan(site, board, by_time)
    assert done & _DEAR
