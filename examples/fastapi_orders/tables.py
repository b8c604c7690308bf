"""The application's own tables; ``python -m fastapi_orders.tables`` creates them."""

import asyncio
import os
import uuid

from sqlalchemy import String
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

URI = os.environ["DATABASE_URL"]
engine = create_async_engine(URI)
new_session = async_sessionmaker(engine)


class Base(DeclarativeBase):
    """What all tables share."""


class Order(Base):
    """An order, and its outcome once there is one."""

    __tablename__ = "orders"
    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    item: Mapped[str] = mapped_column(String(200))
    invoice: Mapped[str | None] = mapped_column(String(200))


async def create() -> None:
    """Create what is missing."""
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)


if __name__ == "__main__":
    asyncio.run(create())
