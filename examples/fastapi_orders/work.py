"""The handlers: ``jobboard conductor fastapi_orders.work:handlers --executor asyncio``."""

import asyncio
import os
import uuid
from dataclasses import dataclass

from fastapi_orders.tables import Order, new_session
from jobboard import AsyncRunningJob, Handlers

handlers = Handlers()


@dataclass
class Invoice:
    order: str


@handlers.handler
async def invoice(job: AsyncRunningJob, wanted: Invoice) -> None:
    """Write the invoice, and complete the job, in one transaction."""
    async with new_session() as session, session.begin():
        order = await session.get_one(Order, uuid.UUID(wanted.order))
        await asyncio.sleep(float(os.environ.get("INVOICE_TAKES", "0")))
        order.invoice = f"INV-{order.id}"
        await job.complete(connection=session)
