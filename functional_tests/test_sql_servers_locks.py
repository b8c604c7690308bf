"""A row that somebody else has locked, when its claim is extended, or when the job is to be claimed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from harnesses.sql_site import Site

from jobboard import ClaimLost, Job, JobState
from jobboard.testing import eventually

pytest_plugins = ("harnesses.sql_fixtures",)

LONG = 600.0
_FROZEN_CLIENT = Path(__file__).parent / "harnesses" / "frozen_client.py"
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
