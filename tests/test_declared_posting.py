"""What a handler declares of the postings of its jobs: a lane, a key, a priority; constants, or made of details."""

from __future__ import annotations

import asyncio
import pickle
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobboard import (
    AlreadyPosted,
    BatchJob,
    Every,
    Handlers,
    InvalidPosting,
    Job,
    JobBoard,
    JobPriority,
    Posting,
    RunningJob,
    Schedule,
    Task,
    Then,
)
from jobboard.aio import AsyncJobBoard
from jobboard.testing import memory_board, run_due


@dataclass
class Order:
    number: int
    tenant: str


handlers = Handlers()


@handlers.handler(
    "import",
    lane=lambda order: f"tenant:{order.tenant}",
    key=lambda order: str(order.number),
    key_for=lambda order: timedelta(seconds=order.number),
    if_exists="keep",
    priority=lambda order: "high" if order.tenant == "gold" else "low",
    on_complete=lambda details: Posting("told", {"number": details["number"]}),
)
def bring(order: Order) -> None:
    """Import an order."""


@handlers.handler(lane="stripe", priority=JobPriority.VERY_HIGH, key=lambda details: details.get("key"))
def plain(job: RunningJob) -> Then:
    return Then([Posting.of(bring, Order(5, "gold"))])


@handlers.batch("index", lane=lambda order: order.tenant, wait=0)
def index(jobs: list[BatchJob], orders: list[Order]) -> None:
    """Index orders."""


added = handlers.add("added", plain, lane="slow")


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with memory_board() as board:
        yield board


def post(board: JobBoard, task: Task[Any, ..., Any], details: Any = None, **options: Any) -> Job:
    return task.post(board, details, **options)


def post_awaited(board: JobBoard, task: Task[Any, ..., Any], details: Any = None, **options: Any) -> Job:
    asyncio.run(task.post(AsyncJobBoard.of(board), details, **options))  # type: ignore[arg-type]
    return max(board.iterjobs(), key=lambda job: job.sequence)


def post_many(board: JobBoard, task: Task[Any, ..., Any], details: Any = None, **options: Any) -> Job:
    return board.post_many([Posting.of(task, details, **options)])[0]


FACES = [post, post_awaited, post_many]


def shown(job: Job) -> tuple[str | None, str | None, JobPriority]:
    return job.lane, job.key, job.priority


@pytest.mark.parametrize("face", FACES)
class TestPosted:
    def test_functions_get_the_details_as_they_are_given(self, board: JobBoard, face: Callable[..., Job]) -> None:
        assert shown(face(board, bring, Order(7, "gold"))) == ("tenant:gold", "7", JobPriority.HIGH)
        assert shown(face(board, bring, Order(8, "42"))) == ("tenant:42", "8", JobPriority.LOW)
        assert face(board, index, Order(1, "42")).lane == "42"

    def test_of_a_task_without_a_type_they_get_its_dict(self, board: JobBoard, face: Callable[..., Job]) -> None:
        assert shown(face(board, plain)) == ("stripe", None, JobPriority.VERY_HIGH)
        assert shown(face(board, plain, {"key": "a"})) == ("stripe", "a", JobPriority.VERY_HIGH)

    def test_what_is_given_wins_and_none_is_given_too(self, board: JobBoard, face: Callable[..., Job]) -> None:
        given = {"lane": "own", "key": "own", "priority": "normal"}
        assert shown(face(board, bring, Order(7, "gold"), **given)) == ("own", "own", JobPriority.NORMAL)
        assert shown(face(board, bring, Order(7, "gold"), lane=None, key=None)) == (None, None, JobPriority.HIGH)
        with pytest.raises(AlreadyPosted):
            face(board, bring, Order(7, "gold"), key="own", if_exists="raise")

    def test_each_name_of_a_function_has_its_own(self, board: JobBoard, face: Callable[..., Job]) -> None:
        assert shown(face(board, added, {"key": "a"})) == ("slow", None, JobPriority.NORMAL)


def test_a_key_stays_taken_for_as_long_as_declared(board: JobBoard) -> None:
    first = bring.post(board, Order(600, "gold"))
    board.claim(first, "w")
    board.consume(first, "w")
    assert bring.post(board, Order(600, "gold")) == first


def test_what_a_handler_returns_has_it_too(board: JobBoard) -> None:
    plain.post(board)
    run_due(board, handlers, names={"plain"})
    [job] = board.iterjobs()
    assert shown(job) == ("tenant:gold", "5", JobPriority.HIGH)


def test_what_is_posted_by_name_has_none_of_it(board: JobBoard) -> None:
    assert shown(board.post("import", {"number": 7, "tenant": "gold"})) == (None, None, JobPriority.NORMAL)


