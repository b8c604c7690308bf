"""Edges, marks, steps and signals on Redis: what an audit finds in their keys and mends, what they cost, what stays."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable

import pytest
from harnesses.families import end, is_put_aside, loses_its_signal, with_signals, with_steps
from harnesses.fixtures import a_board, a_harness, a_server
from harnesses.redis_hand import Hand, a_hand
from harnesses.redis_harness import RedisHarness
from servers.redis_servers import RedisServer

from jobboard import AlreadyPosted, BoardUnavailable, Job, JobBoard, JobState, Posting
from jobboard.backends.base import Backend
from jobboard.backends.edge_rows import EdgeCounts, SignalOutcome, StepRow
from jobboard.backends.rows import Abandonment, Fence, NewJob, PostOutcome, Ties, Verdict
from jobboard.testing.contract.lanes import states_of

LONG = 600.0
GONE = "01a2239d-9061-7944-9a7d-c3da5a92ace4"

server = a_server(RedisServer)
harness = a_harness(RedisHarness)
board = a_board()
hand = a_hand()


def backend_of(board: JobBoard) -> Backend:
    return board._backend


#: What somebody does to the keys of a child whose first parent has ended; it waits for the second one.
DAMAGES: dict[str, Callable[[Hand, str, list[Job]], object]] = {
    "an edge has lost its end": lambda hand, child, parents: hand("HDEL", f"ends:{child}", parents[0].uuid),
    "all ends are lost": lambda hand, child, parents: hand("DEL", f"ends:{child}"),
    "a mark can't be read": lambda hand, child, parents: hand("HSET", "marks", parents[0].uuid, b"\xc1"),
    "the end of an edge can't be read": lambda hand, child, parents: hand(
        "HSET", f"ends:{child}", parents[0].uuid, b"\xc1"
    ),
    "an edge says what nobody knows": lambda hand, child, parents: hand(
        "HSET", f"ends:{child}", parents[0].uuid, b"\xa4MADE\xa6resize\xc2\xc2"
    ),
    "a parent that is done counts as failed": lambda hand, child, parents: hand(
        "SADD", f"failed:{child}", parents[0].uuid
    ),
    "a parent that is open counts as gone": lambda hand, child, parents: hand("SADD", f"gone:{child}", parents[1].uuid),
    "a job counts as gone that is no parent": lambda hand, child, parents: hand("SADD", f"gone:{child}", GONE),
    "an edge says of no parent how it has ended": lambda hand, child, parents: hand(
        "HSET", f"ends:{child}", GONE, b"\xa6FAILED\xa6resize\xc2\xc2"
    ),
    "a mark has no timer": lambda hand, child, parents: hand(
        "HSET", "marks", parents[0].uuid, b"\x96\xa4DONE\xa6resize\xc2\xc2\xa1z\x01"
    ),
    "a job that is gone has keys": lambda hand, child, parents: hand("ZADD", "own_keys", "+inf", GONE),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_edges_are_found_and_mended(board: JobBoard, hand: Hand, damage: str) -> None:
    parents = [board.post("resize") for _ in range(2)]
    child = board.post("report", after=parents)
    first, second = board.claim_next("alice", limit=2, expiry=LONG)
    board.consume(first, "alice", 1)
    DAMAGES[damage](hand, child.uuid, parents)
    assert board.audit()
    assert board.audit(repair=True)
    assert board.audit() == []
    assert backend_of(board).edges.counts([child.uuid]) == [EdgeCounts(open=1, done=1)]
    assert states_of(board, child) == [JobState.BLOCKED]
    board.consume(second, "alice", 2)
    assert states_of(board, child) == [JobState.UNCLAIMED]
    assert {parent.uuid: parent.result for parent in child.parents()} == {first.uuid: 1, second.uuid: 2}


def test_a_parent_that_came_back_without_a_word_is_named_and_waited_for(board: JobBoard, hand: Hand) -> None:
    parents = [board.post("resize") for _ in range(3)]
    child, free, ran = (board.post("report", after=parents, if_failed=way) for way in ("wait", "run", "run"))
    records = [hand("HGET", "jobs", parent.uuid) for parent in parents]
    for parent in parents:
        board.trash(parent, by="ada")
    board.claim(ran, "ann")
    # So a jobboard would bring them back that knows nothing of children.
    for parent, record in zip(parents[:2], records[:2], strict=True):
        hand("HSET", "jobs", parent.uuid, record)
    found = board.audit(repair=True)
    told = {(one.uuid, one.problem) for one in found if one.uuid not in {parent.uuid for parent in parents}}
    assert told == {
        (child.uuid, f"it waits for a parent in the trash, which is not there: {back.uuid}") for back in parents[:2]
    }
    assert board.audit() == []
    counts = backend_of(board).edges.counts
    # One that was claimed without its parents waits for none of them.
    expected = [EdgeCounts(open=2, failed=1), EdgeCounts(open=2, failed=1), EdgeCounts(failed=3)]
    assert counts([child.uuid, free.uuid, ran.uuid]) == expected
    end(board, *parents[:2])
    board.restore(parents[2].uuid)
    end(board, parents[2])
    assert states_of(board, child, free, ran) == [JobState.UNCLAIMED, JobState.UNCLAIMED, JobState.CLAIMED]


@pytest.mark.parametrize(
    "mark", [b"\xc1", b"\x96\xa4DONE\xa6resize\xc3\xc2\xa0\x01", b"\x96\xa4MADE\xa6resize\xc2\xc2\xa0\x01"]
)
def test_a_mark_that_is_none_stops_nobody(board: JobBoard, hand: Hand, mark: bytes) -> None:
    parent = board.post("resize")
    child = board.post("report", after=[parent])
    hand("HSET", "marks", parent.uuid, mark)
    hand("ZADD", "delayed", 1, f"\t{parent.uuid}")
    other = board.post("index")
    assert [job.uuid for job in board.claim_next("alice", ["index"])] == [other.uuid]
    assert states_of(board, child) == [JobState.BLOCKED]
    assert board.audit(repair=True)
    assert board.audit() == []


@pytest.mark.parametrize("damage", ["the end of an edge can't be read", "an edge says what nobody knows"])
def test_an_edge_that_cannot_be_read_hides_no_others(board: JobBoard, hand: Hand, damage: str) -> None:
    parents = [board.post("resize") for _ in range(2)]
    children = [board.post("report", after=parents) for _ in range(2)]
    for job in board.claim_next("alice", limit=2, expiry=LONG):
        board.consume(job, "alice", 1)
    DAMAGES[damage](hand, children[0].uuid, parents)
    assert [parent.state for parent in children[0].parents()] == [JobState.COMPLETE] * 2
    assert {each.uuid for each in parents[0].children()} == {each.uuid for each in children}
    assert {finding.uuid for finding in board.audit(repair=True)} == {children[0].uuid}
    assert board.audit() == []


@pytest.mark.parametrize("lost", ["parents", "graph"])
def test_a_job_that_nothing_holds_back_is_found_and_goes_on(board: JobBoard, hand: Hand, lost: str) -> None:
    uuid, backend = str(uuids.uuid4()), backend_of(board)
    parent = board.post("resize")
    graph = str(uuids.uuid4()) if lost == "graph" else None
    parents = () if graph else (parent.uuid,)
    assert backend.jobs.post([NewJob(uuid, "report", 3, b"", parents=parents, graph=graph)])[0].row.uuid == uuid
    hand("DEL", f"parents:{uuid}" if graph is None else "marks")
    assert [finding.uuid for finding in board.audit()] == [uuid]
    assert board.audit(repair=True)
    assert board.audit() == []
    # Of a graph that nobody can complete nothing runs.
    state = [row and row.state for row in backend.jobs.read([uuid])]
    assert state == [None if graph else JobState.UNCLAIMED]


#: The first is no msgpack, the second has too little; the others are no steps and no signals.
BAD = [b"\xc1", b"", b"\xa3abc", b"\xa3abc\x01\x02", b"\x01\x02", b"\x01\xa1x\xa1y"]


@pytest.mark.parametrize("data", BAD)
@pytest.mark.parametrize("number", [1, 230])
def test_a_step_that_cannot_be_read_does_not_run_again(board: JobBoard, hand: Hand, data: bytes, number: int) -> None:
    jobs = with_steps(board, number + 2)
    hand("LSET", f"steps:{jobs[1].uuid}", number, data)
    with pytest.raises(BoardUnavailable, match=jobs[1].uuid):
        backend_of(board).steps.load(jobs[1].uuid, 0, number + 1)
    is_put_aside(board, jobs, jobs[1], f"its step {number + 1} can not be read")


@pytest.mark.parametrize("data", BAD)
def test_a_signal_that_cannot_be_read_is_named_and_kept_apart(board: JobBoard, hand: Hand, data: bytes) -> None:
    jobs = with_signals(board)
    hand("HSET", f"signals:{jobs[1].uuid}", "go", data)
    loses_its_signal(board, jobs, jobs[1])


def test_nothing_stays_of_jobs_that_are_forgotten(board: JobBoard, hand: Hand) -> None:
    parents = [Posting("resize") for _ in range(3)]
    *_, child = board.post_many([*parents, Posting("report", after=parents)])
    backend = backend_of(board)
    for _ in range(2):
        for job in board.claim_next("alice", limit=3, expiry=LONG):
            token = backend.jobs.read([job.uuid])[0].token  # type: ignore[union-attr]
            assert backend.steps.save(Fence(job.uuid, "alice", token), StepRow(0, "a", b"1")) is Verdict.DONE
            assert backend.steps.signal(job.uuid, "go", b"1") is SignalOutcome.DONE
            board.consume(job, "alice")
    assert states_of(board, child) == [JobState.COMPLETE]
    kinds = ("parents", "children", "ends", "steps", "signals", "own_keys", "marks")

    def left() -> list[str]:
        return [name for kind in kinds for name in (*hand.names(f"{kind}:*"), *hand.names(kind))]

    assert len(left()) == 1 + 3 + 1 + 4 + 4 + 1
    # As if they were forgotten by now.
    for owner in hand("ZRANGE", "own_keys", 0, -1):
        hand("ZADD", "own_keys", 1, owner)
    assert board._backend.maintenance.tidy(100) == 4
    assert left() == []


def test_a_uuid_that_is_posted_again_has_nothing_of_a_job_that_is_forgotten(board: JobBoard, hand: Hand) -> None:
    backend, parents = backend_of(board), [board.post("resize") for _ in range(2)]
    jobs = [board.post("report", after=parents, if_failed="run"), *(board.post("report") for _ in range(4))]
    board.trash(parents[0], by="ada")
    end(board, parents[1])
    for job in jobs:
        fence = Fence(job.uuid, "alice", board.claim(job, "alice", LONG))
        backend.steps.save(fence, StepRow(0, "charge", b"1"))
        backend.steps.signal(job.uuid, "go", b"1")
        board.consume(job, "alice")
    for job in jobs:
        # As if its time were over.
        hand("DEL", f"done:{job.uuid}")
        hand("ZADD", "own_keys", 1, job.uuid)
    first, second, third, fourth, fifth = jobs
    parent = board.post("resize")
    for job in (first, second):
        board.post("report", uuid=job.uuid, after=[parent])
    for job in (third, fourth):
        board.post("report", uuid=job.uuid)
    part = NewJob(fifth.uuid, "report", 3, b"", graph=str(uuids.uuid4()), ties=Ties(has_children=True))
    assert backend.jobs.post([part])[0].outcome is PostOutcome.POSTED
    for job in jobs:
        assert (backend.steps.load(job.uuid, 0, 9), backend.steps.signals(job.uuid)) == ([], [])
    assert backend.edges.counts([job.uuid for job in jobs]) == [EdgeCounts(open=1)] * 2 + [EdgeCounts()] * 3
    fence = Fence(third.uuid, "alice", board.claim(third.uuid, "alice", LONG))
    assert backend.jobs.abandon([Abandonment(fence, signal="go")]) == [Verdict.DONE]
    assert states_of(board, third) == [JobState.BLOCKED]
    assert backend.steps.signal(third.uuid, "go", b"2") is SignalOutcome.DONE
    fence = Fence(fourth.uuid, "alice", board.claim(fourth.uuid, "alice", LONG))
    assert backend.steps.save(fence, StepRow(0, "pay", b"2")) is Verdict.DONE
    assert [step.name for step in backend.steps.load(fourth.uuid, 0, 9)] == ["pay"]
    backend.maintenance.tidy(100)
    assert [signal.value for signal in backend.steps.signals(third.uuid)] == [b"2"]
    assert backend.edges.counts([first.uuid]) == [EdgeCounts(open=1)]


def test_a_large_family_takes_short_scripts(server: RedisServer, board: JobBoard) -> None:
    """By the server's processor time, on machines of any kind; 5 ms here."""
    root = Posting("root")
    leaves = [Posting("leaf", after=[root]) for _ in range(1_000)]
    whole = Posting("whole", after=leaves)
    with server.client() as client:
        for work in (lambda: board.post_many([root, *leaves, whole]), lambda: drain(board)):
            client.config_resetstat()
            before = client.info("cpu")["used_cpu_user_main_thread"]
            work()
            spent = client.info("cpu")["used_cpu_user_main_thread"] - before
            assert spent / client.info("commandstats")["cmdstat_evalsha"]["calls"] < 0.03
    assert board.audit() == []


def drain(board: JobBoard) -> None:
    names = []
    for _ in range(1_000):
        jobs = board.claim_next("alice", limit=100, expiry=LONG)
        if not jobs:
            break
        names += [job.name for job in jobs]
        assert set(board.consume_many(jobs, "alice", results=[1] * len(jobs))) == {None}
    assert names == ["root", *["leaf"] * 1_000, "whole"]


def test_a_key_is_kept_by_no_job_that_is_gone(board: JobBoard, hand: Hand) -> None:
    job = board.post("resize", key="k", key_for=LONG)
    board.claim(job, "alice")
    board.consume(job, "alice")
    with pytest.raises(AlreadyPosted):
        board.post("resize", key="k")
    hand("DEL", f"done:{job.uuid}")
    assert board.post("resize", key="k").uuid != job.uuid


def test_a_posting_in_a_record_may_end_as_flags_do(board: JobBoard) -> None:
    ties = Ties(has_children=True, on_complete=b"x\xab" + 8 * b"\xc2")
    jobs = backend_of(board).jobs
    jobs.post([NewJob(GONE, "resize", 3, b"", ties=ties)])
    (row,) = jobs.read([GONE])
    assert row is not None
    assert row.ties == ties
