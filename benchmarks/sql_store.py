"""What measuring PostgreSQL and MariaDB has in common: servers that wait for their disks, and the table beside them."""

from __future__ import annotations

import subprocess
from typing import Any

TABLE = (
    "CREATE TABLE {name} (sequence {serial} PRIMARY KEY, uuid VARCHAR(36) UNIQUE, name VARCHAR(255), rank_ INT,"
    " body {blob}, state INT, owner VARCHAR(255), token INT, due {double})"
)
INDEX = "CREATE INDEX {name}_ready ON {name} (state, rank_, sequence)"
LARGEST_BACKLOG = 200_000
GOALS = {
    "claim_next with 200,000 waiting": "ratio <= 1.5",
    "claim_next + consume one by one": "ratio >= 0.6",
}


def version_of(server: Any) -> str:
    """Return what a server's program says of itself; it is not started."""
    [program] = [word for word in server.command if word.endswith(("/postgres", "/mariadbd"))]
    server.stop()
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
