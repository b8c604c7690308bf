"""Sixteen clients that post to PostgreSQL: by boards, by psycopg, and by pgbench, which spends less CPU on a client."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg

from jobboard import fetch
from jobboard.backends.sql.postgresql.fast_path import POST_ONE

_CLIENTS, _PROCESSES = 16, 4

#: As a board's, of 36 characters and in the order of time.
_UUID = (
    "lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')"
    " || substr(gen_random_uuid()::text, 13)"
)

#: The same rows as a post writes, with the same line of the journal.
_ROWS = """
WITH posted AS (
    INSERT INTO jobboard_jobs (board, uuid, name, rank, place, created_on, body, state, attempts, token,
        last_modified, cancel_asked)
    VALUES ({board}, {uuid}, {name}, {rank}, {rank} * 288230376151711744, 1.7e9, {body}, 1, 0, 0, 1.7e9, 0)
    RETURNING id, uuid, name, created_on
) INSERT INTO jobboard_journal (board, job, kind, uuid, name, at)
SELECT {board}, id, 'POSTED', uuid, name, created_on FROM posted;
"""
BARE = _ROWS.format(board=":board", uuid=_UUID, name="'no-op'", rank="-3", body="'\\x80'")
_GIVEN = {
    "uuid": _UUID,
    "name": "'no-op'",
    "rank": "-3",
    "body": "'\\x80'",
    "max_attempts": "NULL",
}
#: What a board sends for a post, with the values in its text.
STATEMENT = re.sub(
    r":(\w+) AS", lambda match: f"{_GIVEN.get(match[1], match[0][:-3])} AS", str(POST_ONE.clause).strip() + ";\n"
)

#: Prints how many posts a number of threads made, in the seconds after its line of input. The first ones, for which
#: connections are made and statements prepared, come before that.
_POSTER = """
import sys, threading, time
uri, board, threads, seconds = sys.argv[1:]
%s
counts, turn = [], threading.Barrier(int(threads) + 1)
def post(once):
    for _ in range(10):
        once()
    turn.wait()
    turn.wait()
    count, end = 0, time.monotonic() + float(seconds)
    while time.monotonic() < end:
        once()
        count += 1
    counts.append(count)
workers = [threading.Thread(target=post, args=[poster()]) for _ in range(int(threads))]
for worker in workers: worker.start()
turn.wait()
print("ready", flush=True)
sys.stdin.readline()
turn.wait()
for worker in workers: worker.join()
print(sum(counts))
"""
_BY_BOARD = """
import jobboard
shared = jobboard.fetch("posters", uri%s)
shared.connect()
def poster():
    return lambda: shared.post("no-op")
"""
_BY_PSYCOPG = f"""
import psycopg
from jobboard.validation import new_uuid
bare = {_ROWS.format(**{name: f"%({name})s" for name in ("board", "uuid", "name", "rank", "body")})!r}
given = {{"board": int(board), "name": "no-op", "rank": -3, "body": b"\\x80"}}
def poster():
    connection = psycopg.connect(uri, autocommit=True)
    return lambda: connection.execute(bare, {{**given, "uuid": new_uuid()}})
"""


class Posters:
    """Clients of one server.

    :param seconds: how long each measurement posts.
    """

    def __init__(self, uri: str, seconds: float) -> None:
        self._uri = uri
        self._seconds = max(1, round(seconds))
        with fetch("posters", uri) as board:
            board.connect()
            board.post("no-op")

    def by_boards(self) -> float:
        """Return the posts a second by 16 threads in 4 processes, of which each shares a board."""
        return self._by_python(_BY_BOARD % "")

    def by_gathering_boards(self) -> float:
        """Return the same by boards whose threads share requests."""
        return self._by_python(_BY_BOARD % ", gather=True")

    def by_psycopg(self) -> float:
        """Return the bare inserts a second by 16 threads in 4 processes, each with a connection of its own."""
        return self._by_python(_BY_PSYCOPG)

    def _by_python(self, poster: str) -> float:
        words = [self._uri, str(self._board()), str(_CLIENTS // _PROCESSES), str(self._seconds)]
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", _POSTER % poster, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(_PROCESSES)
        ]
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        return sum(int(process.communicate(timeout=60)[0]) for process in processes) / self._seconds

    def by_pgbench(self, statement: str) -> float:
        """Return how often a second 16 clients of pgbench run a statement."""
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
            script.write(f"\\set board {self._board()}\n{statement}")
            script.flush()
            said = subprocess.run(
                [_pgbench(), "-n", "-M", "prepared", "-c", str(_CLIENTS), "-j", "2", "-T", str(self._seconds), "-f",
                 script.name, self._uri],
                capture_output=True, text=True, check=False, timeout=60,
            )  # fmt: skip
        match = re.search(r"^tps = ([\d.]+)", said.stdout, re.MULTILINE)
        if match is None:
            raise SystemExit(f"pgbench failed: {said.stderr}")
        return float(match[1])

    def _board(self) -> int:
        with psycopg.connect(self._uri) as client:
            row = client.execute("SELECT board FROM jobboard_jobs LIMIT 1").fetchone()
        assert row is not None
        return int(row[0])


def _pgbench() -> str:
    found = shutil.which("pgbench") or max(map(str, Path("/").glob("usr/lib/postgresql/*/bin/pgbench")), default=None)
    if found is None:
        raise SystemExit("pgbench is missing; install the package postgresql")
    return found
