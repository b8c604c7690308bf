"""The process executor: what it kills, what it spares, and what crosses the pipe."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from helpers import chores
from helpers.conducting import conducting, state_of
from helpers.memory_board import board

from jobboard import Conductor, EventKind, Handlers, JobBoard, JobFailed, JobState, fetch
from jobboard.conductor.execution import Execution
from jobboard.conductor.executors.worker_process import WorkerProcess
from jobboard.conductor.job_facts import JobSnapshot
from jobboard.conductor.lifespan import Lifespan
from jobboard.conductor.retrying import ErrorRules
from jobboard.testing import eventually

__all__ = ["board"]


@pytest.fixture(scope="class")
def shared() -> Iterator[JobBoard]:
    """One board and one conductor for all that don't kill anything, since workers take a while to start."""
    with fetch("work", f"memory://{uuid.uuid4().hex}") as board, conducting(board, chores.handlers, "process"):
        yield board


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class TestWhatIsKilled:
    def test_what_a_handler_started_dies_with_it(self, board: JobBoard) -> None:
        with conducting(board, chores.handlers, "process", grace=0.05):
            job = board.post("start a child")
            child = eventually(lambda: board.get(job.uuid).record.checkpoint)
            assert psutil.pid_exists(child)
            board.cancel(job)
            eventually(lambda: is_gone(child))
            eventually(lambda: board.job_count == 0)

    def test_a_kill_is_for_the_task_that_it_was_meant_for(self, board: JobBoard) -> None:
        """Losing one job after the other never harms the next one in the same worker."""
        with conducting(board, chores.handlers, "process", concurrency=2) as conductor:
            executor = conductor._run._executor
            interrupt, seen = executor.interrupt, []

            def interrupt_everything_late(task: object) -> None:
                seen.append(task)
                for each in list(seen):
                    interrupt(each)

            executor.interrupt = interrupt_everything_late
            for _ in range(3):
                lost = board.post("until killed once")
                eventually(lambda lost=lost: state_of(board, lost) is JobState.CLAIMED)
                board.release(lost, reason="a test")
                others = [board.post("pid") for _ in range(5)]
                assert all(job.wait(20) for job in [lost, *others])
                assert {job.attempts for job in others} == {1}
                assert lost.result == "the second time"
            assert len(seen) == 3

    def test_a_kill_that_comes_too_late_kills_nothing(self, board: JobBoard) -> None:
        worker = WorkerProcess([(chores.pid, ErrorRules(), Lifespan())])
        assert worker.wait_until_ready(20)
        worker.kill_if_running(object())  # type: ignore[arg-type]
        assert worker.usable
        worker.leave()
        assert not worker.usable
        worker.dispose()

    def test_an_idle_worker_that_dies_is_replaced_and_no_job_blamed(self, board: JobBoard) -> None:
        with conducting(board, chores.handlers, "process"):
            first = board.post("pid")
            assert first.wait(20)
            os.kill(first.result, signal.SIGKILL)
            second = board.post("pid")
            assert second.wait(20)
            assert second.result != first.result
            assert (second.attempts, second.last_error) == (1, None)

    def test_a_worker_that_dies_at_work_is_a_failure_that_says_how(self, board: JobBoard, tmp_path: Path) -> None:
        until = tmp_path / "until"
        with conducting(board, chores.handlers, "process"):
            job = board.post("endure", details={"until": str(until)})
            os.kill(eventually(lambda: board.get(job.uuid).record.checkpoint), signal.SIGKILL)
            until.touch()
            assert job.wait(20)
            assert (job.attempts, job.last_error) == (2, "its worker process died: killed by SIGKILL")

    @pytest.mark.parametrize("fork", ["in Python", "in C"])
    def test_a_worker_that_dies_before_a_child_of_its_is_a_failure_at_once(self, board: JobBoard, fork: str) -> None:
        """The child keeps the worker's end of the pipe open, if nobody closes it."""
        with conducting(board, chores.handlers, "process"):
            job = board.post("die before a child", details={"fork": fork})
            child = eventually(lambda: board.get(job.uuid).record.checkpoint)
            eventually(lambda: state_of(board, job) is JobState.TRASHED)
            assert board.get(job.uuid).record.reason == "its worker process died: exit code 7"
            eventually(lambda: is_gone(child))

    def test_a_child_that_outlives_its_handler_ends_with_its_worker(self, board: JobBoard) -> None:
        with conducting(board, chores.handlers, "process") as conductor:
            job = board.post("leave a child behind")
            assert job.wait(20)
            assert not is_gone(job.result)
            assert conductor.stop(timeout=10)
            eventually(lambda: is_gone(job.result))


