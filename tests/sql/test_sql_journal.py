"""The journal: it stays small, and repeats are still found in it."""

from __future__ import annotations

from pathlib import Path

from helpers.sql_seam import back, claimed, consumption, fence_of, post, posting, renewal, run_sql

from jobboard.backends.base import RETRY_WINDOW
from jobboard.backends.rows import Consumption, IfExists, Lost, PostOutcome, Verdict
from jobboard.backends.sql import SqliteBackend
from jobboard.states import JobState

pytest_plugins = ("helpers.sqlite_fixtures",)


def lines(path: Path) -> int:
    ((number,),) = run_sql(path, "SELECT count(*) FROM jobboard_journal")
    return int(number)


def let_time_pass(path: Path) -> None:
    """Make what was written look older than any repeat could be."""
    run_sql(path, "UPDATE jobboard_journal SET at = at - ?", RETRY_WINDOW + 1.0)
    run_sql(path, "UPDATE jobboard_jobs SET retain_until = retain_until - ?", RETRY_WINDOW + 1.0)


def test_renewals_and_checkpoints_neither_grow_the_journal_nor_flush_the_history(
    path: Path, backend: SqliteBackend
) -> None:
    post(backend)
    row = claimed(backend)
    for _ in range(30):
        backend.jobs.extend([renewal(row)])
        backend.jobs.checkpoint(fence_of(row), b"half")
    assert lines(path) == 3
    assert [line.kind.value for line in backend.jobs.history(row.uuid)] == ["POSTED", "CLAIMED"]


def test_a_job_that_comes_back_for_ever_keeps_its_last_twenty_lines(path: Path, backend: SqliteBackend) -> None:
    row = post(backend)
    for turn in range(40):
        row = claimed(backend)
        backend.jobs.extend([renewal(row)])
        backend.jobs.abandon([back(row)])
        if turn % 5 == 4:
            let_time_pass(path)
    for _ in range(3):
        row = claimed(backend)
        backend.jobs.abandon([back(row)])
    assert len(backend.jobs.history(row.uuid)) == 20
    assert [line.token for line in backend.jobs.history(row.uuid)[-2:]] == [row.token] * 2
    assert lines(path) < 40


def test_a_key_that_is_replaced_for_ever_doesnt_grow_the_journal(path: Path, backend: SqliteBackend) -> None:
    for turn in range(60):
        backend.jobs.post([posting(key="k", if_exists=IfExists.REPLACE)])
        if turn % 5 == 4:
            let_time_pass(path)
    assert lines(path) < 30


def test_a_repeat_is_found_however_much_has_happened_since(backend: SqliteBackend) -> None:
    post(backend)
    first = claimed(backend)
    backend.jobs.abandon([back(first)])
    for _ in range(30):
        backend.jobs.abandon([back(claimed(backend))])
    assert backend.jobs.abandon([back(first)]) == [Verdict.REPEATED]
    assert len(backend.jobs.history(first.uuid)) == 20


def test_a_replacement_is_found_however_many_came_since(backend: SqliteBackend) -> None:
    row = post(backend, key="k")
    first = posting(key="k", if_exists=IfExists.REPLACE, body=b"first")
    backend.jobs.post([first])
    for number in range(30):
        backend.jobs.post([posting(key="k", if_exists=IfExists.REPLACE, body=b"%d" % number)])
    (answer,) = backend.jobs.post([first])
    assert (answer.outcome, answer.row.uuid, answer.row.body) == (PostOutcome.SAME, row.uuid, b"29")


def test_one_end_twice_in_a_batch_is_done_once(backend: SqliteBackend) -> None:
    post(backend)
    end: Consumption = consumption(claimed(backend))
    assert backend.jobs.consume([end, end]) == [Verdict.DONE, Verdict.REPEATED]


def test_tidying_leaves_nothing_of_what_is_over(path: Path, backend: SqliteBackend) -> None:
    kept = post(backend)
    backend.jobs.post([posting(uuid=kept.uuid)])
    rows = [post(backend, "gone") for _ in range(5)]
    for _ in range(5):
        backend.jobs.consume([consumption(claimed(backend, names={"gone"}), retention=0.0)])
    backend.maintenance.pause("x")
    backend.maintenance.resume("x")
    assert backend.maintenance.tidy(100) == 0
    assert backend.jobs.read([rows[0].uuid]) == [None]
    let_time_pass(path)
    assert (backend.maintenance.tidy(3), backend.maintenance.tidy(3), backend.maintenance.tidy(3)) == (3, 2, 0)
    assert backend.maintenance.audit(False) == []
    assert lines(path) == 1
    assert backend.jobs.count() == 1


def test_a_token_outlives_the_memory_of_its_job(path: Path, backend: SqliteBackend) -> None:
    row = post(backend)
    backend.jobs.abandon([back(claimed(backend))])
    first = claimed(backend)
    backend.jobs.consume([consumption(first, retention=0.0)])
    let_time_pass(path)
    assert backend.maintenance.tidy(1) == 1
    backend.jobs.post([posting(uuid=row.uuid)])
    assert claimed(backend).token > first.token
    assert backend.jobs.consume([consumption(first)]) == [Lost(JobState.CLAIMED, "alice")]
