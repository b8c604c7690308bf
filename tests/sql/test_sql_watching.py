"""Waiting and listening on SQLite: at once within a process, soon across processes, and for next to nothing."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from helpers.sql_seam import (
    backend_of,
    claimed,
    consumption,
    next_line,
    opened,
    other_process,
    post,
    posting,
    renewal,
    run_sql,
    say,
)

from jobboard.backends.base import Waiter
from jobboard.backends.rows import Trashing
from jobboard.backends.sql import SqliteBackend, change_notifier
from jobboard.backends.sql.change_source import ChangeSource
from jobboard.backends.sql.sqlite import change_source as sqlite_source
from jobboard.backends.sql.sqlite.change_source import SqliteChangeSource
from jobboard.backends.sql.sqlite.database import SqliteDatabase
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, JobEvent
from jobboard.testing.deadline import DEADLINE, eventually

pytest_plugins = ("helpers.sqlite_fixtures",)

EVERY = frozenset(EventKind)

POST_ON_DEMAND = """
import sys, time
from pathlib import Path
from helpers.sql_seam import opened, post
with opened(Path(sys.argv[1])) as backend:
    print("ready", flush=True)
    while input() == "post":
        post(backend)
        print(time.time(), flush=True)
"""


def until_ready(waiter: Waiter) -> float:
    """Wait for a job without an end, and return when it was seen."""
    while waiter.ready_in() != 0.0:
        waiter.wait(None)
    return time.time()


def own_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "jobboard-sql"]


def test_a_post_of_this_process_wakes_without_the_watching_thread(
    backend: SqliteBackend, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for interval in ("POLL_INTERVAL", "NOTIFIED_POLL_INTERVAL"):
        monkeypatch.setattr(sqlite_source, interval, 3600.0)
    with backend.waiter(None) as waiter:
        seen = threads.submit(until_ready, waiter)
        post(backend)
        seen.result(DEADLINE)


def test_whoever_enters_when_the_thread_is_about_to_end_starts_the_only_one(
    backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_notifier, "IDLE_TTL", 0.01)
    entered: list[Waiter] = []
    close = SqliteChangeSource.close

    def enter_and_close(source: SqliteChangeSource) -> None:
        if not entered:
            entered.append(backend.waiter(None))
        close(source)

    monkeypatch.setattr(SqliteChangeSource, "close", enter_and_close)
    backend.waiter(None).close()
    eventually(lambda: entered)
    eventually(lambda: len(own_threads()) == 1)
    entered[0].close()


def test_listeners_hear_of_posts_after_a_backup_was_written_into_the_file(path: Path, backend: SqliteBackend) -> None:
    with closing(sqlite3.connect(path)) as file, closing(sqlite3.connect(":memory:")) as copy:
        file.backup(copy)
        # More than the journal can reach again while this test waits.
        for _ in range(10):
            backend.jobs.post([posting() for _ in range(1000)])
        received: list[str | None] = []
        unlisten = backend.listen(lambda event: received.append(event.uuid), EVERY)
        last = post(backend).uuid
        eventually(lambda: last in received)
        copy.backup(file)
    posted: set[str | None] = set()

    def is_received() -> bool:
        posted.add(post(backend).uuid)
        return not posted.isdisjoint(received)

    eventually(is_received)
    unlisten()


def test_a_post_by_another_backend_of_this_process_wakes_too(
    path: Path, backend: SqliteBackend, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for interval in ("POLL_INTERVAL", "NOTIFIED_POLL_INTERVAL"):
        monkeypatch.setattr(sqlite_source, interval, 3600.0)
    link = path.with_name("link.db")
    link.symlink_to(path)
    with opened(link) as other, backend.waiter(None) as waiter:
        seen = threads.submit(until_ready, waiter)
        post(other)
        seen.result(DEADLINE)


def test_a_post_of_another_process_is_seen_within_fifty_milliseconds(
    path: Path, backend: SqliteBackend, threads: ThreadPoolExecutor
) -> None:
    delays = []
    with other_process(POST_ON_DEMAND, path) as process, backend.waiter(None) as waiter:
        assert next_line(process) == "ready"
        for _ in range(11):
            seen = threads.submit(until_ready, waiter)
            say(process, "post")
            posted = float(next_line(process))
            delays.append(seen.result(DEADLINE) - posted)
            backend.jobs.consume([consumption(claimed(backend))])
        say(process, "stop")
    # A busy machine takes longer for some.
    assert sorted(delays)[2] < 0.05


def test_what_is_committed_before_the_threads_first_look_is_not_missed(
    path: Path, backend: SqliteBackend, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_look = threading.Event()
    make = SqliteDatabase.change_source

    def late(database: SqliteDatabase) -> ChangeSource:
        may_look.wait(DEADLINE)
        return make(database)

    monkeypatch.setattr(SqliteDatabase, "change_source", late)
    with other_process(POST_ON_DEMAND, path) as process, backend.waiter(None) as waiter:
        assert next_line(process) == "ready"
        assert waiter.ready_in() is None
        say(process, "post")
        next_line(process)
        waiting = threads.submit(waiter.wait, DEADLINE)
        may_look.set()
        waiting.result(DEADLINE / 2)
        assert waiter.ready_in() == 0.0


def test_nothing_wakes_while_nothing_happens(
    backend: SqliteBackend, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    wait = SqliteChangeSource.wait_for_news

    def counted(source: SqliteChangeSource, wants_common: bool) -> bool:
        nonlocal looks
        looks += 1
        return wait(source, wants_common)

    monkeypatch.setattr(SqliteChangeSource, "wait_for_news", counted)
    with backend.waiter(None) as waiter:
        eventually(lambda: looks > 2)
        waiter.ready_in()
        before, asked = backend.change_notifier.changes, looks
        waiting = threads.submit(waiter.wait, None)
        eventually(lambda: looks > asked + 20)
        assert (backend.change_notifier.changes, waiting.done()) == (before, False)
        waiter.interrupt()
        waiting.result(DEADLINE)


def test_an_idle_look_executes_one_pragma_and_reads_no_table(path: Path) -> None:
    with opened(path) as backend:
        source = backend.database.change_source()
        assert isinstance(source, SqliteChangeSource)
        seen: list[str] = []
        assert source.wait_for_news(True)
        source._handle.get().set_trace_callback(seen.append)
        assert not any(source.wait_for_news(True) for _ in range(3))
        assert seen == ["PRAGMA data_version"] * 3
        post(backend)
        assert source.wait_for_news(True)
        eventually(lambda: not source.wait_for_news(True))
        source.close()


def test_another_boards_changes_wake_nobody_of_this_process(path: Path, backend: SqliteBackend) -> None:
    told: list[str] = []
    with opened(path, "other") as other:
        backend.database.process_notifier.add("board", lambda _: told.append("ours"))
        backend.database.process_notifier.add("other", lambda _: told.append("the other's"))
        post(other)
        assert told == ["the other's"]


def test_what_changes_nothing_wakes_nobody(backend: SqliteBackend) -> None:
    told: list[bool] = []
    backend.database.process_notifier.add("board", told.append)
    backend.maintenance.resume("resize")
    backend.books.destroy("none")
    backend.maintenance.tidy(100)
    backend.jobs.cancel([posting().uuid])
    assert told == []


def test_a_wholly_paused_board_foresees_nothing(backend: SqliteBackend) -> None:
    post(backend, delay=60.0)
    post(backend)
    backend.maintenance.pause(None)
    assert backend.waiter(None).ready_in() is None
    backend.maintenance.resume(None)
    backend.maintenance.pause("resize")
    assert backend.waiter(frozenset({"resize"})).ready_in() is None


def test_the_thread_lives_while_somebody_waits_and_not_much_longer(
    backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_notifier, "IDLE_TTL", 0.05)
    assert own_threads() == []
    with backend.waiter(None), backend.waiter(None):
        (thread,) = own_threads()
    eventually(lambda: not own_threads())
    with backend.waiter(None):
        assert own_threads() not in ([], [thread])


def test_closing_wakes_who_waits(path: Path, threads: ThreadPoolExecutor) -> None:
    with opened(path) as backend:
        waiting = [threads.submit(until_ready, backend.waiter(None)) for _ in range(3)]
    for each in waiting:
        with pytest.raises(BoardUnavailable, match="closed"):
            each.result(DEADLINE)


def test_fifty_openings_leave_no_thread_and_no_handle(path: Path) -> None:
    def connections() -> int:
        return len(os.listdir("/proc/self/fd"))

    def use() -> None:
        with opened(path) as backend, backend.waiter(None):
            backend.listen(lambda event: None, EVERY)
            post(backend)

    use()
    before = connections()
    for _ in range(50):
        use()
    assert connections() <= before
    assert own_threads() == []


# -- events ------------------------------------------------------------------------------------------------------------


def kinds_of(events: list[JobEvent]) -> list[str]:
    return [event.kind.value for event in events]


def test_own_events_and_those_of_others_are_told_once_and_in_order(path: Path, backend: SqliteBackend) -> None:
    post(backend)
    events: list[JobEvent] = []
    backend.listen(events.append, EVERY)
    with opened(path) as other:
        row = post(other)
        backend.jobs.consume([consumption(claimed(backend))])
        row = claimed(backend)
        other.jobs.extend([renewal(row)])
        other.maintenance.pause("resize")
        other.jobs.cancel([row.uuid])
    eventually(lambda: len(events) >= 7)
    assert kinds_of(events) == ["POSTED", "CLAIMED", "CONSUMED", "CLAIMED", "EXTENDED", "PAUSED", "CANCEL_ASKED"]
    assert [event.uuid for event in events[3:]] == [row.uuid, row.uuid, None, row.uuid]
    assert {event.name for event in events} == {"resize"}


def test_own_claims_are_read_at_once_only_for_who_wants_to_hear_of_them(
    backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupts: list[str] = []
    backend.listen(lambda event: None, frozenset({EventKind.CANCEL_ASKED}))
    monkeypatch.setattr(backend.change_notifier, "_interrupt", lambda: interrupts.append("interrupted"))
    row = post(backend)
    assert interrupts.pop() == "interrupted"
    backend.jobs.extend([renewal(claimed(backend))])
    assert interrupts == []
    backend.jobs.cancel([row.uuid])
    assert interrupts.pop() == "interrupted"
    backend.listen(lambda event: None, frozenset({EventKind.CLAIMED}))
    interrupts.clear()
    post(backend)
    claimed(backend)
    assert len(interrupts) == 2


def test_events_of_another_process_are_told(path: Path, backend: SqliteBackend) -> None:
    events: list[JobEvent] = []
    backend.listen(events.append, frozenset({EventKind.POSTED}))
    with other_process(POST_ON_DEMAND, path) as process:
        assert next_line(process) == "ready"
        for _ in range(3):
            say(process, "post")
            next_line(process)
        eventually(lambda: len(events) == 3)


def test_what_was_before_is_not_told_to_who_comes_later(backend: SqliteBackend) -> None:
    early: list[JobEvent] = []
    late: list[JobEvent] = []
    backend.listen(early.append, EVERY)
    post(backend)
    backend.listen(late.append, EVERY)
    backend.maintenance.pause("resize")
    eventually(lambda: late)
    eventually(lambda: len(early) == 2)
    assert kinds_of(late) == ["PAUSED"]


def test_a_purged_job_is_told_by_its_name(backend: SqliteBackend) -> None:
    events: list[JobEvent] = []
    backend.listen(events.append, frozenset({EventKind.PURGED}))
    row = post(backend)
    backend.jobs.trash([Trashing(row.uuid, None)])
    backend.jobs.purge([row.uuid])
    eventually(lambda: events)
    assert (events[0].uuid, events[0].name) == (row.uuid, "resize")


@pytest.mark.parametrize("damage", ["kind = 'NONSENSE'", "at = 'never'"])
def test_a_line_that_nobody_can_read_stops_nothing(path: Path, backend: SqliteBackend, damage: str) -> None:
    events: list[JobEvent] = []
    row = post(backend)
    number = "(SELECT max(id) FROM jobboard_journal)"
    run_sql(path, f"UPDATE jobboard_journal SET {damage} WHERE id = {number}")
    backend.listen(events.append, EVERY)
    backend.change_notifier._last_event = 0  # as if the line were newer
    post(backend)
    eventually(lambda: events)
    assert kinds_of(events) == ["POSTED"]
    assert backend.jobs.history(row.uuid) == []


def test_a_listener_may_end_itself_and_one_that_fails_harms_no_other(backend: SqliteBackend) -> None:
    events: list[JobEvent] = []
    ends: list[Callable[[], None]] = []

    def fail(event: JobEvent) -> None:
        raise RuntimeError("a listener's own fault")

    def once(event: JobEvent) -> None:
        events.append(event)
        ends[0]()

    backend.listen(fail, EVERY)
    ends.append(backend.listen(once, EVERY))
    rest: list[JobEvent] = []
    backend.listen(rest.append, EVERY)
    post(backend)
    post(backend)
    eventually(lambda: len(rest) == 2)
    assert len(events) == 1
    ends[0]()


def test_the_thread_goes_on_after_a_fault(
    backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch, threads: ThreadPoolExecutor
) -> None:
    wait = SqliteChangeSource.wait_for_news
    faults = [BoardUnavailable("a passing fault")]

    def faulty(source: SqliteChangeSource, wants_common: bool) -> bool:
        if faults:
            raise faults.pop()
        return wait(source, wants_common)

    monkeypatch.setattr(SqliteChangeSource, "wait_for_news", faulty)
    monkeypatch.setattr(change_notifier, "RETRY_DELAY", 0.0)
    events: list[JobEvent] = []
    backend.listen(events.append, EVERY)
    eventually(lambda: not faults)
    post(backend)
    eventually(lambda: events)


def test_a_backend_can_be_opened_again(path: Path) -> None:
    backend = backend_of(path)
    for count in (1, 2):
        backend.open(5.0)
        post(backend)
        with backend.waiter(None) as waiter:
            assert waiter.ready_in() == 0.0
        assert backend.jobs.count() == count
        backend.close()
