"""Tasks that worker processes can import."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from decimal import Decimal
from typing import TypedDict
from uuid import UUID

from pydantic import BaseModel, Field

from jobboard import AsyncRunningJob, Handlers, RunningJob

handlers = Handlers(max_attempts=3)


@dataclass(frozen=True)
class Line:
    article: UUID
    price: Decimal


@dataclass(frozen=True)
class Order:
    number: int
    lines: tuple[Line, ...] = ()


class Address(TypedDict):
    street: str


class Person(BaseModel):
    name: str = Field(alias="full-name")


@handlers.handler("pack")
def pack(job: RunningJob, order: Order) -> list[str]:
    return [job.name, str(order.number), *(str(line.price) for line in order.lines)]


@handlers.handler
async def send(job: AsyncRunningJob, to: Address) -> str:
    await asyncio.sleep(0)
    return f"{job.name} {to['street']}"


@handlers.handler()
def greet(one: Person) -> str:
    return one.name


@handlers.handler
def count(job: RunningJob) -> int:
    return len(job.details)


@handlers.handler("outer")
@handlers.handler("inner")
def twice(job: RunningJob) -> str:
    return job.name


def plain(job: RunningJob) -> str:
    return job.name


first, second = handlers.add("first", plain), handlers.add("second", plain)
third = handlers.add("third", pack)
