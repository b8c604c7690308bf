"""What steps, signals and kept keys cost on each server: the same beside thousands of them."""

from __future__ import annotations

from typing import Any

import pytest
from harnesses.sql_clients import backend_of, claim, claimed, post
from harnesses.sql_site import Site
from test_sql_servers_plans import cost_of

from jobboard import JobBoard, JobState
from jobboard.backends.edge_rows import StepRow
from jobboard.backends.rows import Consumption, Fence, Verdict
from jobboard.backends.sql import step_statements, windows
from jobboard.backends.sql.postgresql import steps as postgresql
from jobboard.backends.sql.statement import Statement

pytest_plugins = ("harnesses.sql_fixtures",)

#: How many steps a job has at most; results are of 1 KB.
STEPS = 5000
#: How many pages or rows more a statement may read beside all of them.
MORE, PAGE = 6, 30

_SAVE = {"postgresql": postgresql.SAVE, "mysql": step_statements.PUT_STEP}


def fill(site: Site, fence: Fence, first: int, count: int) -> None:
    """Save steps as fast as the server can."""
    (board,) = site.run("SELECT board FROM jobboard_jobs WHERE uuid = %s", fence.uuid)[0]
    numbers = (
        f"generate_series({first}, {first + count - 1}) AS n (n)"
        if site.is_postgresql
        else f"(SELECT seq AS n FROM seq_{first}_to_{first + count - 1}) AS numbers"
    )
    site.run(
        "INSERT INTO jobboard_steps (board, uuid, number, name, at, result)"
        f" SELECT {board}, %s, n, 'step', 1e9, %s FROM {numbers}",
        fence.uuid,
        bytes(1000),
    )


def test_the_last_of_many_steps_costs_what_the_first_one_does(site: Site) -> None:
    board = site.harness.board()
    backend: Any = backend_of(board)
    fences = [claimed(backend) for _ in range(3)]
    fence = fences[0]
    there = {"uuid": fence.uuid, "token": fence.token, "who": fence.who, "result": bytes(1000), "name": "step"}
    save: Statement = _SAVE["postgresql" if site.is_postgresql else "mysql"]
    read: dict[str, tuple[Statement, dict[str, Any]]] = {
        "the last page of steps": (step_statements.LOAD_STEPS, {"first": STEPS - 10, "size": 20}),
        "whether a signal is there": (step_statements.FIND_SIGNAL, {"name": "approved"}),
    }

    def costs(number: int) -> dict[str, int]:
        wanted = {"a step": (save, {"number": number, "now": backend.now()}), **read}
        return {
            what: min(cost_of(site, board, statement, **{**there, **values}) for _ in range(2))
            for what, (statement, values) in wanted.items()
        }

    for each in fences:
        fill(site, each, 0, 10)
    few = costs(10)
    # On MariaDB what was counted is committed.
    for each in fences:
        fill(site, each, 11, STEPS - 11)
    site.run("ANALYZE" if site.is_postgresql else "ANALYZE TABLE jobboard_steps, jobboard_signals")
    many = costs(STEPS)
    # Of the page there is nothing at first.
    assert {what: cost for what, cost in many.items() if cost > few[what] + (PAGE if "page" in what else MORE)} == {}
    assert backend.steps.save(fence, StepRow(STEPS, "last", b"")) is Verdict.DONE
    assert [step.number for step in backend.steps.load(fence.uuid, STEPS - 1, 9)] == [STEPS - 1, STEPS]


@pytest.mark.parametrize("statement", [windows.KEYS, windows.HOLDER], ids=["keys", "a key"])
def test_a_kept_key_is_found_beside_thousands_of_others(site: Site, statement: Statement) -> None:
    board = site.harness.board()
    backend: Any = backend_of(board)
    job = _keep(board, "k")
    site.fill(board, 3000, is_keyed=True)
    site.run(
        "INSERT INTO jobboard_windows (board, name, {key}, uuid, until)"
        " SELECT board, name, {key}, uuid, 9e9 FROM jobboard_jobs WHERE board = %s AND name = 'resize'".format(
            key="key" if site.is_postgresql else "`key`"
        ),
        backend.database.board,
    )
    site.run("UPDATE jobboard_jobs SET state = 3 WHERE board = %s AND state = 1", backend.database.board)
    for _ in range(2):
        there = {"name": "order", "key": "k", "keys": ["k", "l"] if site.is_postgresql else ("k", "l")}
        assert min(cost_of(site, board, statement, **there) for _ in range(2)) < 30
        site.run("ANALYZE" if site.is_postgresql else "ANALYZE TABLE jobboard_jobs, jobboard_windows")
    assert board.post("order", key="k", if_exists="keep").uuid == job


def _keep(board: JobBoard, key: str) -> str:
    """Return a job that has ended and keeps its key."""
    backend: Any = backend_of(board)
    job = post(backend, key=key, key_for=600.0)
    assert claim(backend, job).state is JobState.CLAIMED
    row = backend.jobs.read([job])[0]
    assert backend.jobs.consume([Consumption(Fence(job, "ann", row.token), None, 600.0)]) == [Verdict.DONE]
    return job
