"""What a board writes into an SQLite file, by bare statements of the standard library."""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from pathlib import Path

from jobboard import fetch
from jobboard.payload import EMPTY_PAYLOAD
from jobboard.validation import new_uuid

_POST = (
    "INSERT INTO jobboard_jobs (board, uuid, name, rank, place, body, state, created_on, last_modified, attempts,"
    " token, cancel_asked) VALUES (1, ?, 'bench', -3, -3 * 288230376151711744, ?, 1, ?, ?, 0, 0, 0)"
)
_POST_LINES = (
    "INSERT INTO jobboard_journal (board, job, kind, at)"
    " SELECT 1, id, 'POSTED', created_on FROM jobboard_jobs WHERE id > last_insert_rowid() - ?"
)
_CLAIM = (
    "UPDATE jobboard_jobs SET state = 2, owner = 'me', claim_id = :claim_id, attempts = attempts + 1,"
    " token = CASE token WHEN 0 THEN id * 16777216 ELSE token END + 1, due_at = :now + 30, last_modified = :now"
    " WHERE id IN (SELECT id FROM jobboard_jobs WHERE board = 1 AND state = 1 ORDER BY place, id LIMIT :limit)"
    " RETURNING *"
)
_CONSUME = (
    "UPDATE jobboard_jobs SET state = 3, claim_id = NULL, due_at = NULL, retain_until = ?, last_modified = ?"
    " WHERE board = 1 AND uuid = ? AND owner = 'me' AND token = ? AND state + 0 = 2"
)
_LINES = (
    "INSERT INTO jobboard_journal (board, job, kind, who, token, at) SELECT 1, job.id, ?, owner, token, last_modified"
    " FROM json_each(?) AS listed CROSS JOIN jobboard_jobs AS job ON job.id = listed.value"
)


class SameSqlite:
    """The board's own tables and indexes: the same rows, each change with its line of history, in as many transactions.

    Ends are under the same fence. It does not look for claims and delays that are over, for pauses, or for what a
    repeated request has done already, and nobody gets a job as an object.
    """

    beside = "bare, same rows"

    def __init__(self, path: Path, synchronous: str) -> None:
        with fetch("same", f"sqlite:///{path}?synchronous={synchronous}"):
            pass
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute(f"PRAGMA synchronous={synchronous}")
        self._connection.execute("PRAGMA wal_autocheckpoint=4000")
        self._connection.row_factory = sqlite3.Row

    def post(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            now = time.time()
            rows = [(new_uuid(), EMPTY_PAYLOAD, now, now) for _ in range(batch)]
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(_POST, rows)
            self._connection.execute(_POST_LINES, (batch,))
            self._connection.execute("COMMIT")
        return count

    def claim_and_consume(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            claim = {"claim_id": uuid.uuid4().hex, "now": time.time(), "limit": batch}
            self._connection.execute("BEGIN IMMEDIATE")
            claimed = self._connection.execute(_CLAIM, claim).fetchall()
            ids = json.dumps([row["id"] for row in claimed])
            self._connection.execute(_LINES, ("CLAIMED", ids))
            self._connection.execute("COMMIT")
            now = time.time()
            ends = [(now + 3600, now, row["uuid"], row["token"]) for row in claimed]
            self._connection.execute("BEGIN IMMEDIATE")
            if self._connection.executemany(_CONSUME, ends).rowcount != batch:
                raise AssertionError("a bare claim was lost in a benchmark")
            self._connection.execute(_LINES, ("CONSUMED", ids))
            self._connection.execute("COMMIT")
        return count

    def close(self) -> None:
        self._connection.close()