class TestScheduled:
    def test_a_schedule_has_the_lane_and_the_priority(self, board: JobBoard) -> None:
        made = Schedule("it", Every(hours=1), bring, Order(7, "gold"))
        assert (made.lane, made.priority, made.max_attempts) == ("tenant:gold", JobPriority.HIGH, None)
        board.schedules.add(made)
        job = board.schedules.fire_now("it")
        assert (job.lane, job.priority) == ("tenant:gold", JobPriority.HIGH)
        assert job.key != "7"

    def test_what_is_given_wins(self) -> None:
        made = Schedule("it", Every(hours=1), bring, Order(7, "gold"), lane=None, priority="normal")
        assert (made.lane, made.priority) == (None, JobPriority.NORMAL)

    def test_one_that_is_modified_with_a_task_follows_its_details(self, board: JobBoard) -> None:
        board.schedules.add(Schedule("it", Every(hours=1), bring, Order(7, "gold")))
        changed = board.schedules.modify("it", job=bring, details=Order(7, "42"), max_runs=3)
        assert (changed.lane, changed.priority, changed.max_runs) == ("tenant:42", JobPriority.LOW, 3)
        changed = board.schedules.modify("it", job=bring, details=Order(7, "42"), lane=None)
        assert (changed.lane, changed.priority) == (None, JobPriority.LOW)
        assert board.schedules.modify("it", job="other").lane is None


def boom(_: Any) -> Any:
    raise KeyError("SECRET")


@pytest.mark.parametrize(
    ("option", "function", "fault"),
    [
        ("lane", boom, "its function raised KeyError"),
        ("lane", lambda order: order.nothing, "its function raised AttributeError"),
        ("lane", lambda order: 7, "lane must be a str, not int"),
        ("lane", lambda order: "", "lane must not be empty"),
        ("lane", lambda order: "tenant:*", "lane must have no"),
        ("key", lambda order: order.number, "key must be a str, not int"),
        ("key", lambda order: "a" * 300, "key is 300 bytes"),
        ("key_for", lambda order: -1, "key_for must be from 0 seconds"),
        ("if_exists", lambda order: "often", "often"),
        ("priority", lambda order: "urgent", "urgent"),
    ],
)
def test_what_a_function_makes_wrongly_is_told_before_anything_is_sent(
    board: JobBoard, option: Any, function: Any, fault: str
) -> None:
    task = Handlers().handler("bad", **{"key": "a", option: function})(bring.function)
    board.close()
    for face in FACES:
        with pytest.raises(InvalidPosting, match=f"the task 'bad' declares {option}, but .*{fault}") as caught:
            face(board, task, Order(1, "x"))
        assert caught.value.path == option
        assert "SECRET" not in str(caught.value)
    given: dict[str, Any] = {option: None, "key": None} if option in ("lane", "key", "key_for") else {option: "keep"}
    if option == "priority":
        given = {option: "low"}
    assert Posting.of(task, Order(1, "x"), **given).name == "bad"


def test_a_signal_that_interrupts_a_function_is_not_taken_for_its_fault() -> None:
    def interrupted(*_: Any) -> None:
        raise TimeoutError

    def lane(_: Any) -> str:
        signal.raise_signal(signal.SIGUSR1)
        return "a"

    task = Handlers().handler("slow", lane=lane)(bring.function)
    before = signal.signal(signal.SIGUSR1, interrupted)
    try:
        with pytest.raises(TimeoutError):
            Posting.of(task, Order(1, "x"))
    finally:
        signal.signal(signal.SIGUSR1, before)


async def later(_: Any) -> str:
    return "a"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"lane": 7}, TypeError),
        ({"lane": "tenant:*"}, ValueError),
        ({"lane": later}, TypeError),
        ({"key": ""}, ValueError),
        ({"key_for": "1"}, TypeError),
        ({"key_for": -1}, ValueError),
        ({"if_exists": "often"}, ValueError),
        ({"priority": "urgent"}, ValueError),
    ],
)
def test_what_can_never_be_is_refused_at_the_declaration(options: Any, error: type[Exception]) -> None:
    for declare in (
        lambda: Handlers().handler("a", **options),
        lambda: Handlers().add("a", print, **options),
        lambda: Handlers().batch("a", **options),
    ):
        with pytest.raises(error, match=next(iter(options))):
            declare()


def test_copies_and_pickles_of_a_task_keep_it(board: JobBoard) -> None:
    assert pickle.loads(pickle.dumps(bring)).post(board, Order(1, "gold")).lane == "tenant:gold"
    for copied in (handlers.copy(), handlers.only(["import"])):
        assert copied["import"].task.post(board, Order(2, "gold"), if_exists="keep").lane == "tenant:gold"
    assert bring.post(board, Order(3, "gold"), run_at=datetime.now(UTC)).lane == "tenant:gold"
