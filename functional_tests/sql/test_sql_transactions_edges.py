"""Parents, children and graphs in a transaction of the user's own, on each SQL store: all of it happens, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from typing import Any

import pytest
from harnesses.sql_site import Place

from jobboard import AlreadyPosted, Handlers, Job, JobBoard, JobState, NotFound, Posting, RunningJob
from jobboard.backends.rows import PostOutcome, Verdict
from jobboard.backends.sql import resolving
from jobboard.board import client_of
from jobboard.testing import eventually, run_due
from jobboard.testing.contract.edge_case import LONG, children_of, link, new_job, post_after, post_rows
from jobboard.validation import new_uuid

pytest_plugins = ("harnesses.sql_places",)
pytestmark = pytest.mark.in_turn(1)

BLOCKED, UNCLAIMED, CLAIMED, COMPLETE = JobState.BLOCKED, JobState.UNCLAIMED, JobState.CLAIMED, JobState.COMPLETE
NOBODY = "00000000-0000-4000-8000-000000000000"
#: More jobs and edges than one step posts.
MANY = 600

each_end = pytest.mark.parametrize("end", ["commit", "rollback"])
on_servers = pytest.mark.parametrize("place", ["postgresql", "mariadb"], indirect=True)


@pytest.fixture
def board(place: Place) -> JobBoard:
    return place.harness.board()


@pytest.fixture(autouse=True)
def sound(board: JobBoard) -> Iterator[None]:
    """The board has no contradictions in the end."""
    yield
    assert board.audit() == []


@contextmanager
def ordering(place: Place, board: JobBoard, end: str) -> Iterator[Any]:
    """Have a transaction that writes an order, and ends so: the order is there if and only if it is committed."""
    with closing(place.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute("DROP TABLE IF EXISTS orders")
        cursor.execute("CREATE TABLE orders (id INTEGER)")
        connection.commit()
        cursor.execute("INSERT INTO orders VALUES (7)")
        yield connection
        getattr(connection, end)()
        cursor.execute("SELECT count(*) FROM orders")
        assert cursor.fetchone()[0] == (end == "commit")
        connection.rollback()


def claimed(board: JobBoard, name: str = "fetch", **options: Any) -> Job:
    job = board.post(name, **options)
    board.claim(job, "alice", LONG)
    return job


def names_of(board: JobBoard) -> list[str]:
    return sorted(job.name for job in board.iterjobs())


def run_all(board: JobBoard) -> list[str]:
    """Run each job as soon as it can be claimed; return their names in this order."""
    ran = []
    while found := board.claim_next("alice", expiry=LONG):
        for job in found:
            board.consume(job, "alice", job.name)
            ran.append(job.name)
    return ran


# -- posting -----------------------------------------------------------------------------------------------------------


@each_end
def test_a_graph_is_there_if_the_transaction_commits(place: Place, board: JobBoard, other: JobBoard, end: str) -> None:
    done, waiting = claimed(board, "done"), board.post("waiting")
    board.consume(done, "alice", {"rows": 3})
    with ordering(place, board, end) as connection:
        first = Posting("first", after=[done])
        second = Posting("second", after=[first, waiting])
        posted = board.post_many([Posting("third", after=[second]), second, first], connection=connection)
        alone = board.post("alone", after=[posted[0]], connection=connection)
        assert names_of(other) == ["waiting"]
    if end == "rollback":
        assert (run_all(other), children_of(other, waiting)) == (["waiting"], {})
        return
    assert [job.state for job in (*posted, alone)] == [BLOCKED, BLOCKED, UNCLAIMED, BLOCKED]
    assert [(parent.uuid, parent.result) for parent in posted[2].parents()] == [(done.uuid, {"rows": 3})]
    assert sorted(run_all(other)[:2]) == ["first", "waiting"]
    assert (other.job_count, alone.state) == (0, COMPLETE)


@each_end
def test_a_graph_of_many_parts_is_there_if_the_transaction_commits(
    place: Place, board: JobBoard, other: JobBoard, end: str
) -> None:
    child = post_after(board, board.post("first"), name="last")
    with ordering(place, board, end) as connection:
        root = Posting("root")
        leaves = [Posting("leaf", after=[root]) for _ in range(MANY)]
        board.post_many([root, *leaves], connection=connection)
        board.post("before", before=[child], connection=connection)
        assert names_of(other) == ["first", "last"]
    with closing(place.connect()) as connection:
        cursor = connection.cursor()
        marks = "jobboard_marks JOIN jobboard_boards ON jobboard_marks.board = jobboard_boards.id"
        cursor.execute(f"SELECT count(*) FROM {marks} WHERE jobboard_boards.name = '{board.name}' AND outcome = 3")
        assert cursor.fetchone() == (0,)
    ran = run_all(other)
    assert (ran.count("leaf"), ran.count("root")) == ((MANY, 1) if end == "commit" else (0, 0))
    assert (ran[-1], ran.index("last") > ran.index("first")) == ("leaf" if end == "commit" else "last", True)
    assert [parent.name for parent in child.parents()].count("before") == (end == "commit")


def test_what_is_refused_leaves_the_users_transaction_usable(place: Place, board: JobBoard) -> None:
    with closing(place.connect()) as connection:
        first = board.post("first", connection=connection)
        with pytest.raises(NotFound, match=NOBODY):
            board.post("second", after=[first, NOBODY], connection=connection)
        board.post("third", after=[first], connection=connection)
        connection.commit()
    assert run_all(board) == ["first", "third"]


@on_servers
def test_others_may_post_while_a_parent_is_in_the_transaction(place: Place, board: JobBoard, other: JobBoard) -> None:
    """At REPEATABLE READ, MariaDB locks the gap before a row that is found by another index than the primary one."""
    last = "f" * 8
    parent = board.post("fetch", uuid=f"{last}-0000-4000-8000-000000000002")
    with closing(place.connect()) as connection:
        board.post("resize", after=[parent], connection=connection)
        other.post("crop", uuid=f"{last}-0000-4000-8000-000000000001")
        board.post_many([Posting("resize", after=[parent]) for _ in range(3)], connection=connection)
        other.post("crop", uuid=f"{last}-0000-4000-8000-000000000000")
        connection.commit()
    assert other.job_count == 7


@on_servers
def test_others_go_on_while_a_graph_is_in_the_transaction(place: Place, board: JobBoard, other: JobBoard) -> None:
    def graph() -> list[Posting]:
        root = Posting("root")
        return [root, *(Posting("leaf", after=[root]) for _ in range(MANY))]

    parent, job = claimed(board), claimed(board)
    child = post_after(board, parent, name="child")
    with closing(place.connect()) as connection:
        board.post_many(graph(), connection=connection)
        board.consume(job, "alice", post=graph(), connection=connection)
        other.consume(parent, "alice")
        other.post_many(graph())
        assert sorted(found.name for found in other.claim_next("bob", limit=9)) == ["child", "root"]
        connection.rollback()
    assert (child.state, other.job_count) == (CLAIMED, MANY + 3)


@on_servers
def test_a_graph_that_was_given_up_stays_so_while_the_transaction_has_a_job_of_it(
    place: Place, board: JobBoard, other: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "LOCK_PATIENCE", 0.0)
    monkeypatch.setattr(resolving, "LOCKED_DELAY", LONG)
    edges, graph = client_of(other).backend.edges, new_uuid()
    rows = [new_job(graph=graph) for _ in range(3)]
    post_rows(other, *rows)
    with closing(place.connect()) as connection:
        board.post("resize", after=[rows[0].uuid], connection=connection)
        edges.drop(graph)
        assert [other.get(row.uuid).record.state for row in rows[:1]] == [BLOCKED]
        assert edges.seal(graph) is Verdict.LOST
        [late] = post_rows(other, new_job(graph=graph))
        assert late.outcome is PostOutcome.NO_PARENT
        connection.rollback()
    edges.drop(graph)
    assert other.job_count == 0


# -- ends of parents ---------------------------------------------------------------------------------------------------


@each_end
def test_children_wait_for_a_parent_until_its_end_is_committed(
    place: Place, board: JobBoard, other: JobBoard, end: str
) -> None:
    parent = claimed(board)
    children = [post_after(board, parent), post_after(board, parent, if_failed="cancel")]
    with ordering(place, board, end) as connection:
        board.consume(parent, "alice", {"rows": 3}, connection=connection)
        assert [child.state for child in children] == [BLOCKED] * 2
        assert board.store == "sqlite" or other.claim_next("bob") == []
    if end == "rollback":
        assert (parent.state, other.claim_next("bob")) == (CLAIMED, [])
        assert [child.state for child in children] == [BLOCKED] * 2
        board.consume(parent, "alice", {"rows": 3})
    assert {job.uuid for job in other.claim_next("bob", limit=9)} == {child.uuid for child in children}
    assert [parent.result for child in children for parent in child.parents()] == [{"rows": 3}] * 2


def test_a_wait_of_another_client_wakes_when_the_end_of_a_parent_is_committed(
    place: Place, board: JobBoard, other: JobBoard
) -> None:
    parent = claimed(board)
    child = post_after(board, parent)
    with client_of(other).waiter() as waiter, closing(place.connect()) as connection:
        board.consume(parent, "alice", connection=connection)
        assert waiter.ready_in() != 0.0
        connection.commit()
        waiter.wait(30)
        eventually(lambda: waiter.ready_in() == 0.0)
    assert next(iter(other.wait(30))) == child


@each_end
def test_a_post_that_waits_for_the_transaction_sees_how_its_parent_ended(
    place: Place, board: JobBoard, other: JobBoard, end: str
) -> None:
    parent = claimed(board)
    with closing(place.connect()) as connection, ThreadPoolExecutor(1) as pool:
        board.consume(parent, "alice", "done", connection=connection)
        posted = pool.submit(post_after, other, parent)
        with pytest.raises(TimeoutError):
            posted.result(0.5)
        getattr(connection, end)()
        child = posted.result(60)
    assert child.state is (UNCLAIMED if end == "commit" else BLOCKED)


# -- ends with posts ---------------------------------------------------------------------------------------------------


@each_end
@pytest.mark.parametrize("many", [2, MANY])
def test_an_end_and_its_posts_share_the_fate_of_the_transaction(
    place: Place, board: JobBoard, other: JobBoard, end: str, many: int
) -> None:
    job, parent = claimed(board), board.post("parent")
    child = post_after(board, job, name="child")
    with ordering(place, board, end) as connection:
        first = Posting("first", key="k", after=[parent])
        posts = [first, *(Posting("then", after=[first]) for _ in range(many))]
        board.consume(job, "alice", "done", post=posts, connection=connection)
        assert (names_of(other), job.state) == (["child", "fetch", "parent"], CLAIMED)
    if end == "rollback":
        assert (run_all(other), job.state, child.state) == (["parent"], CLAIMED, BLOCKED)
        board.consume(job, "alice")
        assert run_all(other) == ["child"]
        return
    assert job.result == "done"
    ran = run_all(other)
    assert (sorted(ran[:2]), ran.index("first") < ran.index("then")) == (["child", "parent"], True)
    assert (ran.count("then"), other.job_count) == (many, 0)


def test_an_end_whose_posts_are_refused_leaves_the_users_transaction_usable(place: Place, board: JobBoard) -> None:
    job, live = claimed(board), board.post("then", key="k")
    with closing(place.connect()) as connection:
        with pytest.raises(AlreadyPosted):
            board.consume(job, "alice", post=[Posting("new"), Posting("then", key="k")], connection=connection)
        with pytest.raises(NotFound):
            board.consume(job, "alice", post=[Posting("then", after=[NOBODY])], connection=connection)
        board.consume(job, "alice", "done", post=[Posting("then", after=[live])], connection=connection)
        connection.commit()
    assert (job.result, run_all(board)) == ("done", ["then", "then"])


@each_end
def test_a_handler_ends_its_job_and_posts_others_in_its_transaction(
    place: Place, board: JobBoard, other: JobBoard, end: str
) -> None:
    handlers = Handlers()

    @handlers.handler("fetch")
    def fetch(job: RunningJob) -> None:
        with ordering(place, board, end) as connection:
            job.complete("done", post=[Posting("then")], connection=connection)
        if end == "rollback":
            raise ValueError("rolled back")

    parent = board.post("fetch", max_attempts=1)
    child = post_after(board, parent, name="child")
    with pytest.raises(ValueError, match="rolled back") if end == "rollback" else nullcontext():
        run_due(board, handlers)
    assert parent.state is (COMPLETE if end == "commit" else JobState.TRASHED)
    assert child.state is (UNCLAIMED if end == "commit" else BLOCKED)
    assert names_of(other) == (["child", "then"] if end == "commit" else ["child"])


# -- a transaction that has read before --------------------------------------------------------------------------------


@contextmanager
def reading(place: Place) -> Iterator[Any]:
    """Have a transaction that has read the board already; at REPEATABLE READ it does not see what comes later."""
    with closing(place.connect()) as connection:
        cursor = connection.cursor()
        for table in ("jobs", "edges", "marks", "windows", "journal"):
            cursor.execute(f"SELECT count(*) FROM jobboard_{table}")
            cursor.fetchall()
        yield connection
        connection.commit()


def test_a_child_may_be_younger_than_the_transaction(place: Place, board: JobBoard, other: JobBoard) -> None:
    parent = claimed(board)
    with reading(place) as connection:
        child = post_after(other, parent)
        board.consume(parent, "alice", "done", connection=connection)
    assert [job.uuid for job in other.claim_next("bob")] == [child.uuid]


def test_a_parent_and_its_end_may_be_younger_than_the_transaction(
    place: Place, board: JobBoard, other: JobBoard
) -> None:
    with reading(place) as connection:
        parents = [other.post("waits"), claimed(other)]
        late = post_after(other, parents[0], name="late")
        other.consume(parents[1], "alice", "done")
        blocked = board.post("resize", after=parents, connection=connection)
        free = board.post("resize", after=parents[1:], connection=connection)
        late_parent = board.post("last", before=[late], connection=connection)
    assert [job.state for job in (blocked, free, late, late_parent)] == [BLOCKED, UNCLAIMED, BLOCKED, UNCLAIMED]
    assert [parent.result for parent in free.parents()] == ["done"]
    assert link(other, late, late_parent).value == "repeated"


@pytest.mark.parametrize("place", ["postgresql", "sqlite"], indirect=True)
@pytest.mark.parametrize("if_exists", ["raise", "keep", "replace"])
def test_a_key_may_be_taken_by_a_job_that_ended_after_the_transaction_began(
    place: Place, board: JobBoard, other: JobBoard, if_exists: Any
) -> None:
    with reading(place) as connection:
        first = claimed(other, key="k", key_for=LONG)
        other.consume(first, "alice")
        if if_exists == "keep":
            assert board.post("fetch", key="k", if_exists="keep", connection=connection).uuid == first.uuid
            return
        with pytest.raises(AlreadyPosted):
            board.post("fetch", key="k", if_exists=if_exists, connection=connection)
