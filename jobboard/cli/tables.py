"""Tables for terminals, which cut nothing: on a narrow one uuids are shortened, and texts are wrapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.table import Column, Table
from rich.text import Text

#: Columns whose texts wrap, and the least width of such a column.
_FOLDED_COLUMNS = {
    "owner", "who", "name", "names", "reason", "problem", "key", "id", "job", "when", "note", "last_error", "progress",
    "schedule_id", "book_name",
}  # fmt: skip
MIN_FOLDED_WIDTH = 8
#: Columns that are left out, in this order, if that is not enough.
_OPTIONAL_COLUMNS = (
    "sequence", "priority", "attempts", "executor", "created_on", "trashed_on", "token", "fire_time", "at", "skipped",
    "missed", "runs", "concurrency", "last_seen", "names", "next_expiry", "conductors", "delayed",
)  # fmt: skip
#: Commands accept the end of a uuid that only one job has. The beginning is the moment of posting, which many share.
MIN_UUID_LENGTH = 8

Cells = Mapping[str, Sequence[Text]]


def table_of(cells: Cells, width: int, *, droppable: bool = True) -> Table | None:
    """Return a table that fits into ``width`` characters; None if there is none that cuts nothing.

    :param cells: for each column the text of each row.
    :param droppable: whether columns may be left out of a table that would be too wide.
    """
    gap, widths = 2, {name: _width(name, column) for name, column in cells.items()}
    if sum(widths.values()) + gap * (len(widths) - 1) > width:
        gap, cells = 1, {name: endings(column) if name == "uuid" else column for name, column in cells.items()}
        fitted = _fitted({name: _width(name, column) for name, column in cells.items()}, width, droppable)
        if fitted is None:
            return None
        widths = fitted
    columns = [_header(name, number) for name, number in widths.items()]
    table = Table(*columns, box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for row in zip(*(cells[name] for name in widths), strict=True):
        table.add_row(*row)
    return table


def _header(name: str, width: int) -> Column:
    is_folding = name in _FOLDED_COLUMNS
    title = name.replace("_", " ")
    return Column(title, width=width, no_wrap=not is_folding, overflow="fold" if is_folding else "ellipsis")


def _fitted(widths: dict[str, int], width: int, droppable: bool) -> dict[str, int] | None:
    """Return the widths of the columns that are shown, with gaps of 1; None if they don't fit."""
    shown, optional = dict(widths), iter(_OPTIONAL_COLUMNS if droppable else ())
    while _min_width(shown) > width:
        name = next(optional, None)
        if name is None:
            return None
        shown.pop(name, None)
    folded = sorted((number, name) for name, number in shown.items() if name in _FOLDED_COLUMNS)
    left = width - (len(shown) - 1) - sum(number for name, number in shown.items() if name not in _FOLDED_COLUMNS)
    # The narrow ones get what they need, and the others the same share of what they leave.
    for place, (number, name) in enumerate(folded):
        shown[name] = min(number, left // (len(folded) - place))
        left -= shown[name]
    return shown


def endings(uuids: Sequence[Text]) -> list[Text]:
    """Shorten uuids to one length at which they still differ."""
    different, length = {str(one) for one in uuids}, MIN_UUID_LENGTH
    while len({one[-length:] for one in different}) < len(different):
        length += 1
    return [one[-length:] for one in uuids]


def _min_width(widths: Mapping[str, int]) -> int:
    least = (min(number, MIN_FOLDED_WIDTH) if name in _FOLDED_COLUMNS else number for name, number in widths.items())
    return sum(least) + len(widths) - 1


def _width(name: str, column: Sequence[Text]) -> int:
    return max(cell_len(line) for cell in (name, *map(str, column)) for line in cell.splitlines() or [""])
