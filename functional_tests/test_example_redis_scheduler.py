"""The example ``redis_scheduler``: two schedulers and a conductor, of which one each is killed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from harnesses.examples import WITHIN, Run, claimed_by
from servers.redis_servers import RedisServer

from jobboard import Job, JobBoard, JobState, backend
from jobboard.testing import eventually

pytest_plugins = ("harnesses.example_processes",)
# Several Python processes start one after the other.
pytestmark = pytest.mark.timeout(400)

EVERY = timedelta(seconds=1)
CONDUCTOR = ("jobboard", "conductor", "redis_scheduler.reports:handlers", "--expiry", "1")


@pytest.fixture
def board(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobBoard]:
    monkeypatch.setenv("JOBBOARD_URI", redis_server.uri)
    monkeypatch.setenv("JOBBOARD_NAME", "reports")
    monkeypatch.setenv("REPORT_EVERY", str(EVERY.total_seconds()))
    monkeypatch.setenv("REPORT_TAKES", "0.5")
    with backend("reports", redis_server.uri) as board:
        yield board


def posted(board: JobBoard) -> list[Job]:
    return sorted(board.iterjobs(states=set(JobState)), key=fire_time)


def fire_time(job: Job) -> datetime:
    return job.fire_time or datetime.min.replace(tzinfo=UTC)


def test_each_fire_time_is_reported_once_though_a_scheduler_and_a_conductor_die(
    board: JobBoard, redis_server: RedisServer, run: Run
) -> None:
    assert run("redis_scheduler.plan").wait(WITHIN) == 0
    one, _other = (run("jobboard", "scheduler", "--label", host) for host in ("a", "b"))
    first = run(*CONDUCTOR)
    eventually(lambda: sorted(e.kind for e in board.entities()) == ["conductor", "scheduler", "scheduler"], WITHIN)

    claimed = eventually(lambda: claimed_by(first, board), WITHIN, every=0.3)
    first.kill()
    one.kill()
    before = len(posted(board))
    run(*CONDUCTOR)

    assert all(job.wait(WITHIN) for job in claimed)
    eventually(lambda: len(posted(board)) >= before + 3, WITHIN)
    board.schedules.remove("report")
    jobs = posted(board)
    assert all(job.wait(WITHIN) for job in jobs)
    times = [fire_time(job) for job in jobs]
    assert times == [times[0] + number * EVERY for number in range(len(times))]
    with redis_server.client(decode_responses=True) as store:
        assert store.hgetall("reports") == {fire_time(job).isoformat(): job.uuid for job in jobs}