class TestForkedChildren:
    """Whatever a child of the handler does, it is no worker."""

    @pytest.mark.parametrize("end", ["return", "raise", "exit"])
    def test_a_child_that_returns_ends_no_other_job(self, shared: JobBoard, tmp_path: Path, end: str) -> None:
        note = tmp_path / "note"
        forking = shared.post("fork", details={"end": end, "until": str(note)})
        assert forking.wait(20)
        job = shared.post("endure", details={"until": str(note)})
        child = forking.result
        eventually(lambda: state_of(shared, job) is JobState.CLAIMED)
        note.with_suffix(".go").touch()
        eventually(lambda: is_gone(child))
        assert state_of(shared, job) is JobState.CLAIMED
        note.touch()
        assert job.wait(20)
        assert (job.result, job.attempts) == ("endured", 1)

    def test_a_child_cannot_act_for_the_job(self, shared: JobBoard) -> None:
        job = shared.post("act in a child")
        assert job.wait(20)
        assert job.result == "a process that a handler has forked can't act for the job; let the handler do it"
        assert shared.get(job.uuid).record.checkpoint is None

    def test_a_thread_that_a_job_left_behind_cannot_act_for_the_next(self, shared: JobBoard, tmp_path: Path) -> None:
        note = tmp_path / "note"
        assert shared.post("leave a thread behind", details={"note": str(note)}).wait(20)
        job = shared.post("endure", details={"until": str(note)})
        assert job.wait(20)
        assert note.read_text() == "ClaimLost"
        assert shared.get(job.uuid).record.checkpoint != "of a job that is over"


class TestWhatIsSpared:
    def test_the_signals_of_a_service_manager_are_left_to_the_conductor(self, board: JobBoard, tmp_path: Path) -> None:
        until = tmp_path / "until"
        with conducting(board, chores.handlers, "process"):
            job = board.post("endure", details={"until": str(until)})
            worker = eventually(lambda: board.get(job.uuid).record.checkpoint)
            for number in (signal.SIGTERM, signal.SIGINT) * 3:
                os.kill(worker, number)
            until.touch()
            assert job.wait(20)
            assert (job.result, job.attempts) == ("endured", 1)

    def test_idle_workers_leave_in_good_order(self, board: JobBoard, tmp_path: Path) -> None:
        note = tmp_path / "note"
        with conducting(board, chores.handlers, "process") as conductor:
            assert board.post("leave a note", details={"path": str(note)}).wait(20)
            assert not note.exists()
            assert conductor.stop(timeout=10)
            assert note.read_text() == "left in good order"
        assert multiprocessing.active_children() == []


