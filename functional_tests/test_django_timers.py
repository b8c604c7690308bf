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
ROWS = ["PENDING", "PENDING", "RUNNING", "RUNNING", "DONE", "CANCELLED", "PENDING"]
#: What has an owner, has ended, or is of a type that nobody knows stays.
MOVED = ["MOVED", "MOVED", "MOVED", "RUNNING", "DONE", "CANCELLED", "PENDING"]
REMIND = "timers.tasks.remind"
JOBS: dict[str, list[Any]] = {
    "order/1": ["DELAYED", 4, [REMIND, {"order": 1}, 1, 3600.0]],
    "order/2": ["UNCLAIMED", 2, [REMIND, {"order": 2, "text": "late"}, 2, -60.0]],
    "order/3": ["UNCLAIMED", 3, [REMIND, {"order": 3}, 3, -60.0]],
}


def test_timers_are_moved_once(mariadb: MariadbServer) -> None:
    script = HERE / "harnesses" / "django_timers.py"
    path = os.pathsep.join([str(HERE), str(HERE.parent / "examples" / "django_shop")])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, str(script), mariadb.uri]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "3 timers moved, 2 left" in done.stderr
    told = json.loads(done.stdout)
    assert told["interrupted"] == {"rows": ROWS, "jobs": {}}
    assert told["moved"] == {"rows": MOVED, "jobs": JOBS}
    assert told["again"] == told["moved"]
