"""What can't hold on several shards is refused by name, before anything is changed; what shares a lane is together."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from helpers.sharded import MemoryShardsHarness

from jobboard import Every, InvalidPosting, JobBoard, LogBook, Posting, Schedule, fetch
from jobboard.backends.shards import placement
from jobboard.errors import NotFound, NotSupported
from jobboard.states import JobState
from jobboard.validation import new_uuid


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with MemoryShardsHarness() as harness:
        yield harness.board()


def test_a_job_waits_for_no_job_of_another_shard(board: JobBoard) -> None:
    """The error names both jobs, both shards, and what to do."""
    first, second = board.post("fetch"), board.post("crop")
    with pytest.raises(InvalidPosting) as caught:
        board.post("resize", after=[first, second], uuid=(own := new_uuid()))
    assert caught.value.path == "after"
    assert str(caught.value).startswith(
        f"job {own} (resize) belongs to shard 0 and can't wait for job {second.uuid} (crop), which is on shard 1: "
        "post both in one call of post_many, or give all of them one lane as they are posted"
    )
    assert board.job_count == 2
    with pytest.raises(NotFound):
        board.post("resize", after=[first, new_uuid()])


def test_a_job_that_waits_gets_no_parent_of_another_shard(board: JobBoard) -> None:
    graphs = [board.post_many([parent := Posting("fetch"), Posting("resize", after=[parent])]) for _ in range(3)]
    children = [child for _, child in graphs]
    with pytest.raises(InvalidPosting) as caught:
        board.post("crop", before=children, uuid=(own := new_uuid()))
    shards = [int(child.uuid[15:18], 16) >> 2 for child in children]
    assert str(caught.value).startswith(
        f"job {children[1].uuid} belongs to shard {shards[1]} and can't wait for job {own} (crop), "
        f"which is on shard {shards[0]}: "
    )
    assert [len(list(child.parents())) for child in children] == [1, 1, 1]
    assert board.job_count == 6


def test_a_lane_of_another_shard_names_the_job_that_is_elsewhere(board: JobBoard) -> None:
    first = board.post("fetch")
    lane = next(
        f"order:{number}" for number in range(99) if board.post("x", lane=f"order:{number}").uuid[15:18] != "000"
    )
    with pytest.raises(InvalidPosting) as caught:
        board.post("resize", after=[first], lane=lane)
    assert caught.value.path == "lane"
    assert f"and job {first.uuid}, for which" in str(caught.value)
    assert "waits, is on shard 0; give all of them one lane as they are posted" in str(caught.value)


def test_jobs_of_one_lane_wait_for_each_other(board: JobBoard) -> None:
    parents = [board.post("fetch", lane="order:7", key=str(number)) for number in range(5)]
    child = board.post("resize", after=parents, lane="order:7", key="a key of the lane")
    assert [parent.uuid for parent in child.parents()] == [parent.uuid for parent in parents]


def test_jobs_that_are_posted_in_one_call_wait_for_each_other(board: JobBoard) -> None:
    parents = [Posting("fetch", uuid=new_uuid() if number % 2 else None) for number in range(5)]
    *_, child = board.post_many([*parents, Posting("resize", after=parents)])
    assert len(list(child.parents())) == 5
    grandchild = board.post("publish", after=iter([child]))
    assert [parent.uuid for parent in grandchild.parents()] == [child.uuid]


def test_a_step_posts_no_lane_and_no_key_of_another_shard(board: JobBoard) -> None:
    refused = list[str | None]()
    for number in range(8):
        board.post("fetch")
        (job,) = board.claim_next("alice")
        try:
            board.consume(job, "alice", post=[Posting("resize", key=str(number))])
        except InvalidPosting as error:
            refused.append(error.path)
            board.consume(job, "alice", post=[Posting("resize")])
    assert set(refused) == {"key"}
    assert len(refused) < 8
    assert board.stats().unclaimed == 8


def test_a_follow_up_has_no_key_of_another_shard(board: JobBoard) -> None:
    with pytest.raises(InvalidPosting, match=r"the key '0' of job 'resize' belongs to shard"):
        for _ in range(4):
            board.post("fetch", on_complete=Posting("resize", key="0"))
    job = board.post("fetch", lane="order:7", on_complete=Posting("resize", lane="order:7", key="0"))
    board.claim(job, "alice")
    board.consume(job, "alice")
    assert board.find("resize", "0").lane == "order:7"


def test_a_schedule_has_no_lane(board: JobBoard) -> None:
    """Its jobs are on its own shard, where the limits of the lane say nothing."""
    plain = board.schedules.add(Schedule("nightly", Every(hours=1), "resize"))
    with pytest.raises(NotSupported, match="'nightly' can't have a lane on a board of shards"):
        board.schedules.modify("nightly", lane="tenant:1")
    with pytest.raises(NotSupported, match="'hourly' can't have a lane"):
        board.schedules.add(Schedule("hourly", Every(hours=1), "resize", lane="tenant:1"))
    assert [schedule.id for schedule in board.schedules] == [plain.id]


def test_a_limit_of_a_name_is_divided(board: JobBoard) -> None:
    board.limits.set(name="resize", running=6)
    assert [limit.running for limit in board.limits] == [6]
    board.post_many([Posting("resize", key=str(number)) for number in range(100)])
    assert len(board.claim_next("alice", limit=100)) == 6
    board.limits.set(name="resize", running=0)
    assert [limit.running for limit in board.limits] == [0]
    assert board.limits.remove(name="resize")
    assert len(board.claim_next("alice", limit=100)) == 94


def test_a_limit_that_a_killed_client_has_not_copied_is_found(board: JobBoard) -> None:
    shards = board._backend.fleet.shards  # type: ignore[attr-defined]
    limit = board.limits.set(lane="tenant:*", running=2)
    (row,) = shards[3].limits.all()
    shards[3].limits.put(type(row)(type(limit)(lane="tenant:*"), "gone"), row.version)
    (found,) = board.audit()
    assert "shard 3 has not the limit of lane 'tenant:*'" in found.problem
    assert [each.repaired for each in board.audit(repair=True)] == [True]
    assert board.audit() == []
    assert [shard.limits.all()[0].limit.running for shard in shards] == [2] * 4


def test_a_logbook_is_where_the_job_is_that_it_is_posted_with(board: JobBoard) -> None:
    for number in range(8):
        book = LogBook(f"book {number}", owned=bool(number % 2))
        board.post("resize", book=book)
        (job,) = board.claim_next("alice")
        book.meta["n"] = number
        board.save_book(book, hold=job)
        assert board.load_book(book.uuid).meta == {"n": number}
        board.consume(job, "alice")


def test_a_logbook_of_another_shard_is_not_saved_under_a_claim(board: JobBoard) -> None:
    book = LogBook("free")
    board.save_book(book)
    refused = list[str | None]()
    for _ in range(4):
        board.post("resize", book=book)
        (job,) = board.claim_next("alice")
        try:
            board.save_book(book, hold=job)
        except InvalidPosting as error:
            refused.append(error.path)
    assert refused == ["book"] * 3


def test_a_transaction_of_one_store_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """Whichever store its connection leads to."""
    uris = [f"sqlite:///{tmp_path}/shard-{number}.db" for number in range(3)]
    with fetch("jobs", "shards://", uris=uris) as board:
        claimed = [board.post("resize", uuid=placement.new_uuid(number)) for number in range(3)]
        for number, job in enumerate(claimed):
            board.claim(job, "alice")
            with closing(sqlite3.connect(tmp_path / f"shard-{number}.db")) as connection:
                connection.execute("BEGIN")
                calls: list[Callable[[], object]] = [
                    lambda connection=connection: board.post("fetch", connection=connection),  # type: ignore[misc]
                    lambda connection=connection: board.post_many([Posting("fetch")], connection=connection),  # type: ignore[misc]
                    lambda job=job, connection=connection: board.consume(job, "alice", connection=connection),  # type: ignore[misc]
                ]
                for call in calls:
                    with pytest.raises(
                        NotSupported, match=r"leave connection= out.*post with uuid=.*beside the effect"
                    ):
                        call()
                assert not connection.total_changes
        assert {job.uuid for job in board.iterjobs(states={JobState.CLAIMED})} == {job.uuid for job in claimed}
        assert board.job_count == 3
        assert not board.capabilities.transactions
        for job in claimed:
            board.consume(job, "alice")
