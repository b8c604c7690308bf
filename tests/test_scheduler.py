"""The scheduler's thread: stopped at any moment, and started again."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from jobboard import At, Cron, Entity, EventKind, JobBoard, JobEvent, Schedule, Scheduler, backend
from jobboard import scheduler as scheduler_module
from jobboard.errors import MissingExtra
from jobboard.schedules import schedule as schedule_module
from jobboard.schedules.firing import Round
from jobboard.schedules.triggers import cron_pattern
from jobboard.testing import eventually
from jobboard.testing.contract.clockwork import fire, firing, hourly, overdue
from jobboard.unhandled_names import UnhandledNames


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with backend("scheduler", "memory://scheduler") as board:
        yield board


def test_a_stop_just_before_a_round_does_not_wait_for_its_sleep(
    board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobboard.scheduler._MAX_SLEEP", 600.0)
    scheduler = Scheduler(board)
    listen = scheduler._listen

    def is_stopped_then() -> None:
        listen()
        scheduler.stop(0)

    monkeypatch.setattr(scheduler, "_listen", is_stopped_then)
    scheduler.start()
    assert scheduler.wait(30)


def test_one_that_is_stopping_can_be_started(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler(board)
    busy, goes_on = threading.Event(), threading.Event()

    def takes_long() -> None:
        busy.set()
        assert goes_on.wait(10)

    with monkeypatch.context() as patch:
        patch.setattr(scheduler, "_listen", takes_long)
        scheduler.start()
        assert busy.wait(10)
        assert not scheduler.stop(0)
    threading.Timer(0.1, goes_on.set).start()
    scheduler.start()
    assert not scheduler.wait(0)
    eventually(lambda: [entity.kind for entity in board.entities()] == ["scheduler"])
    assert scheduler.stop(10)


def test_ctrl_c_stops_one_that_runs(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_timeout: float) -> bool:
        raise KeyboardInterrupt

    scheduler = Scheduler(board)
    with monkeypatch.context() as patch:
        patch.setattr(scheduler, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            scheduler.run()
    assert scheduler.wait(30)


def test_a_job_whose_end_nobody_told_of_is_followed_no_more(board: JobBoard) -> None:
    scheduler = Scheduler(board)
    made = firing(board).fire_due(10)
    made.looked_at, made.waiting = {"report"}, {"a job": "report"}
    scheduler._note_waiting(made)
    made.looked_at, made.waiting = {"report"}, {}
    scheduler._note_waiting(made)
    assert scheduler._unsubscribe_ends is None


def test_a_host_without_cronsim_leaves_cron_to_others(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    overdue(board, Schedule("nightly", Cron("0 * * * *"), "write"))
    overdue(board, hourly())
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "cronsim", None)
        for cache in (schedule_module._known_trigger, cron_pattern.pattern_of):
            cache.cache_clear()
        assert firing(board).fire_due(10).posted == 1
        made = firing(board).fire_due(10)
        assert (made.posted, made.taken, made.next_in == 0.0) == (0, 0, False)
        with pytest.raises(MissingExtra):
            board.schedules.get("nightly")
    assert board.schedules.get("nightly").state == "active"
    assert fire(board) == 1
    assert {job.schedule_id for job in board.iterjobs()} == {"nightly", "report"}


def test_a_name_that_no_conductor_has_is_told_once(
    board: JobBoard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("jobboard.unhandled_names._INTERVAL", 0.0)
    asked, entities = [], board.entities
    monkeypatch.setattr(board, "entities", lambda: asked.append(1) or entities())
    names = UnhandledNames(board, logging.getLogger("jobboard.scheduler"))

    def told(**posted: str) -> list[str]:
        """Return what is logged after jobs of these names were posted, each with its schedule."""
        caplog.clear()
        names.note(posted)
        names.look_when_due()
        return [record.getMessage() for record in caplog.records]

    assert told(reprot="nightly") == [], "no conductor is alive"
    worker = Entity("conductor", "worker", {"names": ["report"]})
    board.register_entity(worker)
    assert told(report="weekly") == []
    (line,) = told(reprot="nightly", report="weekly")
    assert "'nightly' posts jobs named 'reprot'" in line
    assert told(reprot="nightly") == []
    board.register_entity(replace(worker, metadata={"names": ["reprot"]}))
    assert told(reprot="nightly") == []
    board.register_entity(worker)
    assert told(reprot="nightly") == [line]
    asked.clear()
    assert told() == []
    assert asked == [], "who is alive is asked only after something was posted"


def test_a_scheduler_says_that_no_conductor_has_the_name(board: JobBoard, caplog: pytest.LogCaptureFixture) -> None:
    board.register_entity(Entity("conductor", "worker", {"names": ["report"]}))
    board.schedules.add(Schedule("once", At(datetime.now(UTC)), "reprot"))
    scheduler = Scheduler(board)
    scheduler.start()
    try:
        assert eventually(lambda: "'once' posts jobs named 'reprot'" in caplog.text)
    finally:
        assert scheduler.stop(10)


def test_a_listener_gets_the_kinds_that_it_wants_and_may_raise() -> None:
    with backend("listeners", "memory://listeners") as board:
        listen_on(board)


def listen_on(board: JobBoard) -> None:
    scheduler = Scheduler(board)
    received: list[EventKind] = []

    def fails(event: JobEvent) -> None:
        raise RuntimeError("a listener that fails")

    unsubscribe = [scheduler.subscribe(fails), scheduler.subscribe(lambda event: received.append(event.kind), _KINDS)]
    scheduler.start()
    try:
        board.schedules.add(Schedule("once", At(datetime.now(UTC) - timedelta(hours=1)), "write"))
        board.schedules.add(Schedule("late", At(datetime.now(UTC) - timedelta(hours=1)), "write", misfire_grace=1))
        eventually(lambda: board.job_count == 1)
        board.trash(next(board.iterjobs()), by="an operator")
        eventually(lambda: sorted(received) == sorted(_KINDS))
    finally:
        for each in unsubscribe:
            each()
        assert scheduler.stop(10)


_KINDS = (EventKind.MISSED, EventKind.TRASHED)


def test_an_outage_is_told_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    # It is noticed at the next look.
    monkeypatch.setattr(scheduler_module, "_MAX_SLEEP", 0.1)

    def told(level: int) -> int:
        return sum(
            record.levelno == level and "waits for the store" in record.getMessage() for record in list(caplog.records)
        )

    caplog.set_level("DEBUG", "jobboard.scheduler")
    with backend("scheduler", "memory://outage") as board:
        scheduler = Scheduler(board)
        scheduler.start()
        for outage in (1, 2):
            before = told(logging.DEBUG)
            board.close()
            assert eventually(lambda before=before: told(logging.DEBUG) >= before + 3)
            assert told(logging.WARNING) == outage
            board.connect()
            at_once = Schedule(f"{outage}", At(datetime.now(UTC)), "resize")
            board.schedules.add(at_once)
            assert eventually(lambda outage=outage: board.stats().unclaimed == outage)
            # It says so right after the round in which it has posted.
            assert eventually(lambda outage=outage: sum("is back" in text for text in caplog.messages) == outage)
        assert scheduler.stop(10)


def test_a_block_starts_it_and_stops_it_whatever_happens(board: JobBoard) -> None:
    with pytest.raises(KeyError, match="mine"), Scheduler(board) as scheduler:
        assert not scheduler.wait(0)
        raise KeyError("mine")
    assert scheduler.wait(0)


def test_ends_are_told_while_a_round_notes_what_waits(board: JobBoard) -> None:
    scheduler = Scheduler(board)
    waiting = {f"job {number}": f"schedule {number}" for number in range(20_000)}
    scheduler._note_waiting(Round(waiting=waiting))
    assert scheduler._take_room() == set(waiting.values())
    found: set[str] = set()
    interval = sys.getswitchinterval()

    def end_all() -> None:
        for uuid in waiting:
            scheduler._note_end(JobEvent(EventKind.CONSUMED, uuid, None, None, None, datetime.now(UTC)))

    ends = threading.Thread(target=end_all)
    sys.setswitchinterval(1e-5)
    try:
        ends.start()
        while ends.is_alive():
            scheduler._note_waiting(Round())
            found |= scheduler._take_room()
    finally:
        sys.setswitchinterval(interval)
        ends.join()
    assert found | scheduler._take_room() == set(waiting.values())
