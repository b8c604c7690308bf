"""PostgreSQL: beside PgQueuer, beside bare inserts by many clients, and what an idle conductor asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count as numbers

import psycopg

from benchmarks.goals.goal import Goal, Part, Setting, Sides
from benchmarks.goals.lanes import lanes
from benchmarks.goals.many_posters import BARE, STATEMENT, Posters
from benchmarks.goals.sides import a_second, idle_conductors, scripts, telling
from benchmarks.stores import STORES

_IDLE = "requests of an idle conductor with a listener"
_POSTS = "post, 16 clients"


@contextmanager
def _idle(setting: Setting) -> Iterator[Sides]:
    with STORES["postgresql"].space() as space, psycopg.connect(space.uri, autocommit=True) as client:
        asked = numbers()

        def requests() -> float:
            """Return how many transactions there were but for these."""
            row = client.execute("SELECT sum(xact_commit) FROM pg_stat_database WHERE datname = 'jobs'").fetchone()
            assert row is not None
            return float(row[0]) - next(asked)

        with idle_conductors(space, 1, lambda _event: None):
            yield {"jobboard": telling(_IDLE, lambda: a_second(requests, 10 * setting.scale))}


@contextmanager
def _many_posters(setting: Setting) -> Iterator[Sides]:
    with STORES["postgresql"].space() as space:
        assert space.uri is not None
        posters = Posters(space.uri, seconds=4 * setting.scale)
        yield {
            "jobboard": telling(_POSTS, posters.by_boards),
            "gather=True": telling(_POSTS, posters.by_gathering_boards),
            "bare inserts, psycopg": telling(_POSTS, posters.by_psycopg),
            "its statement, pgbench": telling(_POSTS, lambda: posters.by_pgbench(STATEMENT)),
            "bare inserts, pgbench": telling(_POSTS, lambda: posters.by_pgbench(BARE)),
        }


PARTS = (
    Part(
        "peers",
        (
            Goal("drain", "/s", "ratio >= 1", "PgQueuer"),
            Goal("claim and consume in 100s", "/s", "ratio >= 1", "PgQueuer"),
            Goal("pick-up p50", "ms", "< 4", "PgQueuer"),
        ),
        scripts("postgresql", "postgresql", 6000, 40, {"PgQueuer": 1.0}),
    ),
    Part(
        "posters",
        (
            Goal(_POSTS, "/s", "ratio >= 0.7", "bare inserts, pgbench", "its statement, pgbench"),
            Goal(_POSTS, "/s", "ratio >= 0.7", "bare inserts, psycopg"),
            Goal(_POSTS, "/s", "ratio >= 0.7", "bare inserts, pgbench", "gather=True"),
            Goal(_POSTS, "/s", "ratio >= 0.7", "bare inserts, pgbench"),
        ),
        _many_posters,
    ),
    lanes("postgresql", ">= 300", "ratio >= 0.9"),
    Part("idle", (Goal(_IDLE, "/s", "<= 1"),), _idle),
)
