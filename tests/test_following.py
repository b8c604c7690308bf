"""What is posted with the end of a job: by Then, by job.complete, and by the declaration of a handler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from jobboard import (
    AlreadyPosted,
    AsyncRunningJob,
    Broken,
    Handlers,
    InvalidPosting,
    JobBoard,
    JobState,
    NotFound,
    Posting,
    RunningJob,
    Then,
)
from jobboard.testing import all_posted, memory_board, posted, refuse, run_due

UNKNOWN = "00000000-0000-7000-8000-000000000001"


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with memory_board() as board:
        yield board


def run(board: JobBoard, function: Callable[..., Any], **options: Any) -> None:
    handlers = Handlers()
    handlers.add("order", function, **options)
    run_due(board, handlers)


def ship(_job: RunningJob) -> Then:
    pack = Posting("pack", details={"at": (1, 2)})
    return Then([pack, Posting("ship", after=[pack]), Posting("thank")], {"paid": True})


def ship_by_itself(job: RunningJob) -> None:
    pack = Posting("pack", details={"at": (1, 2)})
    job.complete({"paid": True}, post=[pack, Posting("ship", after=[pack]), Posting("thank")])


async def ship_later(job: AsyncRunningJob) -> None:
    pack = Posting("pack", details={"at": (1, 2)})
    await job.complete({"paid": True}, post=[pack, Posting("ship", after=[pack]), Posting("thank")])


@pytest.mark.parametrize("handler", [ship, ship_by_itself, ship_later])
def test_a_job_ends_and_others_are_posted(board: JobBoard, handler: Callable[..., Any]) -> None:
    job = board.post("order")
    run(board, handler)
    assert (job.state, job.result) == (JobState.COMPLETE, {"paid": True})
    assert {each.name: each.state for each in all_posted(board)} == {
        "order": JobState.COMPLETE,
        "pack": JobState.UNCLAIMED,
        "ship": JobState.BLOCKED,
        "thank": JobState.UNCLAIMED,
    }
    assert [parent.uuid for parent in posted(board, "ship").parents()] == [posted(board, "pack").uuid]
    assert posted(board, "pack").details == {"at": [1, 2]}


def test_a_key_that_is_taken_fails_the_attempt_and_a_later_one_may_find_it_free(board: JobBoard) -> None:
    taken, job = board.post("mail", key="ann"), board.post("order")

    def order(_job: RunningJob) -> Then:
        return Then([Posting("mail", key="ann"), Posting("pack")])

    with pytest.raises(RuntimeError, match="what should follow it can't be posted: a live job 'mail' has the key"):
        run(board, order)
    assert (job.state, job.attempts) == (JobState.DELAYED, 1)
    refuse(board, "pack")
    board.cancel(taken)
    board.run_now(job)
    run(board, order)
    assert job.state is JobState.COMPLETE
    posted(board, "pack")


@pytest.mark.parametrize(
    ("posting", "text"),
    [
        (Posting("mail", after=[UNKNOWN]), f"there is no job {UNKNOWN}"),
        (Posting("mail", after=[Posting("pack")]), "after names <Posting 'pack'>, which is not among what is posted"),
        (Posting("mail", details={"to": object()}), "details.to can't be stored"),
        (Posting("mail", lane=""), "lane must not be empty"),
    ],
)
def test_what_can_never_follow_sends_the_job_to_the_trash(board: JobBoard, posting: Posting, text: str) -> None:
    job = board.post("order")
    with pytest.raises((InvalidPosting, ValueError), match=text):
        run(board, lambda _job: Then([posting, Posting("pack")]))
    refuse(board, "pack")
    assert (job.state, text in str(job.record.reason)) == (JobState.TRASHED, True)


@pytest.mark.parametrize(
    ("posting", "error"),
    [(Posting("mail", key="ann"), AlreadyPosted), (Posting("mail", after=[UNKNOWN]), NotFound)],
)
def test_a_handler_learns_what_is_refused_and_its_claim_goes_on(
    board: JobBoard, posting: Posting, error: type[Exception]
) -> None:
    board.post("mail", key="ann")
    job = board.post("order")

    def order(job: RunningJob) -> str:
        with pytest.raises(error):
            job.complete("early", post=[posting])
        job.checkpoint_state("goes on")
        return "late"

    run(board, order)
    assert (job.result, job.checkpoint) == ("late", "goes on")


@pytest.mark.parametrize("wrong", [Posting("pack"), [None], ["pack"], 1])
def test_what_is_no_list_of_postings_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        Then(wrong)


# -- declared by a handler ---------------------------------------------------------------------------------------------


@dataclass
class Order:
    number: int


def declared(board: JobBoard) -> Handlers:
    handlers = Handlers(max_attempts=1)

    @handlers.handler(
        "order",
        on_trashed=lambda details: Posting("tell", {"failed": details["number"]}),
        on_complete=Posting("count", {"one": 1}),
    )
    def order(order: Order) -> None:
        if order.number > 1:
            raise Broken("no such order")

    return handlers


def test_what_a_handler_declares_follows_the_ends_of_jobs_that_name_nothing(board: JobBoard) -> None:
    handlers = declared(board)
    for number in range(4):
        board.post("order", {"number": number}, on_trashed=Posting("own") if number == 3 else None)
    for _ in range(2):
        with pytest.raises(Broken):
            run_due(board, handlers, names={"order"})
    assert [job.name for job in all_posted(board) if job.name != "order"] == ["count", "count", "tell", "own"]
    assert posted(board, "tell").details == {"failed": 2}


def test_what_a_task_posts_has_it_in_its_record_so_that_operators_ends_have_it_too(board: JobBoard) -> None:
    handlers = declared(board)
    task = handlers["order"].task
    for job in (task.post(board, Order(7)), board.post_many([Posting.of(task, Order(8))])[0]):
        board.trash(job, by="ann")
    task.post(board, Order(0), on_complete=Posting("own"))
    run_due(board, handlers, names={"order"})
    assert [job.details for job in all_posted(board, "tell")] == [{"failed": 7}, {"failed": 8}]
    assert [job.name for job in all_posted(board) if job.name not in ("order", "tell")] == ["own"]


def test_a_restored_job_that_fails_again_is_told_again(board: JobBoard) -> None:
    handlers = declared(board)
    job = board.post("order", {"number": 5})
    for _ in range(3):
        with pytest.raises(Broken):
            run_due(board, handlers, names={"order"})
        board.restore(job)
    assert len(all_posted(board, "tell")) == 3


def test_a_fault_of_what_makes_the_posting_holds_up_no_end(board: JobBoard, caplog: pytest.LogCaptureFixture) -> None:
    handlers = declared(board)
    job = board.post("order", {"none": 1})
    with pytest.raises(Broken):
        run_due(board, handlers)
    assert job.state is JobState.TRASHED
    assert "what should follow the end of job" in caplog.text


@pytest.mark.parametrize(
    "wrong", [1, "tell", Posting("tell", uuid=UNKNOWN), Posting("tell", after=[UNKNOWN]), Posting("a", key_for=1)]
)
def test_what_cannot_follow_is_refused_at_the_declaration(wrong: Any) -> None:
    with pytest.raises((TypeError, InvalidPosting), match="on_trashed"):
        Handlers().handler("order", on_trashed=wrong)(lambda job: None)


@pytest.mark.parametrize("wrong", [3, object(), "no uuid"])
def test_what_is_no_job_in_a_posting_that_follows_is_named(board: JobBoard, wrong: Any) -> None:
    job = board.post("order")

    def order(_job: RunningJob) -> Then:
        return Then([Posting("pack", after=[wrong])])

    with pytest.raises(InvalidPosting, match="what should follow it can't be posted: .*uuid"):
        run(board, order)
    assert job.state is JobState.TRASHED
    refuse(board, "pack")