class TestWhatCrossesThePipe:
    def test_a_result_that_no_other_process_can_have_is_a_failure(self, shared: JobBoard) -> None:
        job = shared.post("odd results")
        eventually(lambda: state_of(shared, job) is JobState.TRASHED)
        record = shared.get(job.uuid).record
        assert (record.reason or "").startswith("its result can't be kept: result can't be stored")
        assert record.attempts == 1

    def test_a_result_that_only_the_store_can_have_gets_there(self, shared: JobBoard) -> None:
        job = shared.post("raw results")
        assert job.wait(20)
        assert (job.result, job.attempts) == ({"raw": b"\xff"}, 1)

    def test_a_checkpoint_that_cannot_travel_is_refused_in_the_handler(self, shared: JobBoard) -> None:
        job = shared.post("odd checkpoints")
        assert job.wait(20)
        assert job.result == "checkpoint.call"

    def test_a_checkpoint_that_is_too_large_sends_its_job_to_the_trash(self, shared: JobBoard) -> None:
        job = shared.post("large checkpoints")
        assert not job.wait(20)
        assert (job.record.state, job.record.attempts) == (JobState.TRASHED, 1)
        assert "checkpoint" in str(job.record.reason)

    def test_an_exit_is_a_failure_and_the_worker_stays(self, shared: JobBoard) -> None:
        before, exiting, after = shared.post("pid"), shared.post("exit"), shared.post("pid")
        assert after.wait(20)
        eventually(lambda: state_of(shared, exiting) is JobState.TRASHED)
        assert shared.get(exiting.uuid).record.reason == "SystemExit: 3"
        assert before.result == after.result

    def test_programs_that_a_handler_starts_heed_signals_as_usual(self, shared: JobBoard) -> None:
        job = shared.post("signals of a child")
        assert job.wait(20)
        assert job.result == "True"

    def test_a_worker_whose_pipe_was_closed_by_its_handler_is_replaced(self, shared: JobBoard) -> None:
        """Also if the number of the pipe is another file's by then."""
        closing, after = shared.post("close the pipe"), shared.post("pid")
        assert after.wait(20)
        eventually(lambda: state_of(shared, closing) is JobState.TRASHED)
        assert shared.get(closing.uuid).record.reason == "its worker process died: killed by SIGKILL"

    def test_the_answer_to_a_request_that_was_given_up_is_no_other_ones(
        self, shared: JobBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        given_up, checkpoint = tmp_path / "given up", Execution.checkpoint

        def checkpoint_late(self: Execution, state: object) -> None:
            eventually(given_up.exists)
            checkpoint(self, state)

        monkeypatch.setattr(Execution, "checkpoint", checkpoint_late)
        job = shared.post("limit a request", details={"given up": str(given_up)})
        assert job.get_result(20) == [1, 2]
        assert job.checkpoint == "late"

    def test_large_details_and_results_pass(self, shared: JobBoard) -> None:
        details = {"data": "x" * 400_000, "until": "/"}
        job = shared.post("endure", details=details)
        assert job.wait(20)


class TestTheStart:
    def test_the_time_that_a_worker_takes_to_start_is_not_the_handlers(self, board: JobBoard) -> None:
        """Importing takes longer than the handler has."""
        with conducting(board, chores.handlers, "process"):
            for _ in range(2):
                job = board.post("brief")
                assert job.wait(20)
                assert job.result == "in time"
                os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)

    def test_handlers_of_no_module_are_refused(self, board: JobBoard) -> None:
        handlers = Handlers()

        def inner(job: object) -> None: ...

        handlers.add("inner", inner)
        conductor = Conductor("test", board, handlers, executor="process")
        with pytest.raises(ValueError, match="the handler for 'inner' can't run in a process"):
            conductor.start()
        assert conductor.wait(0)

    def test_a_script_that_would_start_itself_again_is_told_so(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(
            "import jobboard\n"
            "handlers = jobboard.Handlers()\n"
            "@handlers.handler('a')\n"
            "def a(job): return 'done'\n"
            "GUARD\n"
            "    with jobboard.fetch('work', 'memory://x') as board:\n"
            "        job = board.post('a')\n"
            "        conductor = jobboard.Conductor('test', board, handlers, executor='process')\n"
            "        conductor.start()\n"
            "        assert job.wait(20)\n"
            "        assert conductor.stop(timeout=10)\n"
        )
        good, bad = (script.read_text().replace("GUARD", guard) for guard in ("if __name__ == '__main__':", "if True:"))
        script.write_text(bad)
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "if __name__ ==" in done.stderr
        script.write_text(good)
        assert subprocess.run([sys.executable, script], timeout=60, check=False).returncode == 0

    def test_nothing_is_left_of_a_start_that_failed(self, board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("jobboard.conductor.executors.process._START_TIMEOUT", 0.0)
        before = set(threading.enumerate())
        conductor = Conductor("test", board, chores.handlers, executor="process", concurrency=2)
        with pytest.raises(ValueError, match="can't start"):
            conductor.start()
        assert multiprocessing.active_children() == []
        eventually(lambda: {thread for thread in threading.enumerate() if thread.name != "jobboard-events"} <= before)
        assert board.entities() == []


@pytest.mark.parametrize(("name", "end"), [("pid", "pass"), ("ignore", "pass"), ("ignore", "raise ValueError")])
def test_a_program_that_ends_with_a_conductor_at_work_ends(tmp_path: Path, name: str, end: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import jobboard\n"
        "from helpers import chores\n"
        "from jobboard.testing import eventually\n"
        "if __name__ == '__main__':\n"
        "    board = jobboard.fetch('work', 'memory://x')\n"
        "    board.connect()\n"
        f"    job = board.post({name!r})\n"
        "    conductor = jobboard.Conductor('test', board, chores.handlers, executor='process', concurrency=2)\n"
        "    conductor.start()\n"
        "    eventually(lambda: board.get(job.uuid).record.attempts)\n"
        "    print('at its end', flush=True)\n"
        f"    {end}\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=90, check=False, env=environment
    )
    assert done.stdout == "at its end\n"
    assert done.returncode == (end != "pass")


def test_a_lost_job_is_done_by_its_next_owner_alone(board: JobBoard) -> None:
    with conducting(board, chores.handlers, "process"):
        job = board.post("until killed once")
        eventually(lambda: state_of(board, job) is JobState.CLAIMED)
        board.release(job, reason="a test")
        assert job.wait(20)
        kinds = [line.kind for line in job.history]
        assert kinds.count(EventKind.CONSUMED) == 1
        assert job.token is None
        assert board.get(job.uuid).record.token == 2


def test_a_job_that_a_worker_can_not_read_fails_instead_of_hanging(
    board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when an upgrade replaces the package while a conductor runs, whose next worker is of the new version."""
    with conducting(board, chores.handlers, "process"):
        monkeypatch.setattr(JobSnapshot, "__reduce__", lambda self: (int, ("of another version",)))
        job = board.post("until killed once", max_attempts=1)
        with pytest.raises(JobFailed, match="its worker process died again and again"):
            job.get_result(60)
