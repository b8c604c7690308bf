"""The web process: ``uvicorn fastapi_orders.app:app``."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession

from fastapi_orders.tables import URI, Order, engine, new_session
from fastapi_orders.work import Invoice, invoice
from jobboard import BoardUnavailable, NotFound, aio

board = aio.fetch("orders", URI, patience=2)  # no request waits longer for an answer that got lost


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with board:
        yield
    await engine.dispose()


async def session_of_request() -> AsyncIterator[AsyncSession]:
    async with new_session() as session:
        yield session


app = FastAPI(lifespan=lifespan)
Session = Annotated[AsyncSession, Depends(session_of_request)]
Board = Annotated[aio.AsyncJobBoard, Depends(lambda: board)]


@app.exception_handler(BoardUnavailable)
async def unavailable(request: Request, error: BoardUnavailable) -> JSONResponse:
    return JSONResponse({"detail": "try again in a moment"}, 503, {"Retry-After": "5"})


class Wish(BaseModel):
    item: str


@app.put("/orders/{id}", status_code=202)
async def place_order(id: uuid.UUID, wish: Wish, session: Session, board: Board) -> dict[str, Any]:
    async with session.begin():
        if await session.get(Order, id) is None:  # a request that is sent again changes nothing
            session.add(Order(id=id, item=wish.item))
            await invoice.post(board, Invoice(str(id)), uuid=id, connection=session)
    return {"id": id}


@app.get("/orders/{id}")
async def show_order(id: uuid.UUID, session: Session, board: Board) -> dict[str, Any]:
    order = await session.get(Order, id)
    if order is None:
        raise HTTPException(404)
    if order.invoice is not None:  # the outcome is the order's own, and stays when the job's record is gone
        return {"state": "invoiced", "invoice": order.invoice}
    try:
        record = (await board.get(id)).record
    except NotFound:  # neither an invoice nor a job: somebody cancelled it
        return {"state": "cancelled"}
    return {"state": record.state.lower(), "attempts": record.attempts, "reason": record.reason}
