"""Parents, steps and signals on ZooKeeper: clients that die or race, znodes changed by hand, and what is left over."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from harnesses.fixtures import a_board, a_harness, a_harness_behind, a_proxy, a_server
from harnesses.zookeeper_harness import ZooKeeperHarness, a_plain_client, path_of
from harnesses.zookeeper_requests import round_trips
from kazoo.client import KazooClient
from servers.proxy import Proxy
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import Job, JobBoard, JobState, Posting
from jobboard.backends.edge_rows import EdgeCounts, Outcome, StepRow, parent_of_graph
from jobboard.backends.rows import Fence, NewJob, Verdict
from jobboard.backends.zookeeper import remains, stored_job
from jobboard.backends.zookeeper.layout import Layout
from jobboard.board import client_of
from jobboard.payload import EMPTY_PAYLOAD
from jobboard.testing import Harness, eventually
from jobboard.testing.contract.case import LONG
from jobboard.testing.contract.lane_case import states_of
from jobboard.validation import new_uuid

server = a_server(ZooKeeperServer)
harness = a_harness(ZooKeeperHarness)
proxy = a_proxy()
behind = a_harness_behind(ZooKeeperHarness)
board = a_board()
operator = a_plain_client()

BLOCKED, COMPLETE, TRASHED, UNCLAIMED = (JobState[name] for name in ("BLOCKED", "COMPLETE", "TRASHED", "UNCLAIMED"))
FOLDERS = ("edges", "children", "steps", "signals")


def layout_of(board: JobBoard) -> Layout:
    return Layout("/jobboard", board.name)


def store(board: JobBoard) -> Any:
    """Return the backend, whose roles are asked without the board."""
    return client_of(board).backend


def end(board: JobBoard, *jobs: Job) -> None:
    for job in jobs:
        board.claim(job, "alice", LONG)
        board.consume(job, "alice")


def left_of(board: JobBoard, operator: KazooClient) -> dict[str, list[str]]:
    """Return the jobs that have znodes beside their own, by what these are."""
    root, found = f"/jobboard/{board.name}", dict[str, list[str]]()
    for kind in FOLDERS:
        if operator.exists(f"{root}/{kind}"):
            buckets = operator.get_children(f"{root}/{kind}")
            names = [name for bucket in buckets for name in operator.get_children(f"{root}/{kind}/{bucket}")]
            found |= {kind: names} if names else {}
    return found


def save_steps(board: JobBoard, job: Job, count: int) -> list[Verdict]:
    """Claim a job, and save steps of it."""
    fence = Fence(job.uuid, "alice", board.claim(job, "alice", LONG))
    return [store(board).steps.save(fence, StepRow(number, f"step {number}", b"x")) for number in range(count)]


def leaving_children(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a client do no more than the step that ends a parent, as one does that is killed behind it."""
    resolver = store(board)._in_roles["edges"]._resolver
    monkeypatch.setattr(resolver, "work_off_own", lambda parents: None)


# -- clients that die, and that race -----------------------------------------------------------------------------------


