"""A row that somebody else has locked: when its claim is extended or ended, and when the job is to be claimed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from harnesses.sql_site import Site

from jobboard import ClaimLost, Conductor, Handlers, Job, JobBoard, JobState, aio
from jobboard.backends.sql import wait_audit
from jobboard.errors import RowLocked
from jobboard.operate.status import status
from jobboard.operate.why import why
from jobboard.testing import eventually

pytest_plugins = ("harnesses.sql_fixtures",)
pytestmark = pytest.mark.in_turn(1)

LONG = 600.0
_FROZEN_CLIENT = Path(__file__).parent.parent / "harnesses" / "frozen_client.py"
_TAKE_BACK = "UPDATE jobboard_jobs SET state = 1, owner = NULL, claim_id = NULL, due_at = NULL WHERE uuid = %s"


@contextmanager
def locked(site: Site, job: Job, *changes: str, seconds: float = 0.2) -> Iterator[None]:
    """Have a job's row locked by another transaction, which ends after a while with these changes."""
    with site.server.client() as client, client.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT id FROM jobboard_jobs WHERE uuid = %s FOR UPDATE", (job.uuid,))

        def end() -> None:
            for change in changes:
                cursor.execute(change, (job.uuid,))
            cursor.execute("COMMIT")

        ending = threading.Timer(seconds, end)
        ending.start()
        yield
        ending.join()


def test_an_extension_is_made_once_the_row_is_free(site: Site) -> None:
    board = site.harness.board()
    board.post("resize")
    [job] = board.claim_next("alice", expiry=LONG)
    with locked(site, job):
        board.extend(job, "alice", 2 * LONG)
    left = job.expires_in()
    assert left is not None
    assert left > LONG


def test_an_extension_is_refused_if_who_has_the_row_takes_the_claim_back(site: Site) -> None:
    board = site.harness.board()
    board.post("resize")
    [job] = board.claim_next("alice", expiry=LONG)
    with locked(site, job, _TAKE_BACK), pytest.raises(ClaimLost):
        board.extend(job, "alice", 2 * LONG)
    assert job.state is JobState.UNCLAIMED


def test_a_client_that_is_frozen_in_its_transaction_keeps_no_job(site: Site) -> None:
    board = site.harness.board()
    job = board.post("resize")
    command = [sys.executable, str(_FROZEN_CLIENT), site.harness.uri(), board.name, job.uuid]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        process = psutil.Process(client.pid)
        try:
            eventually(lambda: process.status() == psutil.STATUS_STOPPED, within=60)
            assert board.claim_next("alice", expiry=LONG) == [], "its row is locked"
            eventually(lambda: board.claim_next("alice", expiry=LONG) == [job], within=60)
            client.send_signal(signal.SIGCONT)
            # Its first try was undone; now it can only ask the owner to end.
            assert client.communicate(timeout=60)[0] == "cancelled\n"
        finally:
            client.kill()
    assert job.state is JobState.CLAIMED
    assert board.get(job.uuid).record.token is not None


@contextmanager
def holding(site: Site, *sequences: int) -> Iterator[None]:
    """Have the rows of jobs locked by another transaction until the block ends."""
    with site.server.client() as client, client.cursor() as cursor:
        cursor.execute("BEGIN")
        for sequence in sequences:
            # MariaDB locks all rows that it looks at, if it has no index for that.
            cursor.execute("SELECT uuid FROM jobboard_jobs WHERE id = %s FOR UPDATE", (sequence,))
        yield
        cursor.execute("ROLLBACK")


@contextmanager
def conducting(board: JobBoard, gate: threading.Event, expiry: float) -> Iterator[Conductor]:
    """A conductor of three slots; jobs "held" end once the gate is open, and jobs "quick" take 50 ms."""
    handlers = Handlers()
    handlers.add("held", lambda job: bool(gate.wait(60)))
    handlers.add("quick", lambda job: time.sleep(0.05))
    conductor = Conductor("worker", board, handlers, concurrency=3, expiry=expiry)
    conductor.start()
    try:
        yield conductor
    finally:
        gate.set()
        conductor.stop(drain=False, timeout=0.1)


def is_over_by_its_row(site: Site, board: JobBoard, job: Job) -> bool:
    [(due_at,)] = site.run("SELECT due_at FROM jobboard_jobs WHERE uuid = %s", job.uuid)
    return bool(due_at < board._backend.now())


def unsent_found(board: JobBoard) -> str:
    return " ".join(finding["text"] for finding in status(board)["findings"] if finding["kind"] == "unsent")


