"""Handlers that get their details as types of their own, which worker processes can import."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict
from uuid import UUID

from pydantic import BaseModel, Field, field_validator

from jobboard import Handlers, RunningJob

handlers = Handlers(max_attempts=3)


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass
class Line:
    article: str
    price: Decimal
    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"bad count {self.count}")


@dataclass
class Order:
    number: int
    lines: list[Line]
    id: UUID | None = None
    due: date | None = None
    at: datetime | None = None
    size: Size = Size.SMALL
    way: Literal["air", "sea"] = "sea"
    weights: dict[str, float] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    corner: tuple[int, int] = (0, 0)
    note: str | int = ""
    anything: Any = None
    parent: Order | None = None


class Address(TypedDict):
    street: str
    number: NotRequired[int]


class Home(BaseModel):
    street: str


class Person(BaseModel):
    name: str
    born: date
    mail: str = Field(default="", alias="e-mail")
    homes: dict[str, Home] = {}

    @field_validator("name")
    @classmethod
    def _named(cls, name: str) -> str:
        if not name.istitle():
            raise ValueError(f"{name} is no name")
        return name


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


@handlers.handler("only")
def only(order: Order) -> list[object]:
    return [order.number, [str(line.price) for line in order.lines]]


@handlers.handler("both")
@logged
def both(job: RunningJob, order: Order) -> list[object]:
    return [job.name, order.number]


@handlers.handler("later")
async def later(_job: RunningJob, order: Annotated[Order, "wrapped"]) -> int:
    await asyncio.sleep(0)
    return order.number


@handlers.handler("address")
def address(to: Address) -> str:
    return to["street"]


@handlers.handler("person")
def person(one: Person) -> str:
    return one.born.isoformat()
