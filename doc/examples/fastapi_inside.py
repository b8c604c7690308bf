"""Requests, handlers and schedules in one process: ``uvicorn fastapi_inside:app --workers 2``."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi import FastAPI, Request

import jobboard
from jobboard import AsyncRunningJob, Conductor, Cron, Handlers, Schedule, Scheduler, aio

handlers = Handlers()


@dataclass
class Reminder:
    chat: int
    text: str


@handlers.handler
async def remind(reminder: Reminder) -> str:
    return f"to {reminder.chat}: {reminder.text}"


@handlers.handler
async def tidy_up(job: AsyncRunningJob) -> None: ...


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    plain = jobboard.fetch("bot", "sqlite:///jobs.db")
    async with aio.AsyncJobBoard(plain) as board:  # it connects and closes the plain one, too
        app.state.board = board
        await board.schedules.add(Schedule("nightly", Cron("0 3 * * *"), tidy_up), if_exists="replace")
        conductor = Conductor("web", plain, handlers, concurrency=8, executor="asyncio")
        scheduler = Scheduler(plain)
        await asyncio.to_thread(conductor.start)
        await asyncio.to_thread(scheduler.start)
        try:
            yield
        finally:  # what blocks is called in a thread
            await asyncio.to_thread(scheduler.stop, timeout=5)
            await asyncio.to_thread(conductor.stop, timeout=5)


app = FastAPI(lifespan=lifespan)


@app.put("/chats/{chat}/reminders/{name}")
async def set_reminder(chat: int, name: str, text: str, seconds: float, request: Request) -> dict[str, str]:
    reminder, key = Reminder(chat, text), f"{chat}/{name}"
    job = await remind.post(request.app.state.board, reminder, key=key, delay=seconds, if_exists="replace")
    return {"id": job.uuid}


@app.delete("/chats/{chat}/reminders/{name}")
async def cancel_reminder(chat: int, name: str, request: Request) -> dict[str, int]:
    return {"cancelled": await request.app.state.board.cancel_by_key("remind", key=f"{chat}/{name}")}
