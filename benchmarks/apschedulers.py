"""APScheduler 3 at the same work, with its job store on the same kind of store.

It runs functions where the board posts jobs: its time ends when the last function has begun.
"""

from __future__ import annotations

import importlib.metadata
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import create_engine, event

_LONGEST = 300.0
_THREADS = 20

#: What a due function does: job stores keep a function's name, so it is one of a module.
_called = threading.Semaphore(0)
_last = 0.0


def called() -> None:
    global _last
    _last = time.time()
    _called.release()


#: The kinds of stores that it is measured on; None is memory.
_KINDS = (None, "redis", "sqlite")


def time_of_burst_in_apscheduler(uri: str | None, count: int) -> tuple[float, str] | None:
    """Return the seconds from the moment at which ``count`` due jobs are let go until all have begun; the version.

    None where it is not measured.
    """
    if (None if uri is None else urlsplit(uri).scheme) not in _KINDS:
        return None
    with _job_store(uri) as store:
        scheduler = BackgroundScheduler(
            jobstores={"default": store},
            executors={"default": ThreadPoolExecutor(_THREADS)},
            job_defaults={"misfire_grace_time": None, "coalesce": True},
            timezone=UTC,
        )
        scheduler.start(paused=True)
        due = datetime.now(UTC)
        for number in range(count):
            scheduler.add_job(called, "interval", hours=1, next_run_time=due, id=f"burst-{number:06}")
        begin = time.time()
        scheduler.resume()
        for _ in range(count):
            if not _called.acquire(timeout=_LONGEST):
                raise AssertionError("not all were run")
        took = _last - begin
        scheduler.shutdown()
    return took, f"APScheduler {importlib.metadata.version('apscheduler')}"


@contextmanager
def _job_store(uri: str | None) -> Iterator[Any]:
    if uri is None:
        from apscheduler.jobstores.memory import MemoryJobStore

        yield MemoryJobStore()
    elif uri.startswith("redis"):
        from apscheduler.jobstores.redis import RedisJobStore

        place = urlsplit(uri)
        yield RedisJobStore(host=place.hostname, port=place.port)
    else:
        from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore

        synchronous = parse_qs(urlsplit(uri).query)["synchronous"][0]
        with tempfile.TemporaryDirectory(prefix="jobboard-bench-") as folder:
            engine = create_engine(f"sqlite:///{folder}/apscheduler.db")

            @event.listens_for(engine, "connect")
            def set_up(connection: sqlite3.Connection, _: Any) -> None:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute(f"PRAGMA synchronous={synchronous}")

            yield SQLAlchemyJobStore(engine=engine)
            engine.dispose()
