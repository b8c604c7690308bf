"""What TaskFlow's own tests don't ask of a board of ours, and of its jobs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from taskflow import exceptions, states
from taskflow.jobs import backends, base
from taskflow.persistence import models
from taskflow.types import entity

from jobboard.testing import eventually

Fetch = Callable[..., Any]


@pytest.fixture
def fetch() -> Iterator[Fetch]:
    """Open boards that share their jobs."""
    opened: list[Any] = []
    namespace = f"tf-{uuid.uuid4().hex}"

    def fetch(**options: Any) -> Any:
        conf = {"board": "jobboard", "uri": "memory://", "namespace": namespace, **options}
        opened.append(backends.fetch("test", conf))
        opened[-1].connect()
        return opened[-1]

    yield fetch
    for board in opened:
        board.close()


def test_a_claim_without_an_expiry_is_renewed_and_one_with_an_expiry_is_not(fetch: Fetch) -> None:
    board = fetch(ttl=3)
    kept, left = board.post("kept"), board.post("left")
    board.claim(kept, "a")
    board.claim(left, "a", expiry=0.1)
    ends = kept.job.record.expires_at
    assert eventually(lambda: left.state == states.UNCLAIMED)
    assert eventually(lambda: kept.state == states.CLAIMED and kept.job.record.expires_at > ends)
    board.consume(kept, "a")
    assert kept.state == states.COMPLETE


def test_who_has_lost_a_claim_is_told_and_can_end_nothing(fetch: Fetch) -> None:
    board, other = fetch(ttl=3), fetch()
    job = board.post("lost")
    board.claim(job, "a")
    other.board.release(job.uuid, reason="test")
    for end in (board.consume, board.abandon, board.trash):
        with pytest.raises(exceptions.NotFound):
            end(job, "a")
    board.claim(job, "a")
    assert not job.claim_lost
    other.board.release(job.uuid, reason="test")
    assert eventually(lambda: job.claim_lost)
    [same] = other.iterjobs()
    other.claim(same, "b")
    assert not job.extend_expiry(5.0)
    for end in (board.consume, board.abandon, board.trash):
        with pytest.raises(exceptions.JobFailure, match="claimed by b"):
            end(job, "a")


def test_other_boards_of_the_process_may_extend_and_end_a_claim_by_its_owners_name(fetch: Fetch) -> None:
    """As a program does that opens a board to extend what its conductor has claimed."""
    board, other = fetch(), fetch()
    job = board.post("job")
    assert job.expires_in() == -2
    board.claim(job, "a", expiry=5.0)
    [seen] = other.iterjobs()
    assert 0 < seen.expires_in() <= 5.0
    assert seen.extend_expiry(100.0)
    assert job.expires_in() > 50
    other.consume(seen, "a")
    assert not seen.extend_expiry(1.0)
    assert job.wait(timeout=1.0)


def test_jobs_come_in_the_order_of_their_priority_then_of_their_posts(fetch: Fetch) -> None:
    board = fetch()
    wanted = ["LOW", "NORMAL", "VERY_HIGH", "NORMAL", base.JobPriority.HIGH, "VERY_LOW"]
    posted = [board.post(f"{number}", priority=priority) for number, priority in enumerate(wanted)]
    jobs = list(board.iterjobs())
    assert [job.name for job in jobs] == ["2", "4", "1", "3", "0", "5"]
    assert sorted(posted) == jobs
    assert base.JobPriority.reorder(*((job.priority, job) for job in posted)) == tuple(jobs)
    with pytest.raises(ValueError, match="priority"):
        board.post("x", priority="URGENT")
    assert [board.claim_next("a").name for _ in range(2)] == ["2", "4"]
    assert next(board.wait(1.0)).name == "1"


def test_an_iterator_takes_its_attributes_until_the_first_job(fetch: Fetch) -> None:
    board = fetch()
    board.claim(board.post("claimed"), "a")
    board.post("unclaimed")
    iterator = board.iterjobs(ensure_fresh=True)
    assert (iterator.board, iterator.only_unclaimed, iterator.ensure_fresh) == (board, False, True)
    assert isinstance(iterator, base.JobBoardIterator)
    iterator.only_unclaimed = True
    assert [job.name for job in iterator] == ["unclaimed"]


def test_a_job_tells_what_taskflows_jobs_tell(fetch: Fetch) -> None:
    board = fetch()
    book = models.LogBook("the book")
    job = board.post("job", book=book, details={"secret": 1, "store": {"x": [1, 2]}})
    [seen] = board.iterjobs()
    assert (seen.name, seen.uuid, seen.details, seen.board) == ("job", job.uuid, job.details, board)
    assert (seen.book_uuid, seen.book_name, seen.book) == (book.uuid, "the book", None)
    assert job.book is book
    assert isinstance(seen.created_on, datetime)
    assert seen.created_on.tzinfo is None
    assert seen.created_on <= seen.last_modified
    assert "secret" not in str(seen)
    with pytest.raises(exceptions.JobFailure, match="details.odd"):
        board.post("odd", details={"odd": object()})
    board.claim(seen, "a")
    board.trash(seen, "a")
    assert (seen.state, job.wait(1.0), board.job_count) == (states.COMPLETE, True, 0)
    assert [trashed.uuid for trashed in board.board.trashed()] == [job.uuid]
    with pytest.raises(exceptions.NotFound):
        board.claim(job, "b")


def test_listeners_hear_of_posts_and_removals_by_anybody(fetch: Fetch) -> None:
    board, other = fetch(), fetch()
    received: list[tuple[str, str]] = []
    board.notifier.register(base.POSTED, lambda event, details: received.append((event, details["job"].name)))
    board.notifier.register(base.REMOVAL, lambda event, details: received.append((event, details["job"].name)))
    job = other.post("job")
    other.claim(job, "a")
    other.consume(job, "a")
    assert eventually(lambda: received == [("POSTED", "job"), ("REMOVAL", "job")])


def test_a_registered_entity_is_alive_until_its_board_closes(fetch: Fetch) -> None:
    board, other = fetch(), fetch()
    board.register_entity(entity.Entity("engine", "e@host:1", {"pid": 1}))
    [seen] = other.board.entities()
    assert (seen.kind, seen.name, seen.metadata, seen.alive) == ("engine", "e@host:1", {"pid": 1}, True)
    board.close()
    assert [seen for seen in other.board.entities() if seen.alive] == []
    board.connect()
    board.claim(board.post("after"), "a")


def test_wrong_owners_are_refused_before_the_store_is_asked(fetch: Fetch) -> None:
    board = fetch()
    job = board.post("job")
    for call in (board.claim, board.consume, board.abandon, board.trash):
        with pytest.raises(TypeError, match="string"):
            call(job, 1)
        with pytest.raises(ValueError, match="non-empty"):
            call(job, "")
    with pytest.raises(ValueError, match="expiry"):
        board.claim(job, "a", expiry=0)
    assert job.state == states.UNCLAIMED
