"""What a signal's handler raises in the midst of a call, Ctrl-C say, leaves no lock taken."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from urllib3 import HTTPConnectionPool

from jobboard.backends.etcd.http_pool import pooled_adapter
from jobboard.backends.etcd.worker import Worker
from jobboard.backends.sql.connection_pool import ConnectionPool
from jobboard.testing import eventually


def interrupted_after(step: int, act: Callable[[], object]) -> bool:
    """Act, and be interrupted after so many calls of C functions: there Python runs signals' handlers.

    :returns: False if it ended before.
    """
    steps = 0

    def count(_frame: FrameType, event: str, _function: object) -> None:
        nonlocal steps
        steps += event == "c_return"
        if steps == step:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(count)
    try:
        act()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


def sql_pool() -> tuple[Callable[[], object], Callable[[], object]]:
    pool = ConnectionPool(object, lambda _: True, lambda _: None, largest=1_000)

    def borrow() -> None:
        pool.give_back(pool.take())

    return borrow, borrow


def etcd_pool() -> tuple[Callable[[], object], Callable[[], object]]:
    made: Any = pooled_adapter(4)
    pool = made.poolmanager.connection_from_url("http://127.0.0.1:1")
    assert isinstance(pool, HTTPConnectionPool)

    def borrow() -> None:
        pool._put_conn(pool._get_conn())

    return borrow, borrow


def etcd_worker() -> tuple[Callable[[], object], Callable[[], object]]:
    worker = Worker()
    worker.soon(lambda: None)

    def run_one() -> None:
        done = threading.Event()
        worker.soon(done.set)
        eventually(done.is_set)

    return lambda: worker.soon(lambda: None), run_one


@pytest.mark.parametrize("make", [sql_pool, etcd_pool, etcd_worker])
def test_an_interrupt_leaves_no_lock_taken(
    make: Callable[[], tuple[Callable[[], object], Callable[[], object]]],
) -> None:
    act, check = make()
    step = 1
    while interrupted_after(step, act):
        checking = threading.Thread(target=check, daemon=True)
        checking.start()
        checking.join(30)
        assert not checking.is_alive(), f"after the interrupt at step {step}"
        step += 1
    assert step > 3
