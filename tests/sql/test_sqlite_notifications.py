"""The FIFO that wakes other processes' waiters on an SQLite board, and waiting without it."""

from __future__ import annotations

import os
import select
import stat
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers.sql_seam import (
    backend_of,
    claimed,
    consumption,
    elsewhere,
    next_line,
    opened,
    other_process,
    post,
    posting,
    say,
)

from jobboard.backends.base import Waiter
from jobboard.backends.sql import SqliteBackend
from jobboard.backends.sql.sqlite import change_source
from jobboard.backends.sql.sqlite.notifications import NotificationReader, NotificationSender
from jobboard.testing.deadline import DEADLINE, eventually

pytest_plugins = ("helpers.sqlite_fixtures",)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems report hang-ups otherwise")

POST_ON_DEMAND = """
import sys
from pathlib import Path
from helpers.sql_seam import opened, post
with opened(Path(sys.argv[1])) as backend:
    print("ready", flush=True)
    while input() == "post":
        post(backend)
"""


@pytest.fixture
def fifo(path: Path) -> Path:
    return path.with_name("jobs.db-notify")


@pytest.fixture
def never_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    for interval in ("POLL_INTERVAL", "NOTIFIED_POLL_INTERVAL"):
        monkeypatch.setattr(change_source, interval, 3600.0)


def until_ready(waiter: Waiter) -> None:
    while waiter.ready_in() != 0.0:
        waiter.wait(None)


class Reader:
    """One who waits for notifications of a file."""

    def __init__(self, path: Path) -> None:
        self._notifications = NotificationReader(path)
        self._fd = self._notifications.renew()

    def is_notified(self) -> bool:
        assert self._fd is not None
        poll = select.poll()
        poll.register(self._fd, 0)
        is_notified = bool(poll.poll(0))
        self._fd = self._notifications.renew()
        return is_notified

    def close(self) -> None:
        self._notifications.close()


def wait_for_posts(backend: SqliteBackend, threads: ThreadPoolExecutor, posts: Sequence[Callable[[], object]]) -> None:
    """Begin to wait, then post, in turn."""
    with backend.waiter(None) as waiter:
        # The thread's first look sees whatever is committed before it.
        eventually(lambda: backend.change_notifier.changes > 0)
        for post_one in posts:
            seen = threads.submit(until_ready, waiter)
            post_one()
            seen.result(DEADLINE)
            backend.jobs.consume([consumption(claimed(backend))])


@pytest.mark.usefixtures("never_polls")
def test_another_process_wakes_a_waiter_without_polling(
    path: Path, backend: SqliteBackend, threads: ThreadPoolExecutor
) -> None:
    with other_process(POST_ON_DEMAND, path) as process:
        assert next_line(process) == "ready"
        wait_for_posts(backend, threads, [lambda: say(process, "post")] * 3)
        say(process, "stop")


@pytest.mark.usefixtures("never_polls")
def test_it_does_so_through_a_link_too(path: Path, threads: ThreadPoolExecutor) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    with elsewhere(path) as other, opened(link) as backend:
        wait_for_posts(backend, threads, [lambda: post(other)] * 2)


def hold_open(fifo: Path) -> None:
    """As a process does that is stopped while it notifies."""
    os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)


def replace_by_a_file(fifo: Path) -> None:
    fifo.unlink()
    fifo.write_text("of somebody else")


@pytest.mark.parametrize("fault", [Path.unlink, replace_by_a_file, hold_open])
def test_a_lost_notification_costs_no_more_than_a_poll(
    path: Path, fifo: Path, backend: SqliteBackend, threads: ThreadPoolExecutor, fault: Callable[[Path], object]
) -> None:
    with elsewhere(path) as other:
        wait_for_posts(backend, threads, [lambda: (post(other), fault(fifo)), lambda: post(other)])


@pytest.mark.parametrize("make", [lambda fifo: fifo.write_text("mine"), Path.mkdir, lambda fifo: fifo.symlink_to("x")])
def test_what_already_has_the_name_is_left_alone(
    path: Path, fifo: Path, threads: ThreadPoolExecutor, make: Callable[[Path], object]
) -> None:
    make(fifo)
    before = os.lstat(fifo)
    with elsewhere(path) as other, opened(path) as backend:
        wait_for_posts(backend, threads, [lambda: post(other)])
    after = os.lstat(fifo)
    assert (after.st_ino, after.st_mode, after.st_size) == (before.st_ino, before.st_mode, before.st_size)
    assert not path.with_name("x").exists()


def test_a_fifo_that_is_gone_is_made_again(fifo: Path, backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_source, "RENEWAL_INTERVAL", 0.05)
    with backend.waiter(None):
        eventually(fifo.exists)
        fifo.unlink()
        eventually(fifo.exists)


def test_it_exists_only_while_somebody_waits(path: Path, fifo: Path) -> None:
    with opened(path) as backend:
        post(backend)
        assert not fifo.exists()
    one, other = Reader(path), Reader(path)
    one.close()
    NotificationSender(path).send()
    assert other.is_notified()
    other.close()
    assert not fifo.exists()


def test_one_notification_wakes_every_reader_once(path: Path) -> None:
    path.touch()
    readers, sender = [Reader(path) for _ in range(3)], NotificationSender(path)
    assert not any(reader.is_notified() for reader in readers)
    sender.send()
    assert all(reader.is_notified() for reader in readers)
    assert not any(reader.is_notified() for reader in readers)
    for reader in readers:
        reader.close()


def test_only_what_makes_a_job_claimable_notifies(path: Path, backend: SqliteBackend) -> None:
    reader = Reader(path)
    backend.jobs.post([posting(), posting()])
    assert reader.is_notified()
    row = claimed(backend)
    backend.jobs.consume([consumption(row)])
    assert not reader.is_notified()
    reader.close()


def test_a_child_that_forks_while_others_post_keeps_no_reader_from_hearing(path: Path, backend: SqliteBackend) -> None:
    """It would, if it inherited the FIFO open for writing."""
    reader, is_over = Reader(path), threading.Event()

    def post_always() -> None:
        while not is_over.is_set():
            post(backend)

    poster = threading.Thread(target=post_always)
    poster.start()
    children = []
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            children.append(child)
        for child in children:
            held = [os.readlink(f"/proc/{child}/fd/{fd}") for fd in os.listdir(f"/proc/{child}/fd")]
            assert held.count(f"{path}-notify") <= 1
    finally:
        is_over.set()
        poster.join()
        for child in children:
            os.kill(child, 9)
            os.waitpid(child, 0)
        reader.close()


@pytest.mark.parametrize("mode", [0o600, 0o660])
def test_who_may_use_the_file_may_notify(tmp_path: Path, path: Path, fifo: Path, mode: int) -> None:
    backend = backend_of(path, mode=mode)
    backend.open(5.0)
    with backend.waiter(None):
        eventually(lambda: fifo.exists() and stat.S_IMODE(fifo.stat().st_mode) == mode)
        assert (fifo.stat().st_uid, fifo.stat().st_gid) == (path.stat().st_uid, path.stat().st_gid)
    backend.close()
