"""The plain data about logbooks that crosses the seam."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from jobboard.backends.rows import Fence


@dataclass(frozen=True, slots=True)
class BookSave:
    """One step of a book from one stored version to the next; the client that saves it makes ``version`` anew.

    ``after``: the stored version that it steps on from; None: there must be no book of this uuid. ``entries`` are those
    that change: name -> bytes, None for one to remove. ``fence``: only if that claim holds. ``beside``: a new book is
    to be where this job is; it need not be there yet.
    """

    uuid: str
    version: str
    after: str | None
    body: bytes = field(repr=False)
    entries: Mapping[str, bytes | None] = field(default_factory=dict, repr=False)
    fence: Fence | None = None
    beside: str | None = None


class SaveOutcome(enum.Enum):
    """What became of a wish to save a book."""

    SAVED = "saved"
    STALE = "stale"  # the stored version is another one
    LOST = "lost"  # the claim does not hold


@dataclass(frozen=True, slots=True)
class BookRow:
    """A book as stored, without its entries; its body is opaque to stores."""

    uuid: str
    version: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class BookPart:
    """A book and some of its entries, in an order of the store's own; ``cursor`` None is the end."""

    row: BookRow
    entries: list[tuple[str, bytes]] = field(repr=False)
    cursor: str | None


@dataclass(frozen=True, slots=True)
class BookPage:
    """Some books, and where the next page begins; ``cursor`` None is the end."""

    rows: list[BookRow]
    cursor: object | None
