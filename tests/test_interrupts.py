"""What a signal's handler raises in the midst of a call, Ctrl-C say, leaves no lock taken."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from urllib3 import HTTPConnectionPool

from jobboard.backends.etcd.http_pool import pooled_adapter
from jobboard.backends.etcd.worker import Worker
from jobboard.backends.sql.connection_pool import ConnectionPool
from jobboard.backends.sql.sqlite.database import SqliteDatabase
from jobboard.backends.timelimit import is_time_over, time_limit
from jobboard.backends.zookeeper.handler import Handler
from jobboard.testing import eventually
from jobboard.testing.interrupting import interrupted_after

#: What is interrupted, and what shows that every lock is free.
Calls = tuple[Callable[[], object], Callable[[], object]]


@contextmanager
def sql_pool() -> Iterator[Calls]:
    pool = ConnectionPool(object, lambda _: True, lambda _: None, largest=1)

    def borrow() -> None:
        pool.give_back(pool.take())

    yield borrow, borrow


@contextmanager
def etcd_pool() -> Iterator[Calls]:
    made: Any = pooled_adapter(4)
    pool = made.poolmanager.connection_from_url("http://127.0.0.1:1")
    assert isinstance(pool, HTTPConnectionPool)

    def borrow() -> None:
        pool._put_conn(pool._get_conn())

    yield borrow, borrow


@contextmanager
def etcd_worker() -> Iterator[Calls]:
    worker = Worker()
    worker.soon(lambda: None)

    def run_one() -> None:
        done = threading.Event()
        worker.soon(done.set)
        eventually(done.is_set)

    yield lambda: worker.soon(lambda: None), run_one
    worker.close(timeout=10)


@contextmanager
def sqlite_file() -> Iterator[Calls]:
    with TemporaryDirectory() as folder:
        database = SqliteDatabase(Path(folder, "jobs.db"), "board", "OFF", 5.0, 5.0)

        def read_and_write() -> None:
            with database.write() as transaction:
                transaction.changed = True
            with database.read():
                pass

        yield read_and_write, read_and_write
        database.close()


@contextmanager
def sqlite_file_that_is_closed() -> Iterator[Calls]:
    with TemporaryDirectory() as folder:
        opened: list[SqliteDatabase] = []

        def open_and_write() -> None:
            opened.append(SqliteDatabase(Path(folder, "jobs.db"), "board", "OFF", 5.0, 5.0))
            with opened[-1].write():
                pass

        def close_last() -> None:
            opened[-1].close()

        open_and_write()
        yield close_last, open_and_write
        for database in opened:
            database.close()


@contextmanager
def zookeeper_result() -> Iterator[Calls]:
    result = Handler().async_result()
    yield lambda: result.wait(0.0), lambda: result.unlink(print)


@pytest.mark.parametrize(
    "make", [sql_pool, sqlite_file, sqlite_file_that_is_closed, etcd_pool, etcd_worker, zookeeper_result]
)
def test_an_interrupt_leaves_no_lock_taken(make: Callable[[], AbstractContextManager[Calls]]) -> None:
    step = 1
    passed: list[None] = []

    with make() as (act, check):

        def pass_check() -> None:
            check()
            passed.append(None)

        while interrupted_after(step, act):
            checking = threading.Thread(target=pass_check, daemon=True)
            checking.start()
            checking.join(30)
            assert len(passed) == step, f"after the interrupt at step {step}"
            step += 1
    assert step > 3


def test_an_interrupt_leaves_no_limit_of_time() -> None:
    def limited() -> None:
        with time_limit(0.0), time_limit(1.0):
            is_time_over()

    step = 1
    while interrupted_after(step, limited):
        assert not is_time_over(), f"after the interrupt at step {step}"
        step += 1
    assert step > 3
