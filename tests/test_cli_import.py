"""Exported jobs on another board: each once, with what it carries, and what becomes of those that can't be posted."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from helpers.command_line import Run, as_json
from helpers.conducting import lossy_board

from jobboard import BoardUnavailable, JobBoard, JobState, LogBook, Posting, backend, fetch
from jobboard.logbook import BookRef
from jobboard.operate.importing import import_jobs
from jobboard.operate.json_values import from_json, to_json
from jobboard.validation import new_uuid

pytest_plugins = ("helpers.command_fixtures",)

Import = Callable[..., str]
DETAILS = {
    "at": datetime(2030, 1, 31, 9, 0, 0, 123456, tzinfo=UTC), "raw": b"\x00\xff", "far": math.inf, "none": None,
    "like": [{"$bytes": "no base64"}, {"$dict": {"$float": 1.5}}, {"$datetime": 3, "and": 4}], "text": "\u2028\n",
    "number": 2**63, "half": 0.5,
}  # fmt: skip


@pytest.fixture
def other(tmp_path: Path) -> Iterator[JobBoard]:
    with backend("other", f"sqlite:///{tmp_path}/other.db") as board:
        yield board


@pytest.fixture
def import_(jobboard: Run, other: JobBoard, tmp_path: Path) -> Import:
    """Export what the options select, and import it into the other board."""

    def run(*arguments: str, export: tuple[str, ...] = ("--details",), status: int = 0) -> str:
        file = tmp_path / "jobs.jsonl"
        file.write_text(jobboard("export", *export), encoding="utf-8")
        uri = f"sqlite:///{tmp_path}/other.db"
        return jobboard("--board", uri, "--name", "other", "import", str(file), *arguments, status=status)

    return run


def test_a_job_keeps_all_that_it_was_posted_with(import_: Import, board: JobBoard, other: JobBoard) -> None:
    ref = BookRef("taskflow", "mysql://host/db", "book")
    posted = [
        board.post("a", details=DETAILS, priority="high", key="k", max_attempts=3),
        board.post("b", book=ref, run_at=datetime.now(UTC) + timedelta(days=1)),
    ]
    assert import_() == "2 jobs imported\n"
    for job in posted:
        same = other.get(job.uuid)
        for field in ("name", "details", "priority", "key", "max_attempts", "run_at", "book_ref"):
            assert getattr(same, field) == getattr(job, field)


def test_the_same_file_again_changes_nothing(import_: Import, board: JobBoard, other: JobBoard) -> None:
    board.post_many([Posting("a") for _ in range(250)])
    import_()
    for job in other.claim_next("me", limit=2):
        other.consume(job, "me")
    other.cancel(next(other.iterjobs()))
    board.post("a")
    assert import_("--dry-run") == "2 jobs importable; 249 known to the board already\n"
    assert other.job_count == 247
    assert as_json(import_("--json")) == {"imported": 1, "there": 250, "left_out": 0, "refused": []}
    assert other.job_count == 248


def test_the_order_of_claims_stays(import_: Import, board: JobBoard, other: JobBoard) -> None:
    board.post_many([Posting("a", priority="low"), Posting("b"), Posting("c", priority="high"), Posting("d")])
    import_()
    assert [job.name for job in other.claim_next("me", limit=9)] == ["c", "b", "d", "a"]


def test_jobs_in_other_states_only_when_asked_for(import_: Import, board: JobBoard, other: JobBoard) -> None:
    claimed, bad, done = (board.post(name) for name in ("claimed", "bad", "done"))
    for job in (claimed, done):
        board.claim(job, "me")
    board.consume(done, "me")
    board.trash(bad, by="me", reason="bad")
    everything = ("--details", "--state", "claimed", "--state", "trashed", "--state", "complete")
    assert import_(export=everything) == "1 job imported; 2 in other states left out\n"
    assert (other.get(claimed.uuid).state, other.get(claimed.uuid).attempts) == (JobState.UNCLAIMED, 0)
    import_("--state", "trashed", export=everything)
    assert other.get(bad.uuid).state == JobState.UNCLAIMED
    import_("--state", "complete", export=everything, status=2)


def test_what_is_refused_stops_no_other(import_: Import, board: JobBoard, other: JobBoard) -> None:
    taken = other.post("a", key="k")
    board.post_many([Posting("b"), Posting("a", key="k"), Posting("c")])
    assert f"is not imported: a live job 'a' has the key 'k': {taken.uuid}" in import_(status=1)
    assert sorted(job.name for job in other.iterjobs()) == ["a", "b", "c"]


def test_a_job_with_a_logbook_is_refused(import_: Import, board: JobBoard, other: JobBoard) -> None:
    job = board.post("a", book=LogBook("notes"))
    board.post("b")
    assert f"job {job.uuid} is not imported: it points at a logbook" in import_(status=1)
    assert [job.name for job in other.iterjobs()] == ["b"]


def test_what_is_too_large_for_the_other_board_is_refused(other: JobBoard) -> None:
    postings = [Posting("a", details={"text": "x" * size}, uuid=new_uuid()) for size in (10, 600_000, 10)]
    outcome = import_jobs(other, postings, lambda steps: None)
    assert (outcome.posted, other.job_count) == (2, 2)
    (line,) = outcome.refused
    assert f"job {postings[1].uuid} is not imported: details is 600" in line


def test_no_request_is_about_more_jobs_than_the_store_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    with lossy_board() as (board, backend):
        asked: list[int] = []
        read = backend.inner.jobs.read
        monkeypatch.setattr(backend, "capabilities", replace(backend.capabilities, largest_batch=5))
        monkeypatch.setattr(backend.inner.jobs, "read", lambda uuids: asked.append(len(uuids)) or read(uuids))
        assert import_jobs(board, [Posting("a", uuid=new_uuid()) for _ in range(12)], lambda steps: None).posted == 12
        assert max(asked) == 5


def test_an_outage_says_how_far_it_came() -> None:
    with fetch("a", "memory://import") as board:
        postings = [Posting("a", uuid=new_uuid()) for _ in range(150)]
        with pytest.raises(BoardUnavailable, match="before that, 100 jobs were posted: import again"):
            import_jobs(board, postings, lambda steps: board.close())
        board.connect()
        outcome = import_jobs(board, postings, lambda steps: None)
        assert (outcome.posted, outcome.there, board.job_count) == (50, 100, 150)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("x", "Expecting value"),
        ("[1]", "no JSON object, but list"),
        ("{}", "it has no 'state'"),
        ('{"state": "OPEN"}', "there is no state 'OPEN'"),
        ('{"state": "UNCLAIMED"}', "without details; write the file by: jobboard export --details"),
        ('{"state": "UNCLAIMED", "details": {"a": {"$bytes": 1}}, "run_at": null, "name": "a"}', "value of a $bytes"),
    ],
)
def test_a_file_that_is_none_changes_nothing(
    jobboard: Run, board: JobBoard, tmp_path: Path, line: str, fault: str
) -> None:
    board.post("a")
    (tmp_path / "file").write_text(f"{jobboard('export', '--details')}\n{line}")
    board.cancel(next(board.iterjobs()))
    told = jobboard("import", str(tmp_path / "file"), status=2)
    assert told.startswith("jobboard: line 3 of the file is no exported job: ")
    assert fault in told
    assert board.job_count == 0


def test_json_values_are_those_that_were_there() -> None:
    assert from_json(json.loads(json.dumps(to_json(DETAILS), allow_nan=False))) == DETAILS
