"""What a store under measurement has to offer: somewhere to put boards, and its own limit beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from jobboard import JobBoard, fetch


class Bare(Protocol):
    """The least that the store has to do for the same work, by its own client."""

    beside: str

    def post(self, count: int, batch: int) -> int: ...
    def claim_and_consume(self, count: int, batch: int) -> int: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Space:
    """Somewhere to put boards.

    :param bare: the store's own limit, where a queue as small as can be is put together from its commands.
    :param uri: None where a second process can't come.
    :param same: the very requests that a board sends, by the store's own client; None if they aren't measured.
    :param batch: how many jobs are a batch.
    :param lean: scripts in the server that write the same as the board's and check next to nothing, if it has scripts.
    :param server_cpu: returns the seconds of CPU that the server has had; it comes with ``lean``.
    """

    open: Callable[[str], JobBoard]
    bare: Callable[[], AbstractContextManager[Bare]]
    uri: str | None
    largest_backlog: int
    same: Callable[[], AbstractContextManager[Bare]] | None = None
    batch: int = 100
    lean: Callable[[], AbstractContextManager[Bare]] | None = None
    server_cpu: Callable[[], float] | None = None


@dataclass(frozen=True)
class Store:
    """A store under measurement; every space of its is empty at first and gone afterwards.

    :param goals: what a figure must reach, by the figure's name.
    :param version: says what was measured, beside Python's own version.
    """

    name: str
    space: Callable[[], AbstractContextManager[Space]]
    goals: dict[str, str] = field(default_factory=dict)
    version: Callable[[], str] | None = None


def space_of(
    start: Callable[[], Any], bare: Callable[[Any], Bare], **options: Any
) -> Callable[[], AbstractContextManager[Space]]:
    """Return the spaces on servers of the benchmark's own.

    :param start: makes a server, which runs for as long as its context.
    :param bare: makes its own limit.
    :param options: further ones of each :class:`Space`.
    """

    @contextmanager
    def space() -> Iterator[Space]:
        with start() as server:
            yield Space(
                lambda name: fetch(name, server.uri, least_interval=0.1),
                lambda: closing(bare(server)),
                server.uri,
                **options,
            )

    return space
