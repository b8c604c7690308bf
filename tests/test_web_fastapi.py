"""The recipe for FastAPI with conductor and scheduler inside, as it stands in the documentation."""

from __future__ import annotations

import runpy
import threading
from datetime import UTC, datetime
from pathlib import Path

import anyio
import httpx
import pytest

from jobboard import At, EventKind, Schedule, aio
from jobboard.testing.deadline import DEADLINE

pytest.importorskip("fastapi", reason="tox installs it where this runs")

RECIPE = Path(__file__).parent.parent / "doc" / "examples" / "fastapi_inside.py"


def test_handlers_and_schedules_run_within_the_lifespan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    anyio.run(remind_and_tidy_up)
    assert not {"jobboard-scheduler", "jobboard-asyncio"} & {thread.name for thread in threading.enumerate()}


async def remind_and_tidy_up() -> None:
    app = runpy.run_path(str(RECIPE))["app"]
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://bot") as web:
        board: aio.AsyncJobBoard = app.state.board
        answer = await web.put("/chats/7/reminders/tea", params={"text": "tea", "seconds": 0.1})
        job = await board.get(answer.json()["id"])
        assert await job.get_result(DEADLINE) == "to 7: tea"
        await web.put("/chats/7/reminders/tea", params={"text": "tea", "seconds": 600})
        assert (await web.delete("/chats/7/reminders/tea")).json() == {"cancelled": 1}
        assert [schedule.id async for schedule in board.schedules] == ["nightly"]
        with anyio.fail_after(DEADLINE):
            async with board.subscribe([EventKind.CONSUMED]) as events:
                await board.schedules.add(Schedule("now", At(datetime.now(UTC)), "tidy_up"))
                assert (await anext(aiter(events))).name == "tidy_up"
