"""Jobs that wait for each other: `why` says it of each of them, and what looks for them is bounded."""

from __future__ import annotations

from helpers.memory_board import board

from jobboard import Job, JobBoard
from jobboard.board import client_of
from jobboard.client.waiting_cycles import WaitingCycles, shown
from jobboard.operate.why import why

__all__ = ["board"]


def waiting(board: JobBoard, count: int) -> list[Job]:
    root = board.post("root")
    return [board.post("child", after=[root]) for _ in range(count)]


def link(board: JobBoard, child: Job, *parents: Job) -> None:
    client_of(board).backend.edges.link(child.uuid, [parent.uuid for parent in parents])


def reason(board: JobBoard, job: Job) -> str | None:
    return next((each.text for each in why(board, board.get(job.uuid)) if each.kind == "cycle"), None)


def test_why_names_the_jobs_that_wait_for_each_other(board: JobBoard) -> None:
    first, second, third, before, after = waiting(board, 5)
    for child, parent in ((second, first), (third, second), (first, third), (after, third), (first, before)):
        link(board, child, parent)
    for jobs in ([first, second, third], [second, third, first], [third, first, second]):
        names = " -> ".join(job.uuid for job in (*jobs, jobs[0]))
        assert reason(board, jobs[0]) == (
            f"It waits for itself: each of these jobs waits for the one before it: {names}. Cancel one of them, "
            f"for instance with: jobboard cancel {jobs[-1].uuid}"
        )
    assert [reason(board, job) for job in (before, after)] == [None, None]
    board.cancel(third)
    assert [reason(board, job) for job in (second, before, after)] == [None] * 3


def test_jobs_of_a_large_cycle_are_counted(board: JobBoard) -> None:
    jobs = waiting(board, 60)
    for at, job in enumerate(jobs):
        link(board, job, jobs[at - 1])
    uuids = [job.uuid for job in jobs]
    cycles = WaitingCycles(client_of(board))
    assert [sorted(cycle) for cycle in cycles.all()] == [sorted(uuids)]
    assert cycles.of(uuids[7]) == uuids[7:] + uuids[:7]
    assert shown(uuids) == f"{' -> '.join(uuids[:10])} -> (50 more) -> {uuids[0]}"


def test_a_cycle_of_very_many_generations_is_left_to_the_audit(board: JobBoard) -> None:
    jobs = waiting(board, 150)
    for at, job in enumerate(jobs):
        link(board, job, jobs[at - 1])
    cycles = WaitingCycles(client_of(board))
    assert cycles.of(jobs[0].uuid) is None
    assert [len(cycle) for cycle in cycles.all()] == [150]


def test_cycles_that_share_jobs_are_found_one_after_the_other(board: JobBoard) -> None:
    hub, left, right, *others = waiting(board, 30)
    for child, parent in ((left, hub), (hub, left), (right, hub), (hub, right)):
        link(board, child, parent)
    for at, job in enumerate(others[1:]):
        link(board, job, others[at], hub)
    (cycle,) = WaitingCycles(client_of(board)).all()
    assert set(cycle) in ({hub.uuid, left.uuid}, {hub.uuid, right.uuid})
    board.cancel(left)
    board.cancel(right)
    assert WaitingCycles(client_of(board)).all() == []


def test_jobs_with_many_children_are_read_in_pages(board: JobBoard) -> None:
    hub, *children = waiting(board, 1_200)
    for child in children:
        link(board, child, hub)
    last = max(children, key=lambda job: job.uuid)
    link(board, hub, last)
    cycles = WaitingCycles(client_of(board))
    assert {*(cycles.of(hub.uuid) or [])} == {hub.uuid, last.uuid}
    assert [set(cycle) for cycle in cycles.all()] == [{hub.uuid, last.uuid}]
