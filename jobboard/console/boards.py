"""The boards of a console: opened when they are first asked for, so that a dead store is a page and not a crash."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from jobboard.board import JobBoard

Part = TypeVar("Part")

_NOT_IN_A_SLUG = re.compile(r"[^A-Za-z0-9._-]+")
_SLUG = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
#: Seconds for the first connection, for which a page waits.
_CONNECT_TIMEOUT = 5.0


class ConsoleBoard:
    """One board in the console.

    :ivar slug: its name in URLs.
    """

    def __init__(self, slug: str, board: JobBoard) -> None:
        self.slug = slug
        self._board = board
        # A store that hangs holds up who opens it, and not who asks what is known of it.
        self._opening, self._lock = threading.Lock(), threading.Lock()
        self._parts: dict[Callable[[JobBoard], Any], Any] = {}
        self._is_opened = False

    @property
    def name(self) -> str:
        """The board's own name; no request."""
        return self._board.name

    @property
    def title(self) -> str:
        """What people call it: its own name, unless that in URLs is another one, and not the former made fit for it."""
        return self.name if self.slug == _slug_of(self.name) else self.slug

    def open(self) -> JobBoard:
        """Return the board, connected.

        :raises BoardUnavailable: the store can't be reached. :raises NotFound: there is no such board.
        """
        with self._opening:
            if not self._is_opened:
                self._board.connect(_CONNECT_TIMEOUT)
                self._is_opened = True
        return self._board

    def part(self, make: Callable[[JobBoard], Part]) -> Part:
        """Return what ``make`` returns for the board, which may not be connected yet.

        Made once, and closed with the console if it has a ``close``.
        """
        with self._lock:
            if make not in self._parts:
                self._parts[make] = make(self._board)
            part: Part = self._parts[make]
            return part

    def close(self) -> None:
        """Close the parts. The board is its owner's."""
        with self._lock:
            parts, self._parts = list(self._parts.values()), {}
        for part in parts:
            if hasattr(part, "close"):
                part.close()


def console_boards(boards: JobBoard | Iterable[JobBoard] | Mapping[str, JobBoard]) -> dict[str, ConsoleBoard]:
    """Return the boards by their names in URLs: the keys of a mapping, or what is made of their own names.

    :raises TypeError, ValueError: what is given is no board, there is none, or a key can't stand in a URL.
    """
    named = dict(boards) if isinstance(boards, Mapping) else _by_slug(boards)
    if not named:
        raise ValueError("a console needs at least one board")
    for slug, board in named.items():
        if not _SLUG.fullmatch(slug):
            raise ValueError(f"a board's name in URLs has letters, digits, '_', '-' and, later, '.' only; got {slug!r}")
        _check_board(board)
    return {slug: ConsoleBoard(slug, board) for slug, board in named.items()}


def _check_board(value: object) -> None:
    if not isinstance(value, JobBoard):
        raise TypeError(f"boards must be JobBoards, not {type(value).__name__}")


def _by_slug(given: JobBoard | Iterable[JobBoard]) -> dict[str, JobBoard]:
    boards = [given] if isinstance(given, JobBoard) else list(given)
    for board in boards:
        _check_board(board)
    return by_slug((board.name, board) for board in boards)


def by_slug(named: Iterable[tuple[str, JobBoard]]) -> dict[str, JobBoard]:
    """Return boards by these names made fit for URLs; further boards of one name are numbered."""
    found: dict[str, JobBoard] = {}
    for name, board in named:
        slug = _slug_of(name)
        free = (each for number in range(1, len(found) + 2) if (each := _numbered(slug, number)) not in found)
        found[next(free)] = board
    return found


def _slug_of(name: str) -> str:
    return _NOT_IN_A_SLUG.sub("-", name).lstrip(".") or "board"


def _numbered(slug: str, number: int) -> str:
    return slug if number == 1 else f"{slug}-{number}"
