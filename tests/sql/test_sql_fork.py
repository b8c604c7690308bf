"""A forked child: it never uses what its parent opened, and may open for itself."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers.forks import FORKS, in_child
from helpers.sql_seam import backend_of, claimed, consumption, opened, post, run_sql

from jobboard import JobBoard, fetch
from jobboard.backends.rows import Verdict
from jobboard.backends.sql import SqliteBackend
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, JobEvent
from jobboard.testing.deadline import DEADLINE, eventually


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


def use_in_child(backend: SqliteBackend) -> None:
    assert not backend.connected
    for call in (backend.jobs.count, lambda: post(backend), lambda: claimed(backend)):
        with pytest.raises(BoardUnavailable, match=r"call connect\(\) in this one"):
            call()


def open_in_child(backend: SqliteBackend) -> None:
    backend.open(5.0)
    assert backend.connected
    with backend.waiter(None) as waiter:
        post(backend, "child's")
        assert waiter.ready_in() == 0.0
    backend.close()


def close_and_open_in_child(backend: SqliteBackend) -> None:
    backend.close()
    open_in_child(backend)


@FORKS
@pytest.mark.parametrize("work", [use_in_child, open_in_child, close_and_open_in_child])
def test_a_child_leaves_its_parents_connections_alone(path: Path, work: Callable[[SqliteBackend], None]) -> None:
    with opened(path) as backend, backend.waiter(None):
        post(backend)
        row = claimed(backend)
        assert in_child(lambda: work(backend)) == 0
        assert backend.jobs.consume([consumption(row)]) == [Verdict.DONE]
        post(backend)
    assert run_sql(path, "PRAGMA integrity_check") == [("ok",)]


@FORKS
def test_an_open_board_is_closed_in_a_child_until_that_opens_it(path: Path) -> None:
    def work() -> None:
        assert not board.connected
        with pytest.raises(BoardUnavailable, match="was opened by another process"):
            board.post("resize")
        board.connect()
        assert board.connected
        board.post("resize")
        board.close()

    with fetch("work", f"sqlite:///{path}") as board:
        assert in_child(work) == 0
        board.post("resize")
        assert board.job_count == 2


@FORKS
def test_what_a_child_posts_after_its_parent_has_closed_is_kept(path: Path) -> None:
    opened_by_child, closed_by_parent = _Signal(), _Signal()

    def work() -> None:
        # A backend of its own, while that of its parent is still there, as after a fetch() in the child.
        own = backend_of(path)
        own.open(5.0)
        post(own)
        opened_by_child.set()
        closed_by_parent.wait()
        for _ in range(5):
            post(own)
        # A killed process doesn't close: what was committed must be in the file all the same.

    with ThreadPoolExecutor() as threads:
        with opened(path) as backend:
            post(backend)
            code = threads.submit(in_child, work)
            opened_by_child.wait()
        closed_by_parent.set()
        assert code.result(DEADLINE) == 0
    with opened(path) as backend:
        assert backend.jobs.count() == 7


@FORKS
def test_a_fork_waits_for_the_end_of_a_transaction(path: Path) -> None:
    with opened(path) as backend, ThreadPoolExecutor() as threads:
        with backend.database.write():
            code = threads.submit(in_child, lambda: open_in_child(backend))
        assert code.result(DEADLINE) == 0
        assert backend.jobs.count() == 1


@FORKS
def test_a_parent_waits_and_listens_on_as_if_it_had_not_forked(path: Path) -> None:
    events: list[JobEvent] = []
    with opened(path) as backend, backend.waiter(None) as waiter:
        backend.listen(events.append, frozenset({EventKind.POSTED}))
        assert in_child(lambda: open_in_child(backend)) == 0
        assert waiter.ready_in() == 0.0
        post(backend)
        eventually(lambda: len(events) == 2)


class _Signal:
    """An event between a process and its child."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def set(self) -> None:
        os.write(self._write, b".")
        os.close(self._write)

    def wait(self) -> None:
        os.read(self._read, 1)
        os.close(self._read)


@FORKS
def test_a_child_that_is_forked_while_its_parent_connects_can_connect(path: Path) -> None:
    backend, connecting, gate = backend_of(path), threading.Event(), threading.Event()
    board = JobBoard("work", backend)
    open_backend = backend.open

    def open_slowly(timeout: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            connecting.set()
            assert gate.wait(DEADLINE)
        open_backend(timeout)

    def connect_and_post() -> None:
        with board:
            board.post("of a child")

    backend.open = open_slowly  # type: ignore[method-assign]
    connector = threading.Thread(target=board.connect)
    connector.start()
    try:
        assert connecting.wait(DEADLINE)
        assert in_child(connect_and_post) == 0
    finally:
        gate.set()
        connector.join(DEADLINE)
    assert [job.name for job in board.iterjobs()] == ["of a child"]
    board.close()
