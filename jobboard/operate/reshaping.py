"""Adding and removing shards of a board that is spread over several stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jobboard.errors import NotSupported

if TYPE_CHECKING:
    from jobboard.backends.shards.reshaping import Reshaping
    from jobboard.board import JobBoard

#: Seconds that a new store gets to answer.
_TIMEOUT = 10.0


def reshaping_of(board: JobBoard, tell: Callable[[str], object]) -> Reshaping:
    """Return what adds and removes shards of a board.

    :param tell: is told what is being done.
    :raises NotSupported: the board has no shards.
    """
    from jobboard.backends.shards import ShardsBackend
    from jobboard.board import client_of

    backend = client_of(board).backend
    if not isinstance(backend, ShardsBackend):
        raise NotSupported(f"a {board.store} board has no shards: it is on one store; see the guide Beyond one machine")
    return backend.reshaping(tell)


def add_shard(board: JobBoard, uri: str, tell: Callable[[str], object]) -> int:
    """Make the store at a URI a shard of a board, and return its number.

    :raises UnknownBackend: there is no such backend.
    :raises ValueError: the URI is wrong.
    """
    from jobboard.backends.loading import backend_at

    reshaping = reshaping_of(board, tell)
    return reshaping.add(backend_at(board.name, uri), _TIMEOUT)
