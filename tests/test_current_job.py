"""A handler, and every library that it calls, can ask for its job; and its log lines name that."""

from __future__ import annotations

import json
import logging
import logging.handlers
import queue
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from helpers.conducting import conducting
from helpers.logging_handlers import handlers

from jobboard import Job, JobBoard, current_job, fetch
from jobboard.logs import JobFilter
from jobboard.testing import eventually, run_due

EXECUTORS = ["thread", "process", "asyncio"]
NOBODY = [None, {"job": None, "uuid": None, "attempt": None}]
TESTS = Path(__file__).parent


@pytest.fixture
def board() -> JobBoard:
    return fetch("work", f"memory://{uuid.uuid4().hex}")


def found_of(job: Job) -> list[object]:
    return [job.uuid, {"job": job.name, "uuid": job.uuid, "attempt": 1}]


def check_all(board: JobBoard, plain: Job, later: Job, batches: list[Job]) -> None:
    """Check what the handlers have found; a thread that a handler starts by itself does not inherit its job."""
    mine = found_of(plain)
    assert plain.get_result(30) == [mine, mine, NOBODY, mine]
    mine = found_of(later)
    assert later.get_result(30) == [mine, mine, NOBODY, mine]
    for job in batches:
        assert job.get_result(30) == [None, {"job": job.name, "uuid": None, "attempt": None}]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_run_has_its_job_and_the_next_one_its_own(board: JobBoard, executor: str) -> None:
    with board, conducting(board, handlers, executor, concurrency=2):
        for _ in range(3):
            board.post("fail")
            batches = [board.post(name) for name in ("batch", "later batch", "batch")]
            check_all(board, board.post("plain"), board.post("later"), batches)
    assert current_job() is None


def test_the_test_kit_runs_handlers_likewise(board: JobBoard) -> None:
    with board:
        plain, later, batch = (board.post(name) for name in ("plain", "later", "batch"))
        run_due(board, handlers)
        check_all(board, plain, later, [batch])
    assert current_job() is None


def record_of(**extra: Any) -> logging.LogRecord:
    record = logging.getLogger("mine").makeRecord("mine", logging.INFO, "", 1, "said", (), None, extra=extra)
    assert JobFilter().filter(record)
    return record


def test_what_a_record_has_already_stays() -> None:
    record = record_of(job="of another kind", facts={"job": "pack", "uuid": "1", "seconds": 2})
    assert [record.job, record.uuid, record.attempt] == ["of another kind", "1", None]  # type: ignore[attr-defined]
    assert record.facts == {"job": "pack", "uuid": "1", "seconds": 2}  # type: ignore[attr-defined]
    assert record_of(facts="no dict").facts == {}  # type: ignore[attr-defined]


def test_a_queue_carries_the_job_to_whatever_thread_writes_the_line(board: JobBoard) -> None:
    lines: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    handler = logging.handlers.QueueHandler(lines)  # type: ignore[arg-type]  # it only puts
    handler.addFilter(JobFilter())
    logger = logging.getLogger("somebody.elses.library")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with board:
            job = board.post("plain")
            run_due(board, handlers)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    record = lines.get_nowait()
    assert JobFilter().filter(record)
    assert [record.job, record.uuid] == ["plain", job.uuid]  # type: ignore[attr-defined]


def lines_of_conductor(folder: Path, form: str, executor: str) -> tuple[list[Job], list[str]]:
    """Run jobs by the command line, and return them with what it logs."""
    uri = f"sqlite:///{folder}/jobs.db"
    command = [sys.executable, "-m", "jobboard", "--board", uri, "--name", "test", "conductor"]
    command += ["helpers.logging_handlers:handlers", "--executor", executor, "--log-format", form]
    with (
        fetch("test", uri) as board,
        subprocess.Popen(command, cwd=TESTS, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as conductor,
    ):
        try:
            jobs = [board.post(name, {"secret": "hunter2"}) for name in ("plain", "later", "batch")]
            eventually(lambda: all(job.state.name == "COMPLETE" for job in jobs), 60)
            conductor.send_signal(signal.SIGTERM)
            told = conductor.communicate(timeout=60)[1]
        finally:
            conductor.kill()
    assert "hunter2" not in told
    return jobs, [line for line in told.splitlines() if "asks of" in line]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_the_command_line_logs_the_job_of_each_line(tmp_path: Path, executor: str) -> None:
    jobs, lines = lines_of_conductor(tmp_path, "json", executor)
    facts = ("logger", "message", "job", "uuid", "attempt")
    plain, later = [["somebody.elses.library", f"asks of {job.name}", job.name, job.uuid, 1] for job in jobs[:2]]
    batch = ["somebody.elses.library", "asks of batch", "batch", None, None]
    assert [[json.loads(line).get(fact) for fact in facts] for line in lines] == [plain, later, batch]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_its_lines_for_people_begin_with_the_job(tmp_path: Path, executor: str) -> None:
    (plain, later, _), lines = lines_of_conductor(tmp_path, "text", executor)
    assert [line.partition(" INFO ")[2] for line in lines] == [
        f"job 'plain' {plain.uuid} attempt 1: asks of plain",
        f"job 'later' {later.uuid} attempt 1: asks of later",
        "job 'batch': asks of batch",
    ]
