"""What becomes of a job on ZooKeeper, as clients see it whose clocks differ."""

from __future__ import annotations

from jobboard.backends import lifecycle
from jobboard.backends.rows import ClaimRequest, Consumption, Fence, NewJob
from jobboard.backends.zookeeper.stored_job import StoredJob, new_job

NOW, BEHIND = 1000.0, 999.5


def posted() -> StoredJob:
    return new_job(NewJob("u", "resize", 3, b""), 0, 0.0)


def consumed(retention: float) -> StoredJob:
    job = posted()
    job.apply(lambda: lifecycle.claim(job, ClaimRequest("alice", "c", 60.0), NOW, 7), NOW)
    end = Consumption(Fence("u", "alice", 7), None, retention)
    job.apply(lambda: lifecycle.consume(job, end, NOW), NOW)
    return job


def test_a_cancelled_job_is_hidden_from_those_whose_clock_is_behind() -> None:
    job = posted()
    job.apply(lambda: lifecycle.cancel(job, NOW), NOW)
    assert job.is_hidden(BEHIND)


def test_a_job_without_retention_is_hidden_from_those_whose_clock_is_behind() -> None:
    assert consumed(0.0).is_hidden(BEHIND)
    job = consumed(5.0)
    assert not job.is_hidden(NOW + 4.9)
    assert job.is_hidden(NOW + 5)