def test_others_go_on_where_a_client_was_killed_behind_the_end_of_a_parent(
    harness: Harness, board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = harness.board(board.name)
    parents = [board.post("resize") for _ in range(3)]
    children = [board.post("resize", after=parents) for _ in range(3)]
    leaving_children(board, monkeypatch)
    end(board, *parents)
    assert states_of(board, *children) == [BLOCKED] * 3
    claimed = eventually(lambda: other.claim_next("bob", limit=9))
    assert {job.uuid for job in claimed} == {job.uuid for job in children}
    assert other.audit() == []


def test_a_client_that_connects_later_goes_on_too(
    harness: Harness, board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = board.post("resize")
    child = board.post("resize", after=[parent])
    leaving_children(board, monkeypatch)
    end(board, parent)
    late = harness.board(board.name)
    assert [job.uuid for job in eventually(lambda: late.claim_next("bob"))] == [child.uuid]


def test_a_waiter_goes_on_too(harness: Harness, board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    other = harness.board(board.name)
    parent = board.post("resize")
    child = board.post("resize", after=[parent])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: next(other.wait(LONG)))
        board.claim(parent, "alice", LONG)
        leaving_children(board, monkeypatch)
        board.consume(parent, "alice")
        assert waiting.result(LONG) == child


def test_parents_that_end_at_once_free_their_child_once(harness: Harness, board: JobBoard) -> None:
    boards = [board, harness.board(board.name), harness.board(board.name)]
    with ThreadPoolExecutor(len(boards)) as pool:
        for _ in range(20):
            parents = [board.post("resize") for _ in boards]
            child = board.post("resize", after=parents)
            for owner, parent in zip(boards, parents, strict=True):
                owner.claim(parent, "alice", LONG)
            list(pool.map(lambda pair: pair[0].consume(pair[1], "alice"), zip(boards, parents, strict=True)))
            (claimed,) = eventually(lambda: board.claim_next("bob"))
            assert claimed.uuid == child.uuid
            assert [str(line.kind) for line in board.get(child.uuid).history].count("RESOLVED") == 1
            board.consume(claimed, "bob")


def test_a_child_that_is_posted_while_its_parent_ends_is_not_lost(harness: Harness, board: JobBoard) -> None:
    other = harness.board(board.name)
    children: list[Job] = []
    with ThreadPoolExecutor(2) as pool:
        for number in range(40):
            parent = board.post("resize")
            board.claim(parent, "alice", LONG)
            # Its record says that it has children already, or not yet.
            first = [board.post("resize", after=[parent])] if number % 2 else []
            posted = pool.submit(other.post, "resize", after=[parent])
            ended = pool.submit(board.consume, parent, "alice")
            ended.result(LONG)
            children += [*first, posted.result(LONG)]
    eventually(lambda: set(states_of(board, *children)) == {UNCLAIMED})
    assert board.audit() == []


def test_links_and_ends_at_once(harness: Harness, board: JobBoard) -> None:
    other = harness.board(board.name)
    children = []
    with ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            held, parent = board.post("resize"), board.post("resize")
            child = board.post("resize", after=[held])
            board.claim(parent, "alice", LONG)
            linked = pool.submit(store(other).edges.link, child.uuid, [parent.uuid])
            pool.submit(board.consume, parent, "alice").result(LONG)
            linked.result(LONG)
            end(board, held)
            children.append(child)
    eventually(lambda: set(states_of(board, *children)) == {UNCLAIMED})
    assert {counts.done for counts in store(board).edges.counts([child.uuid for child in children])} == {2}
    assert board.audit() == []


def test_ends_of_a_batch_tell_their_common_child_in_one_step(board: JobBoard) -> None:
    parents = board.post_many([Posting("resize") for _ in range(50)])
    child = board.post("resize", after=parents)
    claimed = board.claim_next("alice", limit=50, expiry=LONG)
    before = store(board)._change_log._next
    board.consume_many(claimed, "alice")
    # The ends are one transaction, and the edges another.
    assert store(board)._change_log._next == before + 2
    assert states_of(board, child) == [UNCLAIMED]


# -- requests ----------------------------------------------------------------------------------------------------------


def test_each_step_takes_one_round_trip(proxy: Proxy, behind: Harness) -> None:
    board = behind.board()
    # Afterwards the client knows that there are all buckets.
    save_steps(board, board.post("resize"), 1)
    job = board.post("resize")
    fence = Fence(job.uuid, "alice", board.claim(job, "alice", LONG))
    steps = store(board).steps
    save = [
        round_trips(proxy, lambda number=number: steps.save(fence, StepRow(number, "s", b"x"))) for number in range(3)
    ]
    assert save == [1, 1, 1]
    board.extend(job, "alice", LONG)
    assert round_trips(proxy, lambda: steps.save(fence, StepRow(3, "s", b"x"))) == 1
    assert round_trips(proxy, lambda: board.consume(job, "alice")) == 1
    assert [step.number for step in steps.load(job.uuid, 0, 9)] == [0, 1, 2, 3]


def test_an_end_with_children_takes_no_more_round_trips_with_more_of_them(proxy: Proxy, behind: Harness) -> None:
    board = behind.board()
    taken = []
    for count in (1, 2, 30):
        parent = board.post("resize")
        board.post_many([Posting("resize", after=[parent]) for _ in range(count)])
        board.claim(parent, "alice", LONG)
        taken.append(round_trips(proxy, lambda parent=parent: board.consume(parent, "alice")))
    assert taken == [5, 5, 5]


# -- what is left over -------------------------------------------------------------------------------------------------


@pytest.fixture
def forgets_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be remembered longer than it is shown."""
    for module in (stored_job, __import__("jobboard.backends.zookeeper.listing", fromlist=["listing"])):
        monkeypatch.setattr(module, "RETRY_WINDOW", -10.0)


def rich_family(board: JobBoard) -> list[Job]:
    """Post a chain of three, the first of which has steps, and the others a signal."""
    first = board.post("resize")
    second = board.post("resize", after=[first])
    third = board.post("resize", after=[first, second])
    for job in (second, third):
        store(board).steps.signal(job.uuid, "go", b"x")
    assert save_steps(board, first, 3) == [Verdict.DONE] * 3
    return [first, second, third]


@pytest.mark.usefixtures("forgets_at_once")
def test_a_tidied_board_has_nothing_of_jobs_that_are_forgotten(harness: Harness, operator: KazooClient) -> None:
    board = harness.board(retention=0.0)
    first, *rest = rich_family(board)
    assert left_of(board, operator).keys() == set(FOLDERS)
    board.consume(first, "alice")
    end(board, *rest)
    store(board).maintenance.tidy(100)
    assert left_of(board, operator) == {}
    assert board.audit() == []


@pytest.mark.usefixtures("forgets_at_once")
def test_edges_live_as_long_as_their_child(harness: Harness, operator: KazooClient) -> None:
    board = harness.board(retention=0.0)
    first, second, third = rich_family(board)
    board.consume(first, "alice")
    end(board, second)
    store(board).maintenance.tidy(100)
    left = {kind: set(names) for kind, names in left_of(board, operator).items()}
    assert left == {"edges": {third.uuid}, "signals": {third.uuid}, "children": {first.uuid, second.uuid}}
    assert store(board).edges.counts([third.uuid]) == [EdgeCounts(done=2)]
    assert board.audit() == []


def test_a_purged_job_leaves_nothing(board: JobBoard, operator: KazooClient) -> None:
    family = rich_family(board)
    for job in reversed(family):
        board.trash(job, by="ada")
        board.purge(job.uuid)
    assert left_of(board, operator) == {}


def test_what_an_interrupted_purge_leaves_is_swept(
    board: JobBoard, operator: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = rich_family(board)
    monkeypatch.setattr(store(board)._in_roles["maintenance"]._upkeep._remains, "clean_own", lambda uuids: None)
    for job in reversed(family):
        board.trash(job, by="ada")
        board.purge(job.uuid)
    assert left_of(board, operator).keys() == set(FOLDERS)
    assert {finding.uuid for finding in board.audit()} == {job.uuid for job in family}
    monkeypatch.setattr(remains, "_TIDIES_PER_SWEEP", 1)
    for _ in range(8):
        store(board).maintenance.tidy(100)
    assert left_of(board, operator) == {}
    assert board.audit() == []


# -- changed by hand ---------------------------------------------------------------------------------------------------


def found_and_mended(board: JobBoard, *uuids: str) -> None:
    """Let an audit find something of these jobs, and mend it."""
    findings = board.audit(repair=True)
    assert {finding.uuid for finding in findings} == set(uuids), findings
    assert all(finding.repaired for finding in findings), findings
    assert board.audit() == []


@pytest.mark.parametrize("data", [b"", b"garbage", b"\x95\x07\x00\x00\x00\xa0"])
def test_parents_that_are_counted_wrong(board: JobBoard, operator: KazooClient, data: bytes) -> None:
    parents = [board.post("resize") for _ in range(3)]
    child = board.post("resize", after=parents)
    end(board, parents[0])
    operator.set(layout_of(board).edges_of(child.uuid), data)
    found_and_mended(board, child.uuid)
    assert store(board).edges.counts([child.uuid]) == [EdgeCounts(open=2, done=1)]
    end(board, *parents[1:])
    assert states_of(board, child) == [UNCLAIMED]


def test_edges_that_are_gone(board: JobBoard, operator: KazooClient) -> None:
    parent = board.post("resize")
    children = [board.post("resize", after=[parent]) for _ in range(3)]
    for child in children:
        operator.delete(layout_of(board).edges_of(child.uuid), recursive=True)
    board.audit(repair=True)
    found = board.audit(repair=True)
    assert board.audit() == [], found
    assert states_of(board, *children) == [UNCLAIMED] * 3


def test_a_parent_that_does_not_know_its_children(board: JobBoard, operator: KazooClient) -> None:
    parent = board.post("resize")
    children = [board.post("resize", after=[parent]) for _ in range(3)]
    operator.delete(layout_of(board).children_of(parent.uuid), recursive=True)
    found_and_mended(board, *(child.uuid for child in children))
    end(board, parent)
    assert states_of(board, *children) == [UNCLAIMED] * 3


def test_a_parent_that_ends_although_its_children_are_listed_nowhere(board: JobBoard, operator: KazooClient) -> None:
    parent = board.post("resize")
    child = board.post("resize", after=[parent])
    operator.delete(layout_of(board).children_of(parent.uuid), recursive=True)
    end(board, parent)
    board.audit(repair=True)
    board.audit(repair=True)
    assert board.audit() == []
    assert states_of(board, child) == [UNCLAIMED]


def test_parents_whose_records_are_gone(board: JobBoard, operator: KazooClient) -> None:
    parents = [board.post("resize") for _ in range(3)]
    waiting = board.post("resize", after=parents)
    running = board.post("resize", after=parents, if_failed="run")
    for parent in parents:
        operator.delete(path_of(board, parent.uuid))
    board.audit(repair=True)
    for _ in parents:
        board.audit(repair=True)
    assert board.audit() == []
    assert states_of(board, waiting, running) == [TRASHED, UNCLAIMED]


def test_an_outcome_that_was_never_told(board: JobBoard, operator: KazooClient) -> None:
    """The mark of a parent is deleted before anybody has worked it off."""
    parent = board.post("resize")
    children = [board.post("resize", after=[parent]) for _ in range(3)]
    resolver = store(board)._in_roles["edges"]._resolver
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resolver, "work_off_own", lambda parents: None)
        end(board, parent)
        operator.set(layout_of(board).children_of(parent.uuid), b"")
    board.audit(repair=True)
    assert board.audit() == []
    assert states_of(board, *children) == [UNCLAIMED] * 3


# -- graphs ------------------------------------------------------------------------------------------------------------


def parts_of(graph: str, count: int) -> list[NewJob]:
    return [NewJob(new_uuid(), "resize", 3, EMPTY_PAYLOAD, graph=graph) for _ in range(count)]


def test_a_graph_whose_client_has_died_is_given_up(
    harness: Harness, board: JobBoard, operator: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = harness.board(board.name)
    graph, late = new_uuid(), board.post("resize", delay=LONG)
    monkeypatch.setattr("jobboard.backends.zookeeper.new_edges.GRAPH_TTL", 0.3)
    rows = parts_of(graph, 3)
    store(board).jobs.post(rows)
    eventually(lambda: other.claim_next("bob") or other.job_count == 1)
    assert other.job_count == 1
    assert store(board).edges.seal(graph) is Verdict.LOST
    assert [answer.outcome.refuses_batch for answer in store(board).jobs.post(parts_of(graph, 1))] == [True]
    assert uuids_on(other) == {late.uuid}
    assert other.audit() == []


def uuids_on(board: JobBoard) -> set[str]:
    return {job.uuid for job in board.iterjobs()}


def test_a_graph_runs_once_it_is_sealed(board: JobBoard, operator: KazooClient) -> None:
    graph = new_uuid()
    parts = [parts_of(graph, 3) for _ in range(3)]
    for rows in parts:
        store(board).jobs.post(rows)
        assert board.claim_next("alice") == []
    assert [store(board).edges.seal(graph) for _ in range(3)] == [Verdict.DONE, Verdict.REPEATED, Verdict.REPEATED]
    store(board).edges.drop(graph)
    claimed = board.claim_next("alice", limit=99, expiry=LONG)
    assert {job.uuid for job in claimed} == {row.uuid for rows in parts for row in rows}
    assert list(store(board).edges.parents(claimed[0].uuid, None, 9).edges) == []
    assert board.audit() == []
    data, _ = operator.get(layout_of(board).children_of(parent_of_graph(graph)))
    assert data


def outcomes_of(board: JobBoard, child: Job) -> Iterable[Outcome]:
    return [edge.outcome for edge in store(board).edges.parents(child.uuid, None, 99).edges]


def test_large_results_go_in_smaller_parts(board: JobBoard) -> None:
    parents = [board.post("resize") for _ in range(3)]
    children = [board.post("resize", after=parents) for _ in range(20)]
    for parent in parents:
        board.claim(parent, "alice", LONG)
        board.consume(parent, "alice", "x" * 60_000)
    eventually(lambda: len(board.claim_next("bob", limit=99)) or board.stats().blocked == 0)
    eventually(lambda: board.stats().blocked == 0)
    for child in children:
        edges = store(board).edges.parents(child.uuid, None, 9).edges
        assert [len(edge.result or b"") > 60_000 for edge in edges] == [True] * 3
