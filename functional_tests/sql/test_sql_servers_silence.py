"""A server that is silent: each call ends within the time that the backends' pages state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from harnesses.silence import busy_conductor, late_calls
from harnesses.sql_site import Site
from servers.base import HOST
from servers.proxy import Proxy

from jobboard import BoardUnavailable, JobBoard, Posting, backend, fetch
from jobboard.testing import eventually

pytest_plugins = ("harnesses.sql_fixtures",)

#: libpq gives each host at least this many seconds, and a wait's last answer may take as many more.
LEAST_TO_CONNECT, LAST_ANSWER = 2.0, 3.0


@contextmanager
def behind(site: Site, **options: float) -> Iterator[tuple[JobBoard, Proxy]]:
    """A board whose line goes through a proxy."""
    with Proxy((HOST, site.server.port)) as proxy:
        uri = site.server.uri.replace(str(site.server.port), str(proxy.port))
        with backend(site.harness.fresh_name(), uri, pool_size=20, patience=1.0, **options) as board:
            yield board, proxy
            proxy.break_all()


def test_calls_that_name_a_time_keep_it(site: Site) -> None:
    """With all else as it is by default."""
    with behind(site) as (board, proxy), busy_conductor(board, "busy") as conductor:
        job = board.post("resize")
        fresh = fetch("silence", site.server.uri.replace(str(site.server.port), str(proxy.port)))
        proxy.silence()
        late = late_calls(
            {
                "connect": (lambda: fresh.connect(1.0), LEAST_TO_CONNECT),
                "wait": (lambda: list(board.wait(0.2)), 0.2 + LAST_ANSWER),
                "job.wait": (lambda: job.wait(0.2), 0.2 + LAST_ANSWER),
                "stop": (lambda: conductor.stop(drain=False, timeout=1.0), 1.5),
            }
        )
        assert late == {}
        # Something is left that others should be notified of.
        board._backend.database.notify(True)  # type: ignore[attr-defined]
        assert late_calls({"close": (board.close, 2.0)}) == {}


def test_all_other_calls_end_within_the_time_of_a_connection_and_a_reply(site: Site) -> None:
    with behind(site, socket_timeout=1.0) as (board, proxy):
        board.post_many([Posting("resize") for _ in range(20)])
        job, *others = board.claim_next("alice", limit=10, expiry=600)
        calls = {
            "stats": board.stats,
            "post": lambda: board.post("resize"),
            "claim_next": lambda: board.claim_next("alice"),
            "consume": lambda: board.consume(job, "alice"),
            "abandon": lambda: board.abandon(others[0], "alice"),
            "extend": lambda: board.extend(others[1], "alice"),
            "get": lambda: board.get(job.uuid),
            "iterjobs": lambda: list(board.iterjobs()),
            "schedules": lambda: list(board.schedules),
            "entities": board.entities,
            "subscribe": lambda: board.subscribe(print),
        }
        proxy.silence()
        within = 1.0 + LEAST_TO_CONNECT + board._client.patience
        assert late_calls({name: (call, within) for name, call in calls.items()}) == {}
        # The lines that were silent are gone; those that are made now are tried for as long.
        assert late_calls({name: (call, within) for name, call in calls.items()}) == {}
        proxy.speak()
        eventually(lambda: _answers(board))


def test_what_a_silent_server_did_not_say_is_told(site: Site) -> None:
    with behind(site, socket_timeout=0.5) as (board, proxy):
        board.post("resize")
        proxy.silence()
        with pytest.raises(BoardUnavailable, match="did not reply in time; is it overloaded, or the line cut"):
            board.stats()


def _answers(board: JobBoard) -> bool:
    try:
        return board.job_count >= 19
    except BoardUnavailable:
        return False
