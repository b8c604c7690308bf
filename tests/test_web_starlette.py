"""The recipe for Starlette, as it stands in the documentation."""

from __future__ import annotations

import runpy
from pathlib import Path

import anyio
import httpx
import pytest

from jobboard import Handlers, backend
from jobboard.testing import run_due

RECIPE = Path(__file__).parent.parent / "doc" / "examples" / "starlette_app.py"

handlers = Handlers()
handlers.add("invoice", lambda job: f"INV-{job.details['order']}")


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_orders_are_posted_and_shown(loop: str) -> None:
    anyio.run(order_and_look, backend=loop)


async def order_and_look() -> None:
    app = runpy.run_path(str(RECIPE))["app"]
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://shop") as web:
        answer = await web.post("/orders")
        assert answer.status_code == 202
        path = f"/orders/{answer.json()['id']}"
        assert (await web.get(path)).json() == {"state": "unclaimed", "result": None}
        with backend("orders", "memory://starlette", retention=0) as board:
            (job,) = run_due(board, handlers)
        assert job.uuid == answer.json()["id"]
        assert (await web.get(path)).status_code == 404
        assert (await web.get("/orders/nonsense")).status_code == 404
        await app.state.board.close()
        answer = await web.post("/orders")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
