"""The limits of names, which the first shard keeps as a logbook that no reader sees: an entry for each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from jobboard.backends.base import Backend
from jobboard.backends.book_rows import BookSave, SaveOutcome
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.slots import NameLimit, pack, unpack
from jobboard.backends.shards.table import NAME_LIMITS, parts
from jobboard.errors import BoardUnavailable
from jobboard.validation import new_uuid

logger = logging.getLogger("jobboard.backends.shards")

#: How often it is read, or changed, again because others change it meanwhile.
_MAX_TRIES = 50

T = TypeVar("T")
Change = Callable[[NameLimit | None], NameLimit | None]


@dataclass(frozen=True)
class _Read:
    """What was read, and its version; None: there is no logbook."""

    version: str | None
    entries: Mapping[str, NameLimit]


class Ledger:
    """Each change is atomic, on condition that nobody has changed anything since it was read."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def read(self) -> Mapping[str, NameLimit]:
        """Return the limits of all names; one that can't be decoded is left out."""
        return self._ask(read_from)

    def get(self, name: str) -> NameLimit | None:
        return self.read().get(name)

    def change(self, name: str, change: Change) -> NameLimit | None:
        """Store what ``change`` makes of a limit, None for none; return it. What is the same is not stored again.

        :param change: is called again if another client was faster.
        :raises BoardUnavailable: others always are.
        """
        for _ in range(_MAX_TRIES):
            read = self._ask(_read)
            old = read.entries.get(name)
            new = change(old)
            if new is old or self._save(read.version, name, new):
                return new
        raise BoardUnavailable("others change the limits of names all the time; try again")

    def _save(self, after: str | None, name: str, entry: NameLimit | None) -> bool:
        entries = {name: None if entry is None else pack(entry)}
        if after is None and entry is None:
            return True
        save = BookSave(NAME_LIMITS, new_uuid(), after, b"", entries)
        return self._ask(lambda shard: shard.books.save(save)) is SaveOutcome.SAVED

    def _ask(self, send: Callable[[Backend], T]) -> T:
        return self._fleet.ask(self._fleet.present[0], send)


def read_from(shard: Backend) -> Mapping[str, NameLimit]:
    """Return the limits that one shard keeps."""
    return _read(shard).entries


def _read(shard: Backend) -> _Read:
    for _ in range(_MAX_TRIES):
        if (found := _read_once(shard)) is not None:
            return found
    raise BoardUnavailable("the limits of names change all the time; try again")


def _read_once(shard: Backend) -> _Read | None:
    """Return what a shard has; None if that has changed meanwhile."""
    versions, found = set[str](), dict[str, NameLimit]()
    for part in parts(shard, NAME_LIMITS):
        if part is None:
            return None if versions else _Read(None, {})
        versions.add(part.row.version)
        found.update(_decoded(part.entries))
    return _Read(versions.pop(), found) if len(versions) == 1 else None


def _decoded(entries: list[tuple[str, bytes]]) -> dict[str, NameLimit]:
    found = {}
    for name, data in entries:
        try:
            found[name] = unpack(name, data)
        except ValueError as error:
            logger.warning("%s", error)
    return found
