"""What recorders hear of posts, claims, runs, ends and schedules, and that they harm nothing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.work import QUICK, echo
from prometheus_client import CollectorRegistry

from jobboard import (
    Broken,
    Conductor,
    Every,
    Handlers,
    JobBoard,
    Posting,
    RunAgain,
    Schedule,
    Scheduler,
    fetch,
    telemetry,
)
from jobboard.telemetry.labels import MAX_NAMES
from jobboard.telemetry.prometheus import PrometheusRecorder
from jobboard.testing import eventually


class Notes(telemetry.Recorder):
    """Writes down all that it hears."""

    def __init__(self) -> None:
        self.received: list[tuple[Any, ...]] = []

    def posted(self, board: str, name: str, outcome: str) -> None:
        self.received.append(("posted", board, name, outcome))

    def claimed(self, board: str, name: str, waited: float | None) -> None:
        self.received.append(("claimed", board, name, waited is not None))

    def started(self, job: telemetry.RunningJob) -> None:
        self.received.append(("started", job.board_name, job.name, job.attempts))

    def ended(self, job: telemetry.RunningJob, outcome: str, seconds: float) -> None:
        self.received.append(("ended", job.board_name, job.name, outcome))

    def fired(self, board: str, schedule_id: str, jobs: int, late: float) -> None:
        self.received.append(("fired", board, schedule_id, jobs))

    @contextlib.contextmanager
    def around(self, job: telemetry.RunningJob) -> Iterator[None]:
        self.received.append(("enter", job.name))
        yield
        self.received.append(("leave", job.name))


def _fail(*arguments: Any) -> Any:
    raise RuntimeError("a fault of the recorder")


class Faulty(telemetry.Recorder):
    """Fails whenever it is called."""

    trace_of_post = posted = claimed = started = ended = fired = around = _fail


class FaultyContext(telemetry.Recorder):
    """Wants to swallow what handlers raise, and fails when they end."""

    @contextlib.contextmanager
    def around(self, job: telemetry.RunningJob) -> Iterator[None]:
        with contextlib.suppress(BaseException):
            yield
        raise RuntimeError("after")


@pytest.fixture
def notes() -> Iterator[Notes]:
    notes = Notes()
    remove = telemetry.add(notes)
    yield notes
    remove()
    remove()


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with fetch("main", "memory://") as board:
        yield board
        for job in board.iterjobs():
            board.cancel(job)


def worked_off(board: JobBoard, handlers: Handlers, executor: str = "thread") -> None:
    conductor = Conductor("crew", board, handlers, executor=executor)
    conductor.start()
    eventually(lambda: not any(True for _ in board.iterjobs()))
    assert conductor.stop()


def test_a_job_is_heard_of_from_its_post_to_its_end(board: JobBoard, notes: Notes) -> None:
    handlers = Handlers()
    handlers.add("resize", lambda job: None)
    board.post("resize", key="a")
    board.post("resize", key="a", if_exists="keep")
    worked_off(board, handlers)
    assert notes.received == [
        ("posted", "main", "resize", "posted"),
        ("posted", "main", "resize", "kept"),
        ("claimed", "main", "resize", True),
        ("started", "main", "resize", 1),
        ("enter", "resize"),
        ("leave", "resize"),
        ("ended", "main", "resize", "consumed"),
    ]


def test_each_kind_of_end_is_told(board: JobBoard, notes: Notes) -> None:
    handlers = Handlers()

    def fail(job: Any) -> None:
        raise RuntimeError("no disk")

    def break_(job: Any) -> None:
        raise Broken("never")

    handlers.add("failing", fail, max_attempts=2, backoff=QUICK)
    handlers.add("broken", break_)
    handlers.add("later", lambda job: RunAgain(after=0.0) if job.checkpoint is None and mark(job) else None)
    for name in ("failing", "broken", "later"):
        board.post(name)
    worked_off(board, handlers)
    ends = [(received[2], received[3]) for received in notes.received if received[0] == "ended"]
    assert [outcome for name, outcome in ends if name == "failing"] == ["failed", "trashed"]
    assert [outcome for name, outcome in ends if name == "broken"] == ["trashed"]
    assert [outcome for name, outcome in ends if name == "later"] == ["again", "consumed"]


def mark(job: Any) -> bool:
    job.checkpoint_state("seen")
    return True


@pytest.mark.parametrize("executor", ["thread", "asyncio"])
def test_an_async_handler_runs_inside_the_context(board: JobBoard, notes: Notes, executor: str) -> None:
    handlers = Handlers()

    async def slow(job: Any) -> None:
        await asyncio.sleep(0)
        notes.received.append(("inside",))

    handlers.add("slow", slow)
    board.post("slow")
    worked_off(board, handlers, executor)
    around = [received[0] for received in notes.received if received[0] in ("enter", "inside", "leave")]
    assert around == ["enter", "inside", "leave"]


def test_a_worker_process_tells_of_starts_and_ends(board: JobBoard, notes: Notes) -> None:
    handlers = Handlers()
    handlers.add("echo", echo)
    board.post("echo")
    worked_off(board, handlers, "process")
    assert [received[0] for received in notes.received] == ["posted", "claimed", "started", "ended"]


@pytest.mark.parametrize("recorder", [Faulty, FaultyContext])
def test_a_faulty_recorder_harms_no_job(
    board: JobBoard, notes: Notes, recorder: type[telemetry.Recorder], caplog: pytest.LogCaptureFixture
) -> None:
    handlers = Handlers()

    def fail(job: Any) -> None:
        raise RuntimeError("no disk")

    handlers.add("resize", lambda job: 7)
    handlers.add("failing", fail, max_attempts=1)
    remove = telemetry.add(recorder())
    try:
        good, bad = board.post("resize"), board.post("failing")
        worked_off(board, handlers)
    finally:
        remove()
    assert board.get(good.uuid).record.result == 7
    assert "no disk" in (board.get(bad.uuid).record.last_error or "")
    assert any("a recorder failed" in record.message for record in caplog.records)


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("error", [TimeoutError, KeyboardInterrupt])
def test_what_a_signals_handler_raises_is_no_fault_of_a_recorder(place: str, error: type[BaseException]) -> None:
    def interrupt(*_: object) -> None:
        raise error

    class Slow(telemetry.Recorder):
        @contextlib.contextmanager
        def around(self, job: telemetry.RunningJob) -> Iterator[None]:
            if place == "before":
                signal.raise_signal(signal.SIGUSR1)
            yield
            if place == "after":
                signal.raise_signal(signal.SIGUSR1)

    remove, before = telemetry.add(Slow()), signal.signal(signal.SIGUSR1, interrupt)
    job: Any = None
    try:
        with pytest.raises(error):
            telemetry.call_handler(lambda job: 7, job)
    finally:
        signal.signal(signal.SIGUSR1, before)
        remove()


def test_schedules_that_fire_are_told(notes: Notes) -> None:
    with fetch("of schedules", "memory://") as board:
        board.schedules.add(Schedule("often", Every(seconds=1), "resize"))
        scheduler = Scheduler(board)
        scheduler.start()
        eventually(lambda: ("fired", "of schedules", "often", 1) in notes.received)
        assert scheduler.stop()


def test_only_a_recorder_can_be_added() -> None:
    with pytest.raises(TypeError, match="must be a jobboard.telemetry.Recorder, not object"):
        telemetry.add(object())  # type: ignore[arg-type]


# -- the log -----------------------------------------------------------------------------------------------------------


def test_the_log_says_what_became_of_each_job(board: JobBoard, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "jobboard.conductor")
    handlers = Handlers()

    def fail(job: Any) -> None:
        raise RuntimeError("no disk")

    handlers.add("resize", lambda job: None)
    handlers.add("failing", fail, max_attempts=2, backoff=QUICK)
    good, bad = board.post("resize", details={"secret": "s3cret"}), board.post("failing")
    worked_off(board, handlers)
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert ("DEBUG", f"job 'resize' {good.uuid} attempt 1 starts") in lines
    assert any(
        level == "INFO" and text.startswith(f"job 'resize' {good.uuid} attempt 1 consumed after ")
        for level, text in lines
    )
    ends = [(level, text) for level, text in lines if f"{bad.uuid} attempt" in text and "after" in text]
    assert [(level, text.split()[5], text.split(": ", 1)[1]) for level, text in ends] == [
        ("WARNING", "failed", "RuntimeError: no disk"),
        ("ERROR", "trashed", "RuntimeError: no disk"),
    ]
    assert any("runs 'failing', 'resize' in 1 slot of the thread executor" in text for _, text in lines)
    assert any(text.endswith(": 1 consumed, 1 failed, 1 trashed") for _, text in lines)
    assert "s3cret" not in caplog.text


# -- Prometheus --------------------------------------------------------------------------------------------------------


@pytest.fixture
def registry() -> Iterator[CollectorRegistry]:
    registry = CollectorRegistry()
    remove = telemetry.add(PrometheusRecorder(registry))
    yield registry
    remove()


def test_what_happens_is_counted_for_prometheus(board: JobBoard, registry: CollectorRegistry) -> None:
    handlers = Handlers()

    def fail(job: Any) -> None:
        raise RuntimeError("no disk")

    handlers.add("resize", lambda job: None)
    handlers.add("failing", fail, max_attempts=1)
    board.post_many([Posting("resize"), Posting("resize"), Posting("failing")])
    worked_off(board, handlers)

    def value(metric: str, **labels: str) -> float | None:
        return registry.get_sample_value(metric, {"board": "main", **labels})

    assert value("jobboard_posted_total", name="resize", outcome="posted") == 2
    assert value("jobboard_claimed_total", name="failing") == 1
    assert value("jobboard_ended_total", name="resize", outcome="consumed") == 2
    assert value("jobboard_ended_total", name="failing", outcome="trashed") == 1
    assert value("jobboard_run_seconds_count", name="resize", outcome="consumed") == 2
    assert value("jobboard_wait_seconds_count", name="resize") == 2
    assert value("jobboard_claims_lost_total", name="resize") is None


def test_names_beyond_two_hundred_share_their_series(board: JobBoard, registry: CollectorRegistry) -> None:
    board.post_many([Posting(f"job {number}") for number in range(MAX_NAMES + 5)])
    names = {
        sample.labels["name"] for metric in registry.collect() for sample in metric.samples if "name" in sample.labels
    }
    assert len(names) == MAX_NAMES + 1
    assert (
        registry.get_sample_value("jobboard_posted_total", {"board": "main", "name": "other", "outcome": "posted"}) == 5
    )
