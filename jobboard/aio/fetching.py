"""From a URI, a name or a dict to a board for asyncio and Trio."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from jobboard import fetching
from jobboard.aio.board import AsyncJobBoard
from jobboard.opening import find


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


def open(
    board: str | None = None,
    uri: str | Mapping[str, Any] | None = None,
    *,
    config: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Opening:
    """Return what opens a board: ``async with`` does, and closes it; and so does ``await``, which returns the board.

    Arguments and errors are those of :func:`jobboard.open`.
    """
    return Opening(AsyncJobBoard(find(board, uri, config).fetch(**options)))


class Opening(Awaitable[AsyncJobBoard], AbstractAsyncContextManager[AsyncJobBoard]):
    """A board that is about to be opened; get one from :func:`jobboard.aio.open`."""

    def __init__(self, board: AsyncJobBoard) -> None:
        self._board = board

    def __await__(self) -> Generator[Any, Any, AsyncJobBoard]:
        return self._board.__aenter__().__await__()

    async def __aenter__(self) -> AsyncJobBoard:
        return await self

    async def __aexit__(self, *raised: Any) -> None:
        await self._board.__aexit__(*raised)
