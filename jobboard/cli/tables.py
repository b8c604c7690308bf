"""Tables for terminals. On a narrow one uuids are shortened and texts are wrapped; a value that is cut has a mark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.table import Column, Table
from rich.text import Text

#: Columns whose texts wrap, and the least width of such a column.
_FOLDED_COLUMNS = {"owner", "who", "name", "names", "reason", "problem", "key", "id", "job", "when", "note"}
MIN_FOLDED_WIDTH = 6
#: Columns that are left out, in this order, if that is not enough; 80 columns suffice for all but long histories.
_OPTIONAL_COLUMNS = ("sequence", "priority", "attempts", "created_on", "trashed_on", "token", "fire_time", "at")
#: Commands accept the beginning of a uuid that only one job has.
MIN_UUID_LENGTH = 8

Cells = Mapping[str, Sequence[str]]


def table_of(cells: Cells, width: int) -> Table:
    """Return a table that fits into ``width`` characters.

    :param cells: for each column the text of each row.
    """
    gap = 2
    if _natural_width(cells, gap) > width:
        cells, gap = _narrowed(cells, width), 1
    table = Table(*[_header(name) for name in cells], box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for row in zip(*cells.values(), strict=True):
        table.add_row(*[Text(cell) for cell in row])
    return table


def _header(name: str) -> Column:
    is_folding = name in _FOLDED_COLUMNS
    return Column(name.replace("_", " "), no_wrap=not is_folding, overflow="fold" if is_folding else "ellipsis")


def _narrowed(cells: Cells, width: int) -> Cells:
    narrow = {name: beginnings(column) if name == "uuid" else column for name, column in cells.items()}
    for name in _OPTIONAL_COLUMNS:
        if _min_width(narrow) <= width:
            break
        narrow.pop(name, None)
    return narrow


def beginnings(uuids: Sequence[str]) -> list[str]:
    """Shorten uuids to one length at which they still differ."""
    different, length = set(uuids), MIN_UUID_LENGTH
    while len({one[:length] for one in different}) < len(different):
        length += 1
    return [one[:length] for one in uuids]


def _natural_width(cells: Cells, gap: int) -> int:
    return sum(_width(name, column) + gap for name, column in cells.items()) - gap


def _min_width(cells: Cells) -> int:
    return _natural_width(
        {name: ["-" * MIN_FOLDED_WIDTH] if name in _FOLDED_COLUMNS else column for name, column in cells.items()}, 1
    )


def _width(name: str, column: Sequence[str]) -> int:
    return max(cell_len(line) for cell in (name, *column) for line in cell.splitlines() or [""])