@pytest.mark.parametrize("number", [1, 3])
def test_an_end_whose_row_is_locked_holds_up_no_other_is_told_and_keeps_its_claim(site: Site, number: int) -> None:
    board, gate = site.harness.board(), threading.Event()
    held = [board.post("held") for _ in range(number)]
    with conducting(board, gate, expiry=8.0) as conductor:
        for job in held:
            eventually(lambda job=job: job.state is JobState.CLAIMED, within=30)
        with holding(site, *(job.sequence for job in held)):
            gate.set()
            quick = [board.post("quick") for _ in range(8)]
            assert all(job.wait(30) for job in quick)
            eventually(lambda: set(conductor.unsent) == {job.uuid for job in held}, within=60)
            eventually(lambda: "unsent" in [reason.kind for reason in why(board, board.get(held[0].uuid))], within=60)
            eventually(lambda: all(job.uuid in unsent_found(board) for job in held), within=60)
            for job in held:
                eventually(lambda job=job: is_over_by_its_row(site, board, job), within=60)
            late = board.post("quick")
            assert late.wait(30)
        assert all(job.wait(30) for job in held)
        eventually(lambda: conductor.unsent == [], within=60)
    assert [job.attempts for job in (*held, *quick, late)] == [1] * (number + 9)


def test_a_stop_keeps_its_time_though_an_end_is_held_up(site: Site) -> None:
    board, gate = site.harness.board(), threading.Event()
    job = board.post("held")
    with conducting(board, gate, expiry=30.0) as conductor:
        eventually(lambda: job.state is JobState.CLAIMED, within=30)
        with holding(site, job.sequence):
            gate.set()
            eventually(lambda: conductor.unsent, within=60)
            sent: list[bool] = []
            stopping = threading.Thread(target=lambda: sent.append(conductor.stop(timeout=0.5)))
            stopping.start()
            # Without a time it waits for ten seconds, in vain.
            stopping.join(8.0)
            assert sent == [False]
            assert job.state is JobState.CLAIMED


def test_a_claim_that_nobody_extends_is_over_once_its_row_is_free(site: Site) -> None:
    board = site.harness.board()
    board.post("resize")
    [job] = board.claim_next("alice", expiry=4.0)
    with holding(site, job.sequence):
        board.extend(job, "alice", 30.0)
        eventually(lambda: is_over_by_its_row(site, board, job), within=30)
        board.extend(job, "alice", 30.0)
    assert board.claim_next("bob") == [], "it was extended"
    board.extend(job, "alice", 0.5)
    eventually(lambda: board.claim_next("bob") == [job], within=30)


@pytest.mark.parametrize("number", [1, 3])
def test_an_end_whose_row_is_locked_holds_up_no_other_that_it_is_gathered_with(site: Site, number: int) -> None:
    board = site.harness.board(gather=True)
    for _ in range(10):
        board.post("resize")
    jobs = board.claim_next("alice", limit=10, expiry=LONG)
    with holding(site, *(job.sequence for job in jobs[:number])), ThreadPoolExecutor(10) as threads:
        ends = [threads.submit(board.consume, job, "alice") for job in jobs]
        assert [end.result(60) for end in ends[number:]] == [None] * (10 - number)
        assert not any(end.done() for end in ends[:number]), "before the held one gives up"
        for end in ends[:number]:
            assert isinstance(end.exception(60), RowLocked)
    for job in jobs[:number]:
        board.consume(job, "alice")
    assert board.job_count == 0


def test_an_end_whose_row_is_locked_holds_up_no_other_task(site: Site) -> None:
    async def end_all(name: str) -> list[None]:
        async with aio.AsyncJobBoard(site.harness.board(name)) as board:
            jobs = await board.claim_next("alice", limit=10, expiry=LONG)
            with holding(site, jobs[3].sequence):
                ends = [asyncio.ensure_future(board.consume(job, "alice")) for job in jobs]
                held = ends.pop(3)
                answers = await asyncio.wait_for(asyncio.gather(*ends), 8.0)
                with pytest.raises(RowLocked):
                    await held
            return answers

    board = site.harness.board()
    for _ in range(10):
        board.post("resize")
    assert asyncio.run(end_all(board.name)) == [None] * 9


def test_an_end_whose_row_is_locked_holds_up_no_other_of_its_batch(site: Site) -> None:
    board = site.harness.board()
    for _ in range(10):
        board.post("resize")
    jobs = board.claim_next("alice", limit=10, expiry=LONG)
    with holding(site, *(jobs[number].sequence for number in (0, 4, 9))):
        errors = board.consume_many(jobs, "alice")
    assert [type(error) for error in errors] == [
        RowLocked if number in (0, 4, 9) else type(None) for number in range(10)
    ]
    assert board.consume_many([jobs[0], jobs[4], jobs[9]], "alice") == [None] * 3


def test_a_repair_leaves_the_time_of_a_claim_made_meanwhile(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    board = site.harness.board()
    job = board.post("resize", start_by=datetime.now(UTC) + timedelta(seconds=LONG))
    other = site.harness.board(board.name)
    with site.server.client() as client, client.cursor() as cursor:
        cursor.execute("UPDATE jobboard_jobs SET due_at = due_at + 1000 WHERE uuid = %s", (job.uuid,))
        cursor.execute("COMMIT")
    is_late = wait_audit._is_late

    def claim_then_look(row: Any) -> bool:
        monkeypatch.undo()
        other.claim(job, "alice", 10 * LONG)
        return is_late(row)

    monkeypatch.setattr(wait_audit, "_is_late", claim_then_look)
    assert [found.uuid for found in board.audit(repair=True)] == [job.uuid]
    left = board.get(job.uuid).expires_in()
    assert left is not None
    assert left > 2 * LONG
