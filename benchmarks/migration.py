"""How long a migration of a large table on PostgreSQL takes, and for how long it stops those who read.

``python -m benchmarks.migration [ROWS]`` makes the tables of layout 1 with that many jobs (5,000,000), and migrates
them while another connection reads one job after the other.
"""

from __future__ import annotations

import sys
import threading
import time

from layouts.dumps import NAME, Postgresql, file_of
from servers.postgresql_servers import PostgresqlServer

from jobboard import fetch

_FILL = """
INSERT INTO jobboard_jobs (board, uuid, name, rank, created_on, body, state, attempts, token, last_modified,
    cancel_asked)
SELECT 1, gen_random_uuid()::text, 'resize', -3, 1e9 + n, '\\x9501c0c0c0c080', 1, 0, 0, 1e9, 0
FROM generate_series(1, %s) AS n
"""
_READ = "SELECT body FROM jobboard_jobs WHERE board = 1 AND state = 1 AND name = 'low' LIMIT 1"


def measure(rows: int) -> None:
    """Print the seconds of a migration of this many rows, and those of the longest read meanwhile."""
    with PostgresqlServer({"shared_buffers": "1GB", "max_wal_size": "8GB"}) as server:
        store = Postgresql(server)
        store.load(file_of("postgresql", 1).read_text())
        with server.client() as client:
            client.execute(_FILL, [rows])
            client.execute("VACUUM ANALYZE")
        over, longest = threading.Event(), [0.0]

        def read() -> None:
            with server.client() as client:
                while not over.is_set():
                    began = time.perf_counter()
                    client.execute(_READ).fetchall()
                    longest[0] = max(longest[0], time.perf_counter() - began)

        reader = threading.Thread(target=read)
        reader.start()
        began = time.perf_counter()
        try:
            fetch(NAME, store.uri).migrate()
        finally:
            over.set()
            reader.join()
        took = time.perf_counter() - began
        print(f"{rows:,} rows: {took:.1f} s, the longest read meanwhile {longest[0]:.3f} s")


if __name__ == "__main__":
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000)
