"""Calls that take part in a transaction of the user's, on an asyncio session or connection of SQLAlchemy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def call_in_transaction(connection: Any, call: Callable[..., T]) -> T:
    """Return what a call returns with this connection; the present task makes its requests, and waits as for its own.

    :raises TypeError: it is no such session or connection.
    """
    lend = getattr(connection, "run_sync", None)
    if lend is None:
        cls = type(connection)
        raise TypeError(
            "connection must be an AsyncSession or AsyncConnection of SQLAlchemy, "
            f"not {cls.__module__}.{cls.__qualname__}; a plain JobBoard takes those that block"
        )
    result: T = await lend(lambda below: call(connection=below))
    return result
