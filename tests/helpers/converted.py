"""Handlers of a board with a converter, which worker processes can import."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from uuid import UUID

from jobboard import Converter, Handlers, RunningJob


@dataclass(frozen=True)
class Money:
    amount: Decimal
    currency: str


def encode_money(money: Money) -> list[object]:
    return [money.amount, money.currency]


def decode_money(plain: list[object]) -> Money:
    amount, currency = plain
    if not isinstance(amount, Decimal):
        raise TypeError("no amount")
    return Money(amount, str(currency))


converter = Converter().add("money", Money, encode_money, decode_money)
handlers = Handlers(max_attempts=1)


@handlers.handler("double")
def double(job: RunningJob) -> dict[str, object]:
    price, day = job.details["price"], job.details["day"]
    assert (type(price), type(day)) == (Money, date)
    job.checkpoint_state([price])
    return {"price": Money(2 * price.amount, price.currency), "day": day}


@handlers.handler("later")
async def later(job: RunningJob) -> object:
    await asyncio.sleep(0)
    return job.details["id"]


@dataclass
class Invoice:
    id: UUID
    price: Money


@handlers.handler("typed")
def typed(invoice: Invoice) -> list[object]:
    return [invoice.id, invoice.price]


@handlers.handler("strange")
def strange(_job: RunningJob) -> object:
    return {"part": {1, 2}}
