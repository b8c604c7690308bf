"""The example ``fastapi_orders``: real requests, of a web process and a conductor that are killed on the way."""

from __future__ import annotations

import subprocess
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import httpx
import pytest
from harnesses.examples import WITHIN, Run, claimed_by
from servers.base import HOST, free_port
from servers.postgresql_servers import PostgresqlServer

from jobboard import JobBoard, JobState, backend
from jobboard.testing import eventually

pytest_plugins = ("harnesses.example_processes",)
# Several Python processes start one after the other.
pytestmark = pytest.mark.timeout(400)


class Shop(NamedTuple):
    """The application as its clients and operators see it."""

    run: Run
    server: PostgresqlServer
    board: JobBoard
    web: httpx.Client

    def start_web(self) -> subprocess.Popen[bytes]:
        process = self.run("uvicorn", "fastapi_orders.app:app", "--host", HOST, "--port", str(self.web.base_url.port))
        eventually(lambda: self.show(uuid.uuid4()) == (404, {"detail": "Not Found"}), WITHIN, every=0.1)
        return process

    def start_conductor(self) -> subprocess.Popen[bytes]:
        work = ("conductor", "fastapi_orders.work:handlers", "--executor", "asyncio", "--concurrency", "4")
        return self.run("jobboard", *work, "--expiry", "1")

    def place(self, id: uuid.UUID) -> bool:
        """Whether an order was acknowledged."""
        try:
            answer = self.web.put(f"/orders/{id}", json={"item": "tea"})
        except httpx.TransportError:
            return False
        assert answer.status_code == 202, answer.text
        return True

    def show(self, id: uuid.UUID) -> tuple[int, object]:
        try:
            answer = self.web.get(f"/orders/{id}")
        except httpx.TransportError as error:
            return 0, str(error)
        return answer.status_code, answer.json()

    def orders(self) -> dict[uuid.UUID, str | None]:
        """Return the invoices by order, from the table."""
        with self.server.client() as client:
            return dict(client.execute("SELECT id, invoice FROM orders").fetchall())


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as server:
        yield server


@pytest.fixture
def shop(server: PostgresqlServer, run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv("DATABASE_URL", server.uri.replace("postgresql:", "postgresql+psycopg:"))
    monkeypatch.setenv("JOBBOARD_URI", server.uri)
    monkeypatch.setenv("JOBBOARD_NAME", "orders")
    monkeypatch.setenv("INVOICE_TAKES", "0.1")
    assert run("fastapi_orders.tables").wait(WITHIN) == 0
    address = f"http://{HOST}:{free_port()}"
    with backend("orders", server.uri) as board, httpx.Client(base_url=address, timeout=30) as web:
        yield Shop(run, server, board, web)


def order_until(stop: threading.Event, shop: Shop, wished: list[uuid.UUID], acknowledged: set[uuid.UUID]) -> None:
    while not stop.wait(0.2):
        id = uuid.uuid4()
        wished.append(id)
        if shop.place(id):
            acknowledged.add(id)


def test_no_order_is_lost_though_the_web_process_and_a_conductor_die(shop: Shop) -> None:
    conductor, web = shop.start_conductor(), shop.start_web()
    wished: list[uuid.UUID] = []
    acknowledged: set[uuid.UUID] = set()
    stop = threading.Event()
    with ThreadPoolExecutor(4) as clients:
        ended = [clients.submit(order_until, stop, shop, wished, acknowledged) for _ in range(4)]
        try:
            eventually(lambda: len(acknowledged) >= 10, WITHIN)
            eventually(lambda: claimed_by(conductor, shop.board), WITHIN, every=0.1)
            conductor.kill()
            web.kill()
        finally:
            stop.set()
    assert [end.result() for end in ended] == [None] * 4

    shop.start_web()
    assert all(shop.place(id) for id in wished if id not in acknowledged)  # whoever got no answer asks again
    check_status_without_a_conductor(shop)
    shop.start_conductor()
    eventually(lambda: None not in [shop.orders()[id] for id in wished], WITHIN, every=0.1)
    assert {id: f"INV-{id}" for id in wished}.items() <= shop.orders().items()
    check_status_without_a_record(shop, wished[0])


def check_status_without_a_conductor(shop: Shop) -> None:
    id = uuid.uuid4()
    assert shop.place(id)
    assert shop.show(id) == (200, {"state": "unclaimed", "attempts": 0, "reason": None})
    shop.board.cancel(str(id))
    assert shop.show(id) == (200, {"state": "cancelled"})


def check_status_without_a_record(shop: Shop, id: uuid.UUID) -> None:
    assert shop.board.get(id).wait(WITHIN)
    with shop.server.client() as client:
        client.execute("UPDATE jobboard_jobs SET retain_until = 1 WHERE uuid = %s", [str(id)])
    assert shop.place(id)
    assert str(id) not in {job.uuid for job in shop.board.iterjobs(states=set(JobState))}
    assert shop.show(id) == (200, {"state": "invoiced", "invoice": f"INV-{id}"})
