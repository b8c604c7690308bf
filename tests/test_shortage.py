"""There are no more threads: what could not start leaves nothing behind, and can be started later."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from helpers.conducting import conducting, state_of
from helpers.memory_board import board
from helpers.short_of_threads import conductor_threads, without_thread
from helpers.work import echo

from jobboard import Conductor, Every, Handlers, JobBoard, JobState, Schedule, Scheduler
from jobboard.testing import eventually

__all__ = ["board"]


@pytest.fixture
def started() -> Callable[[], list[str]]:
    """The threads of this test's conductors; a stuck handler of another test may have left one in this process."""
    before = threading.enumerate()
    return lambda: conductor_threads(but=before)


@pytest.mark.parametrize(
    ("executor", "name"),
    [
        ("thread", "jobboard-slot-1"),
        ("thread", "jobboard-completer"),
        ("thread", "jobboard-events"),
        ("thread", "jobboard-renewer"),
        ("thread", "jobboard-deadlines"),
        ("thread", "jobboard-slot-2"),
        ("asyncio", "jobboard-asyncio"),
        ("asyncio", "jobboard-claimer"),
        ("process", "jobboard-slot-1"),
        ("process", "jobboard-completer"),
    ],
)
def test_a_conductor_that_got_no_thread_leaves_nothing_running(
    board: JobBoard, executor: str, name: str, started: Callable[[], list[str]]
) -> None:
    handlers = Handlers()
    handlers.add("echo", echo)
    conductor = Conductor("short", board, handlers, concurrency=2, executor=executor)
    with without_thread(name), pytest.raises(RuntimeError, match="can't start new thread"):
        conductor.start()
    eventually(lambda: not started())
    assert list(board.entities()) == []
    assert conductor.stop()
    conductor.start()
    assert board.post("echo").wait(30)
    assert conductor.stop()


@pytest.mark.parametrize("name", ["jobboard-slot-2", "jobboard-new-loop"])
def test_a_stuck_slot_that_got_no_thread_lets_the_conductor_stop(
    board: JobBoard, name: str, started: Callable[[], list[str]]
) -> None:
    gate = threading.Event()

    async def hang_later(_: object) -> None:
        gate.wait(30)

    hang: Callable[[object], object] = hang_later if name == "jobboard-new-loop" else lambda _: gate.wait(30)
    handlers = Handlers()
    handlers.add("hang", hang, max_attempts=1, timeout=0.05)
    executor = "asyncio" if hang is hang_later else "thread"
    with without_thread(name) as asked, conducting(board, handlers, executor, grace=0.05) as conductor:
        job = board.post("hang")
        eventually(lambda: asked == [name])
        eventually(lambda: state_of(board, job) is JobState.TRASHED)
        gate.set()
        eventually(lambda: conductor.stop(timeout=1.0))
    eventually(lambda: not started())


def test_a_scheduler_that_got_no_thread_can_be_stopped_and_started(board: JobBoard) -> None:
    board.schedules.add(Schedule("often", Every(seconds=1), "echo"))
    scheduler = Scheduler(board)
    with without_thread("jobboard-scheduler"), pytest.raises(RuntimeError, match="can't start new thread"):
        scheduler.start()
    assert scheduler.stop()
    scheduler.start()
    eventually(lambda: board.job_count > 0)
    assert scheduler.stop()


@pytest.mark.parametrize("name", ["jobboard-events", "jobboard-renewer"])
def test_a_keeper_that_got_no_thread_is_given_no_claims(board: JobBoard, name: str) -> None:
    board.post("echo")
    keeper = board.keep("alice", 30.0)
    with without_thread(name), pytest.raises(RuntimeError, match="can't start new thread"):
        keeper.__enter__()
    assert board.claim_next("alice")
    assert keeper.held == []
