"""The recipe for Flask, as it stands in the documentation, with real HTTP requests."""

from __future__ import annotations

import importlib.util
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from werkzeug.serving import make_server

from jobboard import NotFound
from jobboard.testing import run_due

RECIPE = Path(__file__).parent.parent / "doc" / "examples" / "flask_orders.py"

Ask = Callable[..., tuple[int, Any]]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/orders.db")
    spec = importlib.util.spec_from_file_location("flask_orders", RECIPE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.app.test_cli_runner().invoke(args=["create-tables"]).exit_code == 0
    yield module
    module.board.close()
    module.engine.dispose()


@pytest.fixture
def ask(shop: ModuleType) -> Iterator[Ask]:
    """Send a request, and return the answer's status and what it says."""
    server = make_server("127.0.0.1", 0, shop.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def ask(path: str, body: object = None) -> tuple[int, Any]:
        request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    yield ask
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_order_is_invoiced_and_its_status_outlives_the_record(shop: ModuleType, ask: Ask) -> None:
    status, order = ask("/orders", {"item": "tea"})
    assert status == 202
    path = f"/orders/{order['id']}"
    assert ask(path) == (200, {"state": "unclaimed", "attempts": 0, "reason": None})
    (job,) = run_due(shop.board, shop.handlers)
    assert job.uuid == order["id"]
    assert ask(path)[1]["state"] == "invoiced"
    retention_is_over(shop, job.uuid)
    assert ask(path) == (200, {"state": "invoiced", "invoice": f"INV-{job.uuid}"})


def retention_is_over(shop: ModuleType, uuid: str) -> None:
    with shop.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE jobboard_jobs SET retain_until = 1 WHERE uuid = ?", (uuid,))
    with pytest.raises(NotFound):
        shop.board.get(uuid)


def test_a_cancelled_job_and_an_unknown_order_have_an_answer(shop: ModuleType, ask: Ask) -> None:
    order = ask("/orders", {"item": "tea"})[1]
    shop.board.cancel(order["id"])
    assert ask(f"/orders/{order['id']}") == (200, {"state": "cancelled"})
    assert ask("/orders/00000000-0000-0000-0000-000000000000")[0] == 404


def test_an_order_that_fails_posts_nothing(shop: ModuleType, ask: Ask) -> None:
    assert ask("/orders", {"item": None})[0] == 500
    assert shop.board.job_count == 0
