"""A user's program that uses everything rightly: type checkers find nothing in it. It is checked, and never run."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict, assert_type

from pydantic import BaseModel

import jobboard
import jobboard.aio
from jobboard import (
    AsyncBatchJob,
    AsyncRunningJob,
    Backoff,
    Calendar,
    Conductor,
    Cron,
    Entity,
    Every,
    Handlers,
    Job,
    JobBoard,
    LogBook,
    Posting,
    RunAgain,
    RunningJob,
    Schedule,
    Scheduler,
)
from jobboard.aio import AsyncJob, AsyncJobBoard
from jobboard.types import Priority, Seconds


@dataclass
class Order:
    number: int


class Address(TypedDict):
    street: str


class Person(BaseModel):
    name: str


handlers = Handlers()


def wait_as_told(attempt: int, error: Exception) -> timedelta | float:
    return timedelta(minutes=attempt) if isinstance(error, OSError) else 0.5


Handlers(backoff=wait_as_told, broken_on=LookupError, give_up_after=timedelta(days=1))
handlers.handler("unpack", backoff=wait_as_told, broken_on=(KeyError, ValueError), give_up_after=60)


class Pool:
    def ask(self) -> int:
        return 1


@handlers.lifespan
def pools() -> Iterator[Pool]:
    yield Pool()


@handlers.handler
def ask(job: RunningJob[Pool], order: Order) -> int:
    assert_type(job.resources, Pool)
    return job.resources.ask()


others = Handlers()


@others.lifespan(timeout=timedelta(minutes=5))
async def pools_later() -> AsyncIterator[Pool]:
    yield Pool()


@others.handler("ask later")
async def ask_later(job: AsyncRunningJob[Pool]) -> int:
    assert_type(job.resources, Pool)
    return job.resources.ask()


@others.batch("ask all")
async def ask_all(jobs: list[AsyncBatchJob[Pool]]) -> dict[AsyncBatchJob[Pool], int]:
    return {job: job.resources.ask() for job in jobs}


@handlers.handler("pack", max_attempts=5, backoff=Backoff(first=1), timeout=timedelta(minutes=1), executor="process")
def pack(job: RunningJob, order: Order) -> str | RunAgain:
    job.progress(1, 2, "packing")
    job.checkpoint_state({"number": order.number})
    assert_type(job.uuid, str)
    assert_type(job.details, dict[str, Any])
    assert_type(job.token, int)
    assert_type(job.attempts, int)
    assert_type(job.key, str | None)
    assert_type(job.fire_time, datetime | None)
    assert_type(job.lost, bool)
    assert_type(job.board, JobBoard)
    return RunAgain(after=5) if job.attempts == 1 else job.name


@handlers.handler
async def send(job: AsyncRunningJob, to: Address) -> None:
    await job.progress(1)
    await job.checkpoint_state(to["street"])
    assert_type(job.board, AsyncJobBoard)
    assert_type(job.last_error, str | None)


@handlers.handler(
    lane=lambda one: f"person:{one.name}", key=lambda one: one.name, key_for=timedelta(hours=1), if_exists="keep",
    priority="low",
)  # fmt: skip
def greet(one: Person) -> int:
    return len(one.name)


@handlers.handler("count")
def count(job: RunningJob, most: int = 5) -> int:
    return min(most, len(job.details))


@handlers.handler
async def watch(job: AsyncRunningJob) -> str:
    assert_type(await pack.post(job.board, Order(1)), AsyncJob)
    assert_type(await job.step("count", len, [1]), int)
    assert_type(await job.step("draw", lambda: 7), int)
    receipt = await job.step("charge", charge, 7, currency="EUR")
    return receipt


async def charge(cents: int, *, currency: str) -> str:
    return f"{cents} {currency}"


@handlers.handler
async def write(to: Address) -> None: ...


def post(board: JobBoard, job: RunningJob) -> None:
    ask.post(board, Order(1))
    job.resources.anything
    assert_type(pack.post(board, Order(1), key="1", delay=timedelta(hours=1), priority="high"), Job)
    assert_type(send.post(board, {"street": "High Street"}), Job)
    assert_type(greet.post(board, Person(name="Ann"), if_exists="keep"), Job)
    assert_type(count.post(board), Job)
    assert_type(count.post(board, {"a": 1}, connection=object()), Job)
    write.post(board, Address(street="High Street"))
    watch.post(board)
    board.post_many([Posting.of(pack, Order(1), key="1"), Posting.of(count), Posting.of(count, {"a": 1})])
    Posting.of(send, Address(street="High Street"))
    board.schedules.add(Schedule("nightly", Every(hours=1), pack, Order(1), jitter=timedelta(minutes=1)))
    Schedule("hourly", Every(hours=1), count, max_runs=3)
    Schedule("daily", Every(hours=24), "count", {"a": 1})
    assert_type(pack.encode(Order(1)), dict[str, Any])
    assert_type(pack(job, Order(1)), str | RunAgain)
    assert_type(greet(Person(name="Ann")), int)


async def post_later(board: AsyncJobBoard, job: AsyncRunningJob) -> None:
    assert_type(await pack.post(board, Order(1), delay=5), AsyncJob)
    assert_type(await count.post(board), AsyncJob)
    await board.post_many([Posting.of(greet, Person(name="Ann"))])
    await send(job, {"street": "High Street"})


def arrange(board: JobBoard, when: Seconds, how: Priority) -> None:
    assert_type(board.post("pack", {"n": 1}, book=LogBook("notes"), priority=how, delay=when), Job)
    Posting("pack", priority="very_low", delay=timedelta(hours=1))
    day = Every(seconds=timedelta(days=1))
    nightly = Schedule("nightly", day, "pack", coalesce="all", overlap="skip", jitter=timedelta(minutes=1))
    board.schedules.add(nightly, if_exists="replace")
    assert_type(nightly.jitter, float)
    assert_type(Backoff(first=timedelta(seconds=1)).first, float)
    assert_type(Entity("robot", "r2", ttl=timedelta(minutes=1)).ttl, float)
    Cron("@daily", gap="skip", fold="both")
    Calendar(days=1, at="09:00", gap="shift", fold="first")
    with Conductor("worker", board, handlers, executor="asyncio", grace=when, on_stuck="exit") as working:
        assert_type(working, Conductor)
    with Scheduler(board) as clock:
        clock.wait(timedelta(hours=1))
    with jobboard.open("jobs", "sqlite:///jobs.db", expiry=when) as opened:
        assert_type(opened, JobBoard)


async def arrange_later() -> None:
    async with jobboard.aio.open("jobs") as board:
        assert_type(board, AsyncJobBoard)
        await board.post("pack", {"n": 1}, priority="low")
    assert_type(await jobboard.aio.open("jobs"), AsyncJobBoard)
