"""The logbook: a named, durable journal that jobs can point at, so that later owners resume what others began."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterator
from typing import Any

from jobboard.validation import check_text, check_uuid


class LogBook:
    """A journal of plain entries; change it here, then ``board.save_book(book)``.

    :param name: what people call it.
    :param uuid: its identity; a new one by default.

    ``version`` is None until it was saved once. Saving checks it, so that of two who changed the same book the
    second learns of it (:class:`~jobboard.StaleBook`) instead of overwriting the first.
    """

    def __init__(self, name: str, uuid: str | uuids.UUID | None = None) -> None:
        self.name = check_text("a book's name", name)
        self.uuid = str(uuids.uuid4()) if uuid is None else check_uuid(uuid)
        self.meta: dict[str, Any] = {}
        self.entries: list[dict[str, Any]] = []
        self.version: str | None = None

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
        return f"<LogBook {self.name!r} {self.uuid} with {len(self.entries)} entries>"
