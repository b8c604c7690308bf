"""A user's program with mistakes, one a line; each comment has what mypy and pyright call it. It is never run."""

from dataclasses import dataclass
from typing import TypedDict

from pydantic import BaseModel

import jobboard
import jobboard.aio
from jobboard import (
    AsyncRunningJob,
    Backoff,
    Calendar,
    Conductor,
    Cron,
    Every,
    Handlers,
    Job,
    JobBoard,
    LogBook,
    Posting,
    RunAgain,
    RunningJob,
    Schedule,
)
from jobboard.aio import AsyncJobBoard


@dataclass
class Order:
    number: int


@dataclass
class Wrong:
    number: int


class Address(TypedDict):
    street: str


class Person(BaseModel):
    name: str


handlers = Handlers()


@handlers.lifespan  # type-var, reportArgumentType
def no_pool() -> Order:
    return Order(1)


@handlers.handler("ask")
def ask(job: RunningJob[Order]) -> None:
    job.resources.numbre  # attr-defined, reportAttributeAccessIssue


@handlers.handler("pack")
def pack(job: RunningJob, order: Order) -> str:
    job.detials  # attr-defined, reportAttributeAccessIssue
    job.attempts + "x"  # operator, reportOperatorIssue
    job.progres(1)  # attr-defined, reportAttributeAccessIssue
    job.progress("half")  # arg-type, reportArgumentType
    job.progress(1, totel=2)  # call-arg, reportCallIssue
    job.key.upper()  # union-attr, reportOptionalMemberAccess
    job.fire_time + 5  # operator, reportOperatorIssue
    job.lost()  # operator, reportCallIssue
    job.record.attemps  # attr-defined, reportAttributeAccessIssue
    job.checkpoint = 1  # misc, reportAttributeAccessIssue
    order.nubmer  # attr-defined, reportAttributeAccessIssue
    return job.token  # return-value, reportReturnType


@handlers.handler
async def send(job: AsyncRunningJob, to: Address) -> None:
    job.detials  # attr-defined, reportAttributeAccessIssue
    await job.lost  # misc, reportGeneralTypeIssues
    job.progress(1, 2, 3)  # arg-type, reportArgumentType
    await job.board.psot("x")  # attr-defined, reportAttributeAccessIssue
    (await job.step("wait", write_off, 7)).lower()  # attr-defined, reportAttributeAccessIssue
    await job.step("wait", write_off, "7")  # call-overload, reportCallIssue
    to["stret"]  # typeddict-item, reportGeneralTypeIssues


async def write_off(cents: int) -> int:
    return cents


@handlers.handler
def greet(one: Person) -> str:
    return one.nmae  # attr-defined, reportAttributeAccessIssue


@handlers.handler("count")
def count(job: RunningJob) -> int:
    return len(job.details)


@handlers.handler("job")  # arg-type, reportCallIssue
def takes_another_job(job: Job) -> None: ...


@handlers.handler("more")  # arg-type, reportCallIssue
def takes_more(job: RunningJob, order: Order, more: int) -> None: ...


@handlers.handler("many", max_attempts="5")  # call-overload, reportArgumentType
def wrong_option(job: RunningJob) -> None: ...


@handlers.handler("far", executor="proces")  # call-overload, reportArgumentType
def wrong_executor(job: RunningJob) -> None: ...


