"""From a URI, a name or a dict to a board for asyncio and Trio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from jobboard import fetching
from jobboard.aio.board import AsyncJobBoard


def fetch(name: str, conf: str | Mapping[str, Any], **kwargs: Any) -> AsyncJobBoard:
    """Return a board, not yet connected; arguments and errors as for :func:`jobboard.fetch`."""
    return AsyncJobBoard(fetching.fetch(name, conf, **kwargs))


@asynccontextmanager
async def backend(name: str, conf: str | Mapping[str, Any], **kwargs: Any) -> AsyncIterator[AsyncJobBoard]:
    """Fetch a board, connect it, and close it at the end of the ``async with`` block; arguments as for :func:`fetch`.

    :raises BoardUnavailable: the store can't be reached.
    """
    async with fetch(name, conf, **kwargs) as board:
        yield board
