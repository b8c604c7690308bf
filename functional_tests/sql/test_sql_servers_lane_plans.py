"""What the statements about lanes cost on each server, beside thousands of BLOCKED jobs."""

from __future__ import annotations

import pytest
from harnesses.sql_site import Site
from test_sql_servers_plans import cost_of

from jobboard import JobBoard, Posting
from jobboard.backends.sql import exchanges, lanes, limits
from jobboard.backends.sql.statement import Statement

pytest_plugins = ("harnesses.sql_fixtures",)
pytestmark = pytest.mark.in_turn(1)

#: What a look at a lane of one slot asks, and what an exchange does; and how much of it may be read.
_OF_A_LANE: dict[str, tuple[Statement, int]] = {
    "the numbers of a lane": (lanes.COUNT, 120),
    "the next job": (lanes.LOCK_BLOCKED, 20),
    "the last claimable job": (lanes.LOCK_CLAIMABLE, 20),
    "names of claimable jobs": (exchanges.CLAIMABLE_NAMES, 20),
    "the next job of a name": (exchanges.LOCK_BLOCKED_OF_NAME, 20),
    "the next lane of a name": (exchanges.NEXT_LANE, 20),
    "the next name of BLOCKED jobs": (exchanges.FIRST_NAME, 20),
    "how a lane stands, but for how many are BLOCKED": (limits.HOLDERS, 20),
}


def _fill(board: JobBoard) -> None:
    for lane in "abc":
        board.limits.set(lane=lane, running=1)
    # Lanes without a limit are as large.
    for lane in "aaaabcd":
        board.post_many([Posting("resize", lane=lane) for _ in range(1000)])
    assert board.stats().blocked == 5_997


@pytest.mark.parametrize("known", ["nothing", "this board", "another board"])
def test_a_look_at_a_lane_reads_little_beside_thousands_of_blocked_jobs(site: Site, known: str) -> None:
    """:param known: what the planner has statistics of."""
    board = site.harness.board()
    board.stats()
    tables = ("jobboard_jobs", "jobboard_lanes")
    if site.is_postgresql:
        # So that autovacuum does not analyze them at a moment of its own.
        for table in tables:
            site.run(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    for table in tables:
        site.run(f"DELETE FROM {table}")
    if known == "another board":
        site.harness.board().post_many([Posting("resize", lane="a") for _ in range(1000)])
    if known != "this board":
        site.analyze(*tables)
    _fill(board)
    if known == "this board":
        site.analyze(*tables)
    wanted = {"lane": "a", "limit": 1, "after": ""}
    costs = {
        what: min(cost_of(site, board, statement, **wanted) for _ in range(2))
        for what, (statement, _) in _OF_A_LANE.items()
    }
    assert {what: cost for what, cost in costs.items() if cost > _OF_A_LANE[what][1]} == {}
