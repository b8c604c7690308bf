"""The shop itself, the same before and after: its data, and the services that it calls."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

REGIONS = ("north", "south", "west")
#: Seconds between two calls of the courier, who takes no more.
COURIER_PAUSE = 0.2

_TABLES = """
CREATE TABLE IF NOT EXISTS done (what TEXT, about TEXT, at REAL);
CREATE TABLE IF NOT EXISTS sums (day TEXT, region TEXT, cents INTEGER, PRIMARY KEY (day, region));
CREATE TABLE IF NOT EXISTS outages (failures_left INTEGER);
"""


@dataclass
class Order:
    """What a customer has bought."""

    id: int
    cents: int


@dataclass
class Sales:
    """The sales of one day in one region."""

    day: str
    region: str


@contextmanager
def database() -> Iterator[sqlite3.Connection]:
    """Open the shop's database; one transaction, which nobody else can begin meanwhile."""
    connection = sqlite3.connect(os.environ["SHOP_DB"], timeout=30, isolation_level=None)
    try:
        connection.executescript(_TABLES)
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")
    finally:
        connection.close()


def charge(order: Order) -> None:
    """Take the money for an order.

    :raises OSError: the bank does not answer, as it is now and then.
    """
    with database() as connection:
        broken = connection.execute("UPDATE outages SET failures_left = failures_left - 1 WHERE failures_left > 0")
    if broken.rowcount:
        raise OSError("the bank does not answer")
    _note("charged", str(order.id))


def send_mail(order: Order) -> None:
    """Tell the customer that it is paid."""
    _note("mailed", str(order.id))


def call_courier(order: Order) -> float:
    """Order the courier, unless the last call was just now; return the seconds to wait, 0 if it is done."""
    with database() as connection:
        now = time.time()
        (last,) = connection.execute("SELECT max(at) FROM done WHERE what = 'called'").fetchone()
        wait = max(0.0, (last or 0.0) + COURIER_PAUSE - now)
        if not wait:
            connection.execute("INSERT INTO done VALUES ('called', ?, ?)", [str(order.id), now])
    return wait


def sum_up(sales: Sales) -> None:
    """Compute what was sold in a region."""
    with database() as connection:
        connection.execute("INSERT OR REPLACE INTO sums VALUES (?, ?, ?)", [sales.day, sales.region, 100])


def send_report(day: str) -> None:
    """Send the sum of all regions to the owner."""
    with database() as connection:
        (cents,) = connection.execute("SELECT sum(cents) FROM sums WHERE day = ?", [day]).fetchone()
    _note("reported", f"{day}: {cents}")


def _note(what: str, about: str) -> None:
    with database() as connection:
        connection.execute("INSERT INTO done VALUES (?, ?, ?)", [what, about, time.time()])
