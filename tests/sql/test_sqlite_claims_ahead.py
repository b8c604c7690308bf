"""A post claims its job for one who waits on the file: whatever breaks then, the job runs once, and is not lost."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack
import pytest
from helpers.conducting import conducting
from helpers.sql_seam import claim_next, consumption, next_line, opened, other_process, post, posting
from helpers.sqlite_waiting import LONG, armed, kinds_of, put_another, read, requests, uuids_of

from jobboard import Handlers, JobBoard, JobState, fetch
from jobboard.backends.rows import JobRow, PostOutcome
from jobboard.backends.sql import SqliteBackend
from jobboard.backends.sql.sqlite import waiting
from jobboard.errors import BoardUnavailable
from jobboard.testing import eventually

pytest_plugins = ("helpers.sqlite_fixtures",)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere everybody claims by himself")

WAIT = """
import sys
from pathlib import Path
from helpers.sql_seam import opened
with opened(Path(sys.argv[1])) as backend, backend.waiter(frozenset(["resize"])) as waiter:
    waiter.claim_ahead("other", 600.0)
    assert waiter.ready_in() is None
    print("ready", flush=True)
    input()
"""
POST_AND_STOP = """
import os, signal, sys
from pathlib import Path
from helpers.sql_seam import opened, post
with opened(Path(sys.argv[1])) as backend:
    database, when = backend.database, sys.argv[2]
    commit = database._commit
    def commit_and_die(cursor):
        if when == "after":
            commit(cursor)
        os.kill(os.getpid(), signal.SIGKILL)
    database._commit = commit_and_die
    post(backend)
