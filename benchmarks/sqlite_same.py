"""What a board writes into an SQLite file, by bare statements of the standard library."""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path

from jobboard import fetch

_NOW = "(julianday('now') - 2440587.5) * 86400"
_POST = (
    "INSERT INTO jobboard_jobs (board, uuid, name, rank, body, state, created_on, last_modified, attempts, token,"
    f" cancel_asked) VALUES (1, ?, 'bench', -3, x'80', 1, {_NOW}, {_NOW}, 0, 0, 0)"
)
_CLAIM = (
    "UPDATE jobboard_jobs SET state = 2, owner = 'me', claim_id = ?, attempts = attempts + 1,"
    f" token = CASE token WHEN 0 THEN id * 16777216 ELSE token END + 1, due_at = {_NOW} + 30, last_modified = {_NOW}"
    " WHERE id IN (SELECT id FROM jobboard_jobs WHERE board = 1 AND state = 1 ORDER BY rank, id LIMIT ?)"
    " RETURNING *"
)
_CONSUME = (
    f"UPDATE jobboard_jobs SET state = 3, claim_id = NULL, due_at = NULL, retain_until = {_NOW} + 3600,"
    f" last_modified = {_NOW} WHERE board = 1 AND uuid = ? AND owner = 'me' AND token = ? AND state = 2"
)
_NOTE = f"INSERT INTO jobboard_journal (board, job, kind, who, token, at) VALUES (1, ?, ?, ?, ?, {_NOW})"


class SameSqlite:
    """The board's own tables and indexes: the same rows, each change with its line of history, in as many transactions.

    It does not look for claims and delays that are over, for pauses, or for what a repeated request has done already.
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
            uuids = [str(uuid.uuid4()) for _ in range(batch)]
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(_POST, [(one,) for one in uuids])
            (last,) = self._connection.execute("SELECT max(id) FROM jobboard_jobs").fetchone()
            self._note([(last - batch + 1 + at, "POSTED", None, None) for at in range(batch)])
            self._connection.execute("COMMIT")
        return count

    def claim_and_consume(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            self._connection.execute("BEGIN IMMEDIATE")
            claimed = self._connection.execute(_CLAIM, (uuid.uuid4().hex, batch)).fetchall()
            self._note([(row["id"], "CLAIMED", "me", row["token"]) for row in claimed])
            self._connection.execute("COMMIT")
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(_CONSUME, [(row["uuid"], row["token"]) for row in claimed])
            self._note([(row["id"], "CONSUMED", "me", row["token"]) for row in claimed])
            self._connection.execute("COMMIT")
        return count

    def _note(self, lines: list[tuple[int, str, str | None, int | None]]) -> None:
        self._connection.executemany(_NOTE, lines)

    def close(self) -> None:
        self._connection.close()
