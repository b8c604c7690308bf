"""The handlers: ``jobboard conductor fastapi_orders.work:handlers --executor asyncio``."""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from fastapi_orders.tables import URI, Order
from jobboard import AsyncRunningJob, Handlers

handlers = Handlers()


@handlers.lifespan
async def sessions() -> AsyncIterator[async_sessionmaker[AsyncSession]]:
    """The connections of a conductor, on the event loop of its handlers; they are closed when it stops."""
    engine = create_async_engine(URI)
    yield async_sessionmaker(engine)
    await engine.dispose()


@dataclass
class Invoice:
    order: str


@handlers.handler
async def invoice(job: AsyncRunningJob[async_sessionmaker[AsyncSession]], wanted: Invoice) -> None:
    """Write the invoice, and complete the job, in one transaction."""
    async with job.resources() as session, session.begin():
        order = await session.get_one(Order, uuid.UUID(wanted.order))
        await asyncio.sleep(float(os.environ.get("INVOICE_TAKES", "0")))
        order.invoice = f"INV-{order.id}"
        await job.complete(connection=session)
