"""Every mutation that a board can be asked for, to be broken on its way to a server."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from jobboard import At, Entity, JobBoard, JobState, LogBook, Posting, Schedule
from jobboard.backends.edge_rows import StepRow
from jobboard.backends.rows import Fence, Verdict
from jobboard.board import client_of
from jobboard.board.ends import suspend
from jobboard.testing import eventually
from jobboard.testing.contract.clockwork import firing

LONG = 600.0


def _claimed(board: JobBoard) -> Any:
    board.post("resize", details={"n": 1}, max_attempts=5)
    return board.claim_next("alice", expiry=LONG)[0]


def _trashed(board: JobBoard) -> str:
    job = board.post("resize", key="k")
    board.trash(job, by="an operator")
    return job.uuid


def _released(board: JobBoard, job: Any) -> None:
    board.release(job, reason="its host is gone")


def _saved_again(board: JobBoard, book: LogBook) -> None:
    book.meta["n"] = 2
    board.save_book(book)


def _book(board: JobBoard) -> LogBook:
    book = LogBook("journal")
    board.save_book(book)
    return book


def _nothing(board: JobBoard) -> None:
    pass


def _claimed_parent(board: JobBoard) -> Any:
    """A claimed job for which two others wait, and what is to follow it."""
    board.post("resize", on_complete=Posting("last", priority="very_low"))
    job = board.claim_next("alice", expiry=LONG)[0]
    for number in range(2):
        board.post("rotate", after=[job], key=str(number))
    return job


def _following(job: Any) -> list[Posting]:
    """Return postings that come behind the children of a job, whenever these are resolved."""
    return [Posting("next", key="k", priority="low"), Posting("after", after=[job], priority="low")]


def _consume_parent(board: JobBoard, job: Any, post: list[Posting]) -> None:
    """After a lost reply its children are resolved by whoever comes next."""
    board.consume(job, "alice", "done", post=post)

    def is_resolved() -> bool:
        assert board.claim_next("bob", ["nothing of this name"]) == []
        return not list(board.iterjobs(states=[JobState.BLOCKED]))

    # Where the time is only known roughly, they may have to wait for a moment.
    eventually(is_resolved)


def _save_step(board: JobBoard, job: Any) -> None:
    step = StepRow(0, "charge", client_of(board).encode("result", 1))
    assert client_of(board).save_step(Fence(job.uuid, "alice", job.token), step) is Verdict.DONE


Prepare, Act = Callable[[JobBoard], Any], Callable[[JobBoard, Any], object]

MUTATIONS: dict[str, tuple[Prepare, Act]] = {
    "post": (_nothing, lambda board, _: board.post("resize", details={"n": 1}, key="k")),
    "post delayed": (_nothing, lambda board, _: board.post("resize", delay=LONG)),
    "post many": (_nothing, lambda board, _: board.post_many([Posting("resize", key=str(n)) for n in range(50)])),
    "post replacing": (
        lambda board: board.post("resize", key="k"),
        lambda board, _: board.post("resize", details={"n": 2}, key="k", if_exists="replace", priority="high"),
    ),
    "post keeping": (
        lambda board: board.post("resize", key="k"),
        lambda board, _: board.post("resize", details={"n": 2}, key="k", if_exists="keep"),
    ),
    "cancel": (lambda board: board.post("resize"), lambda board, job: board.cancel(job)),
    "cancel claimed": (_claimed, lambda board, job: board.cancel(job)),
    "claim": (lambda board: board.post("resize"), lambda board, job: board.claim(job, "alice", LONG)),
    "claim next": (
        lambda board: board.post_many([Posting("resize") for _ in range(9)]),
        lambda board, _: board.claim_next("alice", limit=4, expiry=LONG),
    ),
    "extend": (_claimed, lambda board, job: board.extend(job, "alice", LONG)),
    "extend many": (_claimed, lambda board, job: board.extend_many([job], "alice", LONG, progress=["half"])),
    "checkpoint": (_claimed, lambda board, job: board.checkpoint(job, "alice", {"page": 7})),
    "consume": (_claimed, lambda board, job: board.consume(job, "alice", "done")),
    "consume many": (_claimed, lambda board, job: board.consume_many([job], "alice")),
    "abandon": (_claimed, lambda board, job: board.abandon(job, "alice", reason="no disk here")),
    "abandon for later": (_claimed, lambda board, job: board.abandon(job, "alice", delay=LONG, counted=False)),
    "trash": (_claimed, lambda board, job: board.trash(job, "alice", reason="broken")),
    "trash by force": (_claimed, lambda board, job: board.trash(job, by="an operator", reason="runaway")),
    "release": (_claimed, _released),
    "run now": (lambda board: board.post("resize", delay=LONG), lambda board, job: board.run_now(job)),
    "reprioritize": (lambda board: board.post("resize"), lambda board, job: board.reprioritize(job, "low")),
    "restore": (_trashed, lambda board, uuid: board.restore(uuid)),
    "purge": (_trashed, lambda board, uuid: board.purge(uuid)),
    "pause": (_nothing, lambda board, _: board.pause("resize")),
    "resume": (lambda board: board.pause("resize"), lambda board, _: board.resume("resize")),
    "register": (_nothing, lambda board, _: board.register_entity(Entity("conductor", "a"))),
    "remove": (
        lambda board: board.register_entity(Entity("conductor", "a")),
        lambda board, _: board.remove_entity(Entity("conductor", "a")),
    ),
    "post after": (
        lambda board: [board.post("resize") for _ in range(2)],
        lambda board, parents: board.post("rotate", after=parents, if_failed="run", key="k", key_for=LONG),
    ),
    "consume a parent": (_claimed_parent, lambda board, job: _consume_parent(board, job, [])),
    "consume with posts": (
        _claimed_parent,
        lambda board, job: _consume_parent(board, job, _following(job)),
    ),
    "cancel a parent": (_claimed_parent, lambda board, _: board.cancel(board.find("rotate", "1"))),
    "signal": (lambda board: board.post("resize"), lambda board, job: board.signal(job, "approved", {"n": 1})),
    "wait for a signal": (_claimed, lambda board, job: suspend(board, job, "alice", 0.0, "approved", "it waits")),
    "save a step": (_claimed, _save_step),
    "save book": (_nothing, lambda board, _: board.save_book(LogBook("journal"))),
    "save book again": (_book, _saved_again),
    "destroy book": (_book, lambda board, book: board.destroy_book(book.uuid)),
}  # fmt: skip


def _scheduled(board: JobBoard) -> str:
    return board.schedules.add(Schedule("nightly", At(_NEVER_YET), "resize")).id


def _due_soon(board: JobBoard) -> None:
    board.schedules.add(Schedule("nightly", At(datetime.now(UTC) + timedelta(seconds=0.2)), "resize"))


_NEVER_YET = datetime(2099, 1, 1, tzinfo=UTC)

#: The same for schedules, each change of which is one step.
SCHEDULE_MUTATIONS: dict[str, tuple[Prepare, Act]] = {
    "add": (_nothing, lambda board, _: _scheduled(board)),
    "pause": (_scheduled, lambda board, id: board.schedules.pause(id, "a holiday")),
    "modify": (_scheduled, lambda board, id: board.schedules.modify(id, priority="high")),
    "remove": (_scheduled, lambda board, id: board.schedules.remove(id)),
    "fire now": (_scheduled, lambda board, id: board.schedules.fire_now(id)),
    "fire what is due": (_due_soon, lambda board, _: eventually(lambda: firing(board).fire_due(10).posted)),
}


def photo_of(board: JobBoard) -> Any:
    """All of a board that does not differ between two boards to which the same was done."""
    jobs = [
        (
            # What a schedule has posted has the moment in its key.
            job.name, (job.key or "").partition("@")[0], job.details, job.priority, job.record.state,
            job.record.attempts, job.record.owner, job.record.reason, job.record.last_error, job.record.cancel_asked,
            job.checkpoint, job.result, [(line.kind, line.who) for line in job.history],
            sorted(str(parent.state) for parent in job.parents()), [signal.value for signal in job.signals()],
            [step.name for step in job.steps()],
        )
        for job in board.iterjobs(states=list(JobState))
    ]  # fmt: skip
    schedules = [
        (schedule.id, schedule.paused, schedule.priority, [line.kind for line in board.schedules.history(schedule.id)])
        for schedule in board.schedules
    ]
    return jobs, schedules, board.paused(), [entity.name for entity in board.entities()], board.job_count