def post(board: JobBoard, job: RunningJob) -> None:
    pack.post(board)  # call-overload, reportCallIssue
    pack.post(board, None)  # call-overload, reportArgumentType
    pack.post(board, Wrong(1))  # call-overload, reportArgumentType
    pack.post(board, {"number": 1})  # call-overload, reportArgumentType
    pack.post(Order(1), board)  # call-overload, reportArgumentType
    pack.post(board, Order(1), delay="5")  # call-overload, reportArgumentType
    pack.post(board, Order(1), priority="hihg")  # call-overload, reportArgumentType
    pack.post(board, Order(1), if_exists="skip")  # call-overload, reportArgumentType
    pack.post(board, Order(1), dealy=5)  # call-overload, reportCallIssue
    pack.post(board, Order(1)).detials  # attr-defined, reportAttributeAccessIssue
    send.post(board, {"stret": "High Street"})  # call-overload, reportArgumentType
    send.post(board, {"street": 5})  # call-overload, reportArgumentType
    greet.post(board, {"name": "Ann"})  # call-overload, reportArgumentType
    count.post(board, Order(1))  # call-overload, reportArgumentType
    pack.psot(board, Order(1))  # attr-defined, reportAttributeAccessIssue
    pack.encode(Wrong(1))  # arg-type, reportArgumentType
    pack(job, Wrong(1))  # arg-type, reportArgumentType
    pack(Order(1))  # call-arg, reportCallIssue
    Posting.of(pack)  # arg-type, reportArgumentType
    Posting.of(pack, Wrong(1))  # misc, reportArgumentType
    Posting.of(count, Order(1))  # misc, reportArgumentType
    Posting.of(pack, Order(1), delay="5")  # call-overload, reportArgumentType
    Posting.of("pack", Order(1))  # call-overload, reportArgumentType
    Schedule("nightly", Every(hours=1), pack)  # arg-type, reportArgumentType
    Schedule("nightly", Every(hours=1), pack, Wrong(1))  # misc, reportArgumentType
    Schedule("nightly", Every(hours=1), pack, Order(1), overlap="queue")  # call-overload, reportArgumentType
    board.post("pack", details=Order(1))  # arg-type, reportArgumentType
    board.post("pack", priority="hihg")  # arg-type, reportArgumentType
    board.post("pack", delay="5")  # arg-type, reportArgumentType
    Conductor("worker", board, handlers, on_stuck="leave")  # arg-type, reportArgumentType


async def post_later(board: AsyncJobBoard, plain: JobBoard) -> None:
    await pack.post(board, Wrong(1))  # call-overload, reportArgumentType
    await pack.post(plain, Order(1))  # misc, reportGeneralTypeIssues
    pack.post(board, Order(1)).uuid  # attr-defined, reportAttributeAccessIssue
    await count.post(board, delay="5")  # call-overload, reportArgumentType


def arrange(board: JobBoard, nightly: Schedule) -> None:
    board.post("pack", {}, None)  # call-arg, reportCallIssue
    board.post("pack", LogBook("notes"))  # arg-type, reportArgumentType
    board.post("pack", if_exists="skip")  # arg-type, reportArgumentType
    board.claim_next("me", expiry="5")  # arg-type, reportArgumentType
    board.schedules.add(nightly, if_exists="skip")  # arg-type, reportArgumentType
    nightly.jitter.total_seconds()  # attr-defined, reportAttributeAccessIssue
    Posting("pack", LogBook("notes"))  # arg-type, reportArgumentType
    Posting("pack", priority="hihg")  # arg-type, reportArgumentType
    Schedule("nightly", Every(hours=1), "pack", coalesce="newest")  # call-overload, reportArgumentType
    Cron("@daily", gap="skp")  # arg-type, reportArgumentType
    Cron("@daily", fold="third")  # arg-type, reportArgumentType
    Calendar(days=1, at="09:00", gap="skp")  # arg-type, reportArgumentType
    Conductor("worker", board, handlers, executor="proces")  # arg-type, reportArgumentType
    Conductor("worker", board, handlers, grace="5")  # arg-type, reportArgumentType
    Backoff(first="1")  # arg-type, reportArgumentType
    Handlers(backoff=lambda attempt: 1)  # arg-type, reportArgumentType
    Handlers(broken_on="KeyError")  # arg-type, reportArgumentType
    Handlers(give_up_after="1 day")  # arg-type, reportArgumentType
    RunAgain(after="5")  # arg-type, reportArgumentType
    jobboard.open("jobs", 5)  # arg-type, reportArgumentType
    jobboard.open("jobs").psot("pack")  # attr-defined, reportAttributeAccessIssue


async def arrange_later(board: AsyncJobBoard) -> None:
    await board.post("pack", priority="hihg")  # arg-type, reportArgumentType
    (await jobboard.aio.open("jobs")).psot("pack")  # attr-defined, reportAttributeAccessIssue
