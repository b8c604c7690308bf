"""What becomes of a job's record on ZooKeeper, as clients see it whose clocks differ."""

from __future__ import annotations

from jobboard.backends.rows import NewJob
from jobboard.backends.zookeeper.moves import complete, is_hidden, take_off
from jobboard.backends.zookeeper.record import draft

NOW, BEHIND = 1000.0, 999.5


def test_a_cancelled_job_is_hidden_from_those_whose_clock_is_behind() -> None:
    record = draft(NewJob("u", "resize", 3, b""), 0)
    take_off(record, NOW)
    assert is_hidden(record, BEHIND)


def test_a_job_without_retention_is_hidden_from_those_whose_clock_is_behind() -> None:
    record = draft(NewJob("u", "resize", 3, b""), 0)
    complete(record, None, 0.0, NOW)
    assert is_hidden(record, BEHIND)
    complete(record, None, 5.0, NOW)
    assert not is_hidden(record, NOW + 4.9)
    assert is_hidden(record, NOW + 5)
