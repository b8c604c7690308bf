"""The logbook: a named, durable journal that jobs can point at, so that later owners resume what others began."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from jobboard.validation import check_text, check_uuid


class LogBook:
    """A journal of plain entries; change it here, then ``board.save_book(book)``, which writes only what changed.

    :param name: what people call it.
    :param uuid: its identity; a new one by default.
    :param owned: it belongs to a job, and goes with that job's record: the one that is held when it is saved first, or
        that is posted with it. False: it is free, and stays until it is destroyed.

    ``meta`` is a dict, ``entries`` a list of dicts in the order of :meth:`append`, and ``named`` a dict of entries by
    name; each of ``named`` is stored as an entry of its own. ``owner`` is the uuid of the job that it belongs to, or
    None. ``version`` is None until it was saved once. Saving checks it, so that of two who changed the same book the
    second learns of it (:class:`~jobboard.StaleBook`) instead of overwriting the first.
    """

    def __init__(self, name: str, uuid: str | uuids.UUID | None = None, *, owned: bool = False) -> None:
        self.name = check_text("a book's name", name)
        self.uuid = str(uuids.uuid4()) if uuid is None else check_uuid(uuid)
        self.meta: dict[str, Any] = {}
        self.entries: list[dict[str, Any]] = []
        self.named: dict[str, Any] = {}
        self.owned = bool(owned)
        self.owner: str | None = None
        self.version: str | None = None
        #: A digest of each entry as it is stored, by which a save knows what changed.
        self._stored: dict[str, bytes] = {}

    def append(self, **entry: Any) -> None:
        """Add one entry to the end of the journal; nothing is durable before ``save_book``."""
        self.entries.append(entry)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        named = f" and {len(self.named)} by name" if self.named else ""
        return f"<LogBook {self.name!r} {self.uuid} with {len(self.entries)} entries{named}>"


def saved_state_of(book: LogBook) -> dict[str, Any]:
    """Return what a save changes in a book, for the ``vars`` of a copy in another process."""
    return {name: vars(book)[name] for name in ("version", "owner", "_stored")}


@dataclass(frozen=True, slots=True)
class BookInfo:
    """A logbook in a list, without its entries.

    ``owner``: the uuid of the job that it belongs to, or None. ``entries``: how many it has, those by name included.
    ``saved_at`` is by the clock of who saved it, None for one that an earlier version saved. ``fault``: why it can't be
    decoded, or None.
    """

    uuid: str
    name: str | None
    owner: str | None = None
    entries: int | None = None
    saved_at: datetime | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class BookRef:
    """Where a job's book is that lives elsewhere than on its board; this project does not read it.

    :param kind: what reads it, such as ``"taskflow"``.
    :param address: where it is, without a password.
    :param name: what people call it.
    :param uuid: its identity there, or None.
    """

    kind: str
    address: str
    name: str
    uuid: str | None = None

    def __post_init__(self) -> None:
        check_text("a reference's kind", self.kind)
        check_text("a reference's address", self.address)
        check_text("a book's name", self.name)
        if self.uuid is not None:
            object.__setattr__(self, "uuid", check_uuid(self.uuid))
        try:
            password = urlsplit(self.address).password
        except ValueError:
            password = None
        if password is not None:
            raise ValueError("a reference's address must not hold a password, which every reader of the job would see")