"""


def test_who_waits_gets_the_job_with_the_claim(backend: SqliteBackend, poster: SqliteBackend) -> None:
    began = time.monotonic()
    with armed(backend) as waiter:
        job = post(poster, max_attempts=3)
        assert (job.state, job.token) == (JobState.UNCLAIMED, 0)
        waiter.wait(60)
        [row], since = waiter.claimed()
        assert row == read(poster, job)
        assert (row.owner, row.attempts, row.state) == ("idle", 1, JobState.CLAIMED)
        assert row.expires_at == row.last_modified + LONG
        assert began < since < time.monotonic()
        assert kinds_of(poster, job) == ["POSTED", "CLAIMED"]
        assert waiter.claimed() == ([], float("inf"))
        assert [verdict.name for verdict in backend.jobs.consume([consumption(row, who="idle")])] == ["DONE"]


def test_its_tokens_grow_as_those_of_any_other_claim(backend: SqliteBackend, poster: SqliteBackend) -> None:
    tokens = []
    with armed(backend) as waiter:
        for _ in range(3):
            job = post(poster)
            [row], _ = waiter.claimed()
            assert (row.uuid, row.sequence) == (job.uuid, job.sequence)
            poster.jobs.release(row.uuid, row.token, "broken")
            [again] = claim_next(backend)
            tokens += [row.token, again.token]
            assert again.token > row.token
            put_another(waiter)
    assert tokens == sorted(set(tokens))
    plain = post(poster)
    assert plain.sequence > job.sequence


def unannounced(backend: SqliteBackend, folder: Path) -> None:
    """Let no answer arrive."""
    for fifo in folder.glob("*.answers"):
        fifo.unlink()


def test_what_was_claimed_is_found_when_the_answer_is_lost(
    backend: SqliteBackend, poster: SqliteBackend, folder: Path
) -> None:
    with armed(backend) as waiter:
        unannounced(backend, folder)
        job = post(poster)
        # Polls find the commit.
        waiter.wait(60)
        assert uuids_of(waiter) == [job.uuid]


def test_an_announced_claim_counts_when_it_is_committed(
    backend: SqliteBackend, poster: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    received, commit = list[tuple[list[JobRow], list[JobRow]]](), poster.database._commit

    def hear_and_commit(cursor: Any) -> None:
        assert waiter._fifos is not None
        waiter._hear(waiter._fifos)
        received.append((waiter._announced, waiter._claimed))
        commit(cursor)

    monkeypatch.setattr(poster.database, "_commit", hear_and_commit)
    with armed(backend) as waiter:
        job = post(poster)
        waiter.wait(60)
        [row], _ = waiter.claimed()
        assert row == read(poster, job)
        assert received == [([row], [])]


@contextmanager
def without_answers(folder: Path) -> Iterator[Path]:
    """Keep answers from the only one who waits; yields the FIFO that he hears of again afterwards."""
    [answers] = folder.glob("*.answers")
    hidden = answers.rename(folder / "hidden")
    yield answers
    hidden.rename(answers)


def test_what_was_claimed_is_found_if_only_its_commit_was_heard_of(
    backend: SqliteBackend, poster: SqliteBackend, folder: Path
) -> None:
    with armed(backend) as waiter:
        [request] = requests(poster)
        with without_answers(folder) as answers:
            job = post(poster)
        with answers.open("wb", buffering=0) as fifo:
            fifo.write(msgpack.packb(request.claim_id))
        waiter.wait(60)
        assert uuids_of(waiter) == [job.uuid]


def test_what_was_claimed_is_found_if_its_row_is_too_long_for_an_answer(
    backend: SqliteBackend, poster: SqliteBackend
) -> None:
    with armed(backend) as waiter:
        job = post(poster, body=b"x" * 5000)
        waiter.wait(60)
        [row], _ = waiter.claimed()
        assert (row.uuid, row.body) == (job.uuid, b"x" * 5000)


def test_an_answer_that_comes_after_its_job_was_found_does_not_bring_it_again(
    backend: SqliteBackend, poster: SqliteBackend, folder: Path
) -> None:
    with armed(backend) as waiter:
        [request] = requests(poster)
        with without_answers(folder) as answers:
            job = post(poster)
        assert uuids_of(waiter) == [job.uuid]
        with answers.open("wb", buffering=0) as fifo:
            fifo.write(msgpack.packb([request.claim_id, [job.uuid]]))
        put_another(waiter)
        assert uuids_of(waiter) == []


def test_nothing_is_claimed_for_whoever_waits_no_more(backend: SqliteBackend, poster: SqliteBackend) -> None:
    with armed(backend) as waiter:
        assert waiter.claimed()[0] == []
        job = post(poster)
        assert read(poster, job).state is JobState.UNCLAIMED
        assert uuids_of(waiter) == []
    with armed(backend, "other"):
        pass
    job = post(poster, "other")
    assert read(poster, job).state is JobState.UNCLAIMED


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_poster_that_is_killed_at_its_commit(
    path: Path, backend: SqliteBackend, poster: SqliteBackend, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the other process takes long to start.
    monkeypatch.setattr(waiting, "MAX_STANDING", LONG)
    with armed(backend) as waiter:
        with other_process(POST_AND_STOP, path, when) as process:
            assert process.wait(60) == -signal.SIGKILL
        assert requests(poster) == []
        claimed = uuids_of(waiter)
        assert len(claimed) == (when == "after") == poster.jobs.count()
        # After that it goes on as before.
        put_another(waiter)
        job = post(poster)
        assert uuids_of(waiter) == [job.uuid]


def test_a_commit_that_fails_wakes_who_waits(
    backend: SqliteBackend, poster: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(cursor: Any) -> None:
        raise BoardUnavailable("the disk is gone")

    with armed(backend) as waiter:
        with monkeypatch.context() as patch:
            patch.setattr(poster.database, "_commit", fail)
            with pytest.raises(BoardUnavailable):
                post(poster)
        waiter.wait(60)
        assert (uuids_of(waiter), poster.jobs.count()) == ([], 0)
        assert waiter.ready_in() is None
        assert len(requests(poster)) == 1


def test_a_repeated_post_claims_nothing(backend: SqliteBackend, poster: SqliteBackend) -> None:
    new = posting()
    with armed(backend) as waiter:
        poster.jobs.post([new])
        [row], _ = waiter.claimed()
        put_another(waiter)
        [again] = poster.jobs.post([new])
        assert (again.outcome, again.row.token) == (PostOutcome.SAME, row.token)
        assert uuids_of(waiter) == []
    assert kinds_of(poster, row) == ["POSTED", "CLAIMED"]


def test_a_conductor_that_was_killed_gets_nothing(path: Path, poster: SqliteBackend, folder: Path) -> None:
    with other_process(WAIT, path) as process:
        assert next_line(process) == "ready"
        assert len(requests(poster)) == 1
        process.kill()
        process.wait()
        job = post(poster)
    assert read(poster, job).state is JobState.UNCLAIMED
    assert list(folder.iterdir()) == []


def test_what_killed_conductors_leave_goes_with_the_next_one_who_waits(
    path: Path, backend: SqliteBackend, folder: Path
) -> None:
    """No post may come that would delete it: batches and schedules read no requests."""
    for _ in range(2):
        with other_process(WAIT, path) as process:
            assert next_line(process) == "ready"
            process.kill()
            process.wait()
    with armed(backend), armed(backend):
        assert len(list(folder.iterdir())) == 4
    assert not folder.exists()


def test_one_that_was_stopped_for_long_gets_nothing(
    backend: SqliteBackend, poster: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MAX_STANDING", -1.0)
    with armed(backend) as waiter:
        job = post(poster)
        assert read(poster, job).state is JobState.UNCLAIMED
        assert uuids_of(waiter) == []


def test_a_request_does_not_stand_for_long(
    backend: SqliteBackend, poster: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MAX_STANDING", 0.01)
    with armed(backend) as waiter:
        first = waiter._claim_id
        while waiter._claim_id == first:
            assert waiter.ready_in() is None
            waiter.wait(0.02)
        monkeypatch.setattr(waiting, "MAX_STANDING", LONG)
        assert waiter.claimed()[0] == []
        put_another(waiter)
        job = post(poster)
        assert uuids_of(waiter) == [job.uuid]


def pause(poster: SqliteBackend) -> None:
    poster.maintenance.pause("other")


@pytest.mark.parametrize(
    ("before", "options"),
    [
        (pause, {}),
        (lambda poster: None, {"name": "other"}),
        (lambda poster: None, {"delay": LONG}),
        (lambda poster: None, {"run_at": 4e9}),
    ],
    ids=["a name is paused", "another name", "a delay", "a moment"],
)
def test_what_does_not_suit_lets_the_request_stand(
    backend: SqliteBackend, poster: SqliteBackend, before: Callable[[SqliteBackend], None], options: dict[str, Any]
) -> None:
    with armed(backend) as waiter:
        standing = requests(poster)
        before(poster)
        job = post(poster, **options)
        assert read(poster, job).token == 0
        assert requests(poster) == standing
        assert uuids_of(waiter) == []


def test_boards_of_one_file_claim_nothing_of_each_other(path: Path, backend: SqliteBackend) -> None:
    with opened(path, "another") as other, armed(backend) as waiter:
        job = post(other)
        assert (read(other, job).token, uuids_of(waiter)) == (0, [])


def test_a_job_that_was_ready_before_is_claimed_first(backend: SqliteBackend, poster: SqliteBackend) -> None:
    with armed(backend, "resize", "other") as waiter:
        # A job of a batch is left to the first claim.
        poster.jobs.post([posting("other"), posting("nobody's")])
        later = post(poster)
        assert read(poster, later).state is JobState.UNCLAIMED
        waiter.wait(60)
        assert uuids_of(waiter) == []


def test_of_two_who_wait_one_gets_the_job(backend: SqliteBackend, poster: SqliteBackend) -> None:
    with armed(backend) as one, armed(backend) as other:
        job = post(poster)
        assert sorted([uuids_of(one), uuids_of(other)]) == [[], [job.uuid]]


def noting(ran: list[str]) -> Handlers:
    """Return handlers that note what they run."""
    handlers = Handlers()
    handlers.add("step", lambda job: ran.append(job.uuid))
    return handlers


@pytest.fixture
def board(path: Path) -> Iterator[JobBoard]:
    with fetch("board", f"sqlite:///{path}?synchronous=OFF") as board:
        yield board


def post_until_claimed_ahead(poster: SqliteBackend) -> list[JobRow]:
    """Post jobs until one is claimed for a conductor that waits; return them."""
    posted = list[JobRow]()

    def is_claimed_ahead() -> bool:
        asked = {request.claim_id for request in requests(poster)}
        posted.append(post(poster, "step", body=b"\x95\x01\xc0\xc0\xc0\xc0\x80"))
        claim_id = read(poster, posted[-1]).claim_id
        return claim_id in asked

    eventually(is_claimed_ahead)
    return posted


def test_conductors_run_what_was_claimed_for_them(board: JobBoard, poster: SqliteBackend) -> None:
    ran = list[str]()
    with conducting(board, noting(ran)):
        posted = post_until_claimed_ahead(poster)
        eventually(lambda: board.job_count == 0)
    assert ran == [row.uuid for row in posted]
    for row in posted:
        assert kinds_of(poster, row) == ["POSTED", "CLAIMED", "CONSUMED"]
    assert board.audit() == []


def test_who_slept_for_longer_than_its_claim_does_not_run_what_was_claimed_for_it(
    board: JobBoard, poster: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, claimed = list[str](), waiting.SqliteWaiter.claimed

    def claimed_long_ago(waiter: waiting.SqliteWaiter) -> tuple[list[JobRow], float]:
        rows, since = claimed(waiter)
        return rows, since - LONG

    monkeypatch.setattr(waiting.SqliteWaiter, "claimed", claimed_long_ago)
    with conducting(board, noting(ran)):
        job = post_until_claimed_ahead(poster)[-1]
        eventually(lambda: board.job_count == 0)
    assert ran[-1] == job.uuid
    # It can't know whether the claim holds, so it gives it back.
    assert kinds_of(poster, job) == ["POSTED", "CLAIMED", "ABANDONED", "CLAIMED", "CONSUMED"]


def test_jobs_that_many_post_run_once_each(path: Path, board: JobBoard) -> None:
    ran, posted = list[str](), list[str]()
    handlers = noting(ran)
    uri = f"sqlite:///{path}?synchronous=OFF"

    def post_some() -> None:
        with fetch("board", uri) as own:
            for _ in range(40):
                posted.append(own.post("step").uuid)

    posters = [threading.Thread(target=post_some) for _ in range(2)]
    with fetch("board", uri) as second, conducting(board, handlers), conducting(second, handlers):
        for poster in posters:
            poster.start()
        for poster in posters:
            poster.join(60)
        eventually(lambda: board.job_count == 0)
    assert Counter(ran) == Counter(posted)
    assert {board.get(uuid).record.attempts for uuid in posted} == {1}
    assert board.audit() == []
