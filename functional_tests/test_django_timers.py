"""A table of timers in MariaDB is moved to the board by Django's own transactions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from servers.mariadb_servers import MariadbServer

pytest_plugins = ("harnesses.sql_fixtures",)
pytestmark = pytest.mark.timeout(400)

HERE = Path(__file__).parent
ROWS = ["PENDING", "PENDING", "RUNNING", "RUNNING", "DONE", "CANCELLED", *["PENDING"] * 5]
#: What has an owner, has ended, is of a type that nobody knows, or can't be posted stays.
MOVED = ["MOVED", "MOVED", "MOVED", "RUNNING", "DONE", "CANCELLED", *["PENDING"] * 4, "MOVED"]
REMIND = "timers.tasks.remind"
JOBS: dict[str, list[Any]] = {
    "order/1": ["DELAYED", 4, [REMIND, {"order": 1}, 1, 3600.0]],
    "order/2": ["UNCLAIMED", 2, [REMIND, {"order": 2, "text": "late"}, 2, -60.0]],
    "order/3": ["UNCLAIMED", 3, [REMIND, {"order": 3}, 3, -60.0]],
    "order/11": ["UNCLAIMED", 4, [REMIND, {"order": 11}, 11, -60.0]],
}


def _told_by(script: str, *arguments: str) -> Any:
    """Return what a script of ``harnesses`` prints about the apps of the example."""
    path = os.pathsep.join([str(HERE), str(HERE.parent / "examples" / "django_shop")])
    command = [sys.executable, str(HERE / "harnesses" / script), *arguments]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_timers_are_moved_once(mariadb: MariadbServer) -> None:
    told = _told_by("django_timers.py", mariadb.uri)
    assert told["interrupted"] == {"rows": ROWS, "jobs": {}}
    assert told["moved"] == {"rows": MOVED, "jobs": JOBS}
    assert told["counts"] == "4 timers moved, 5 left"
    assert [line.partition(" stays: ")[0] for line in told["refused"]] == [
        f"timer {n} (REMIND order/{n})" for n in (8, 9, 10)
    ]
    assert told["again"] == told["moved"]
    assert told["written again"] == [["MOVED", {"order": 2, "text": "once more"}]]
    assert told["taken over"]["rows"] == ["MOVED"] * 3, "no loop runs them"
    jobs = told["taken over"]["jobs"]
    assert [jobs.get(f"order/{n}") for n in (1, 2, 3)] == [["DELAYED", None, [REMIND, {}, 0, 7200.0]], None, None]


@pytest.mark.parametrize(("server", "driver"), [("mariadb", "PyMySQL"), ("postgresql", "psycopg")])
def test_an_edit_at_the_end_of_a_run_is_not_lost(server: str, driver: str, request: pytest.FixtureRequest) -> None:
    told = _told_by("django_deadlines.py", request.getfixturevalue(server).uri, driver)
    waits = [["order/1", "DELAYED"]]
    assert told == {"put off": ["open", waits], "moved to earlier": ["cancelled", []], "reopened": ["open", waits]}
