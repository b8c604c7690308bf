"""A graph becomes complete on etcd as a parent of one of its jobs fails, in each order of their reads and writes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.fixtures import a_harness, a_server
from servers.etcd_servers import EtcdServer

from jobboard import Job, JobBoard, JobState, Posting
from jobboard.backends.rows import IfFailed, Ties
from jobboard.board import client_of
from jobboard.testing import eventually
from jobboard.testing.contract.edge_case import is_gone, new_job, post_rows
from jobboard.validation import new_uuid

server = a_server(EtcdServer)
harness = a_harness(EtcdHarness)

ENDS: dict[str, Callable[[JobBoard, Job], Any]] = {
    "trashed": lambda board, job: board.trash(job.uuid, by="ada"),
    "cancelled": lambda board, job: board.cancel(job.uuid),
    "purged": lambda board, job: board.purge(job.uuid),
}


def stop_once(patch: pytest.MonkeyPatch, board: JobBoard, meanwhile: Callable[[Callable[[], Any]], Any]) -> None:
    """Let a client call this, with its write, once it has decided about children for the first time."""
    writer: Any = client_of(board).backend.edges._resolver._writer  # type: ignore[attr-defined]
    write, left = writer.apply_with, iter([meanwhile])

    def write_later(*args: Any) -> Any:
        for stopped in left:
            return stopped(lambda: write(*args))
        return write(*args)

    patch.setattr(writer, "apply_with", write_later)


def meet(
    patch: pytest.MonkeyPatch, first: tuple[JobBoard, Callable[[], Any]], second: tuple[JobBoard, Callable[[], Any]]
) -> None:
    """Let the second client decide and write between the decision and the write of the first one."""

    def do_other(write: Callable[[], Any]) -> Any:
        second[1]()
        return write()

    stop_once(patch, first[0], do_other)
    first[1]()


def meet_twice(
    patch: pytest.MonkeyPatch, first: tuple[JobBoard, Callable[[], Any]], second: tuple[JobBoard, Callable[[], Any]]
) -> None:
    """Let both clients decide, and then the first one write before the second one."""
    written: list[Any] = []

    def do_other(write: Callable[[], Any]) -> Any:
        def write_first(write_second: Callable[[], Any]) -> Any:
            written.append(write())
            return write_second()

        stop_once(patch, second[0], write_first)
        second[1]()
        return written[0]

    stop_once(patch, first[0], do_other)
    first[1]()
    assert written, "they did not meet"


@pytest.mark.parametrize("has_other", [False, True])
@pytest.mark.parametrize("if_failed", [each.value for each in IfFailed])
@pytest.mark.parametrize("end", list(ENDS))
@pytest.mark.parametrize("is_seal_first", [True, False])
@pytest.mark.parametrize("meeting", [meet, meet_twice])
def test_a_graph_is_sealed_as_a_parent_fails(
    harness: EtcdHarness,
    monkeypatch: pytest.MonkeyPatch,
    meeting: Callable[..., None],
    is_seal_first: bool,
    end: str,
    if_failed: str,
    has_other: bool,
) -> None:
    board = harness.board()
    other = harness.board(board.name)
    parent, graph = board.post("rotate"), new_uuid()
    more = [board.post("rotate") for _ in range(has_other)]
    if end == "purged":
        board.trash(parent.uuid, by="ada")
    ties = Ties(if_failed=IfFailed(if_failed))
    (posted,) = post_rows(board, new_job(parent, *more, graph=graph, ties=ties))
    child = board.get(posted.row.uuid)
    both = [(board, lambda: client_of(board).backend.edges.seal(graph)), (other, lambda: ENDS[end](other, parent))]
    meeting(monkeypatch, *both[:: 1 if is_seal_first else -1])
    if if_failed == "cancel":
        eventually(lambda: is_gone(board, child))
    else:
        lost = JobState.TRASHED if end != "trashed" else JobState.BLOCKED
        free = JobState.BLOCKED if has_other else JobState.UNCLAIMED
        state = lost if if_failed == "wait" else free
        eventually(lambda: board.get(child.uuid).state is state)
    assert board.audit() == []


def test_parts_of_a_graph_may_be_posted_within_a_microsecond(
    monkeypatch: pytest.MonkeyPatch, harness: EtcdHarness
) -> None:
    """The timer of the graph has the same key then, before and after."""
    board = harness.board()
    connection: Any = client_of(board).backend.connection  # type: ignore[attr-defined]
    latest, parts = round(connection.latest(), 3), itertools.count()
    monkeypatch.setattr(connection, "latest", lambda: latest + next(parts) * 2.5e-7)
    parents = [Posting("resize") for _ in range(300)]
    *_, child = board.post_many([*parents, Posting("resize", after=parents)])
    assert next(parts) > 3
    assert child.state is JobState.BLOCKED
