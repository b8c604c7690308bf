"""How many round trips the operations of a ZooKeeper board take, as its page says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from harnesses.fixtures import a_harness_behind, a_proxy, a_server
from harnesses.zookeeper_harness import ZooKeeperHarness
from harnesses.zookeeper_requests import round_trips
from servers.proxy import Proxy
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import Entity, Job, JobBoard, JobState, LogBook, Posting
from jobboard.backends.rows import TrashOutcome
from jobboard.board import client_of
from jobboard.testing import Harness
from jobboard.testing.contract.clockwork import hourly

LONG = 600.0

server = a_server(ZooKeeperServer)
proxy = a_proxy()
behind = a_harness_behind(ZooKeeperHarness)


def _hold(board: JobBoard, count: int = 1) -> list[Job]:
    board.post_many([Posting("resize") for _ in range(count)])
    return board.claim_next("alice", limit=count, expiry=LONG)


def _read_ahead(board: JobBoard) -> None:
    """Let the client read the next jobs that it will claim."""
    board.post_many([Posting("resize") for _ in range(4)])
    board.claim_next("alice", expiry=LONG)


def _trashed(board: JobBoard) -> Job:
    [job] = _hold(board)
    board.trash(job, "alice")
    return job


def _listed(board: JobBoard) -> Job:
    board.post("resize")
    return next(board.iterjobs(only_unclaimed=True))


def _saved(board: JobBoard) -> LogBook:
    book = LogBook("journal")
    board.save_book(book)
    book.named["entry"] = 1
    board.save_book(book)
    book.named["entry"] = 2
    return book


def _freed_key(board: JobBoard) -> None:
    """Leave the part of the keys behind, in which the next one is."""
    board.cancel(board.post("resize", key="k"))


def _post_tied(board: JobBoard, count: int = 1) -> list[Job]:
    """Post jobs of one lane."""
    return board.post_many([Posting("resize", lane="a") for _ in range(count)])


def _hold_slot(board: JobBoard, count: int) -> list[Job]:
    """Claim the job that holds the only slot of a lane of this many jobs, which are all there are."""
    for job in board.iterjobs():
        board.cancel(job)
    board.limits.set(lane="a", running=1)
    _post_tied(board, count)
    return board.claim_next("alice", limit=9, expiry=LONG)


def _post_in_lanes(board: JobBoard) -> list[str]:
    """Post jobs into lanes of one slot, and return their uuids."""
    board.limits.set(lane="tenant:*", running=1)
    return [job.uuid for job in board.post_many([Posting("resize", lane=f"tenant:{n % 20}") for n in range(100)])]


def _hold_slots(board: JobBoard) -> list[Job]:
    """Claim the jobs that hold all slots of a lane for which others wait."""
    board.limits.set(lane="wide", running=100)
    board.post_many([Posting("resize", lane="wide") for _ in range(200)])
    return board.claim_next("alice", limit=100, expiry=LONG)


def _limit_name(board: JobBoard) -> None:
    """Let the client read the next jobs of a limited name that it will claim."""
    board.limits.set(name="resize", running=100)
    _read_ahead(board)
    board.claim_next("alice", expiry=LONG)


def _hold_parent(board: JobBoard, count: int = 1) -> list[Job]:
    """Claim jobs for which another one waits."""
    jobs = _hold(board, count)
    board.post("resize", after=jobs)
    return jobs


def _waiting(board: JobBoard) -> str:
    return next(job.uuid for job in board.iterjobs(states=[JobState.BLOCKED]))


#: What comes before, how it is asked, and the round trips.
ROUND_TRIPS: dict[str, tuple[Callable[[JobBoard], Any], Callable[[JobBoard, Any], object], int]] = {
    "post": (lambda board: None, lambda board, _: board.post("resize"), 1),
    "post of 100": (lambda board: None, lambda board, _: board.post_many([Posting("resize")] * 100), 1),
    "post with a key": (_freed_key, lambda board, _: board.post("resize", key="k"), 2),
    "post that replaces": (
        lambda board: board.post("resize", key="r", if_exists="keep"),
        lambda board, _: board.post("resize", key="r", if_exists="replace"), 3,
    ),
    "cancel": (lambda board: board.post("resize"), lambda board, job: board.cancel(job), 2),
    "claim of a listed job": (_listed, lambda board, job: board.claim(job, "alice", LONG), 1),
    "claim_next": (_read_ahead, lambda board, _: board.claim_next("alice", expiry=LONG), 1),
    "extend": (_hold, lambda board, jobs: board.extend(jobs[0], "alice", LONG), 1),
    "consume": (_hold, lambda board, jobs: board.consume(jobs[0], "alice"), 1),
    "consume of 20": (lambda board: _hold(board, 20), lambda board, jobs: board.consume_many(jobs, "alice"), 1),
    "checkpoint": (_hold, lambda board, jobs: board.checkpoint(jobs[0], "alice", 7), 1),
    "abandon": (_hold, lambda board, jobs: board.abandon(jobs[0], "alice"), 1),
    "trash": (_hold, lambda board, jobs: board.trash(jobs[0], "alice"), 1),
    "purge": (_trashed, lambda board, job: board.purge(job.uuid), 2),
    # These read the job before or after: one for the record, one for the history.
    "release": (_hold, lambda board, jobs: board.release(jobs[0], reason="stuck"), 1 + 2),
    "restore": (_trashed, lambda board, job: board.restore(job.uuid), 2 + 2),
    "restore of 20": (
        lambda board: [_trashed(board).uuid for _ in range(20)],
        lambda board, uuids: board._backend.jobs.restore(uuids), 2,
    ),
    "post with a lane": (lambda board: None, lambda board, _: _post_tied(board), 1),
    "post into a limited lane": (lambda board: _hold_slot(board, 1), lambda board, _: _post_tied(board), 2),
    "end for which no job waits": (
        lambda board: _hold_slot(board, 1), lambda board, jobs: board.consume(jobs[0], "alice"), 2,
    ),
    "end that admits a job": (
        lambda board: _hold_slot(board, 3), lambda board, jobs: board.consume(jobs[0], "alice"), 3,
    ),
    # A transaction changes 50 jobs of a lane at once, beside those that it admits.
    "cancel of 100 of a limited lane": (
        lambda board: _hold_slot(board, 101) and [job.uuid for job in board.iterjobs() if job.lane][1:],
        lambda board, uuids: client_of(board).backend.jobs.cancel(uuids), 2 * 3,
    ),
    "cancel of 100 of 20 limited lanes": (
        _post_in_lanes, lambda board, uuids: client_of(board).backend.jobs.cancel(uuids), 3,
    ),
    "consume of 100 of a limited lane": (
        _hold_slots, lambda board, jobs: board.consume_many(jobs, "alice"), 3 + 4,
    ),
    "extend with a lane": (
        lambda board: _hold_slot(board, 3), lambda board, jobs: board.extend(jobs[0], "alice", LONG), 1,
    ),
    "claim_next of a limited name": (_limit_name, lambda board, _: board.claim_next("alice", expiry=LONG), 1),
    "limit of a name": (lambda board: None, lambda board, _: board.limits.set(name="crop", running=3), 5),
    "post with a parent": (
        lambda board: board.post("resize"), lambda board, parent: board.post("resize", after=[parent]), 3,
    ),
    "end of a parent": (_hold_parent, lambda board, jobs: board.consume(jobs[0], "alice"), 1 + 4),
    "end of 20 parents of a job": (
        lambda board: _hold_parent(board, 20), lambda board, jobs: board.consume_many(jobs, "alice"), 1 + 4,
    ),
    "link": (
        lambda board: _hold_parent(board) and (_waiting(board), board.post("resize").uuid),
        lambda board, pair: client_of(board).backend.edges.link(pair[0], [pair[1]]), 3,
    ),
    "end with a posting": (
        _hold, lambda board, jobs: board.consume(jobs[0], "alice", post=[Posting("resize")]), 1 + 1,
    ),
    "signal": (_hold, lambda board, jobs: board.signal(jobs[0], str(jobs[0].uuid)), 3),
    "get": (lambda board: board.post("resize"), lambda board, job: board.get(job.uuid), 2),
    "find": (lambda board: board.post("resize", key="f"), lambda board, job: board.find("resize", "f"), 2),
    "pause": (lambda board: board.resume("crop"), lambda board, _: board.pause("crop"), 2),
    "resume": (lambda board: board.pause("crop"), lambda board, _: board.resume("crop"), 2),
    "a page": (lambda board: board.post("resize"), lambda board, _: next(board.iterjobs()), 2),
    "remove of 100 schedules": (
        lambda board: [board.schedules.add(hourly(f"report {number}")) for number in range(100)],
        lambda board, _: board.schedules.remove_all(), 2 + 2 + 1,
    ),
    "stats": (lambda board: board.post("resize"), lambda board, _: board.stats(), 1),
    "job_count": (lambda board: None, lambda board, _: board.job_count, 1),
    "paused": (lambda board: None, lambda board, _: board.paused(), 1),
    "pauses": (lambda board: board.pause("crop"), lambda board, _: board.pauses(), 1),
    "register": (lambda board: None, lambda board, _: board.register_entity(Entity("conductor", "mill")), 1),
    "save_book": (_saved, lambda board, book: board.save_book(book), 2),
    "load_book": (_saved, lambda board, book: board.load_book(book.uuid), 3),
    "destroy_book": (_saved, lambda board, book: board.destroy_book(book.uuid), 4),
    "books": (_saved, lambda board, _: list(board.books()), 10),
}  # fmt: skip


@pytest.mark.parametrize("what", ROUND_TRIPS)
def test_a_request_takes_as_many_round_trips_as_the_page_says(what: str, proxy: Proxy, behind: Harness) -> None:
    prepare, act, said = ROUND_TRIPS[what]
    board = behind.board()
    # Once for what is done once, such as the first look.
    _hold(board)
    act(board, prepare(board))
    for job in board.iterjobs():
        board.trash(job, by="the next one")
    prepared = prepare(board)
    assert round_trips(proxy, lambda: act(board, prepared)) == said


def test_of_two_jobs_of_one_key_a_batch_restores_the_first(behind: Harness) -> None:
    board = behind.board()
    uuids = []
    for key in ("k", "k", "other"):
        job = board.post("resize", key=key)
        board.trash(job, by="ada")
        uuids.append(job.uuid)
    outcomes = board._backend.jobs.restore(uuids)
    assert outcomes == [TrashOutcome.DONE, TrashOutcome.TAKEN, TrashOutcome.DONE]
    assert {job.uuid for job in board.iterjobs()} == {uuids[0], uuids[2]}
    assert [job.uuid for job in board.trashed()] == [uuids[1]]
    assert board.audit() == []
