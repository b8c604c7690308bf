"""What a store under measurement has to offer: somewhere to put boards, and its own limit beside them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from jobboard import JobBoard


class Bare(Protocol):
    """The least that the store has to do for the same work, by its own client."""

    beside: str

    def post(self, count: int, batch: int) -> int: ...
    def claim_and_consume(self, count: int, batch: int) -> int: ...


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
