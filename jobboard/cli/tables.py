"""Tables for terminals: on a narrow one uuids are shortened, texts are folded, and no value is cut without a mark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.table import Column, Table
from rich.text import Text

#: Texts of any length, which go on in the next line; a column of them gets no narrower than this.
_FOLDING = {"owner", "who", "name", "names", "reason", "problem", "key", "id", "job", "when", "note"}
_NARROWEST = 6
#: What is left out, in this order, where not even that helps; on 80 columns there is room for all but long histories.
_LEFT_OUT = ("sequence", "priority", "attempts", "created_on", "trashed_on", "token", "fire_time", "at")
#: The least of a uuid; commands take the beginning of one that only one job has.
_SHORTEST = 8

Cells = Mapping[str, Sequence[str]]


def table_of(cells: Cells, width: int) -> Table:
    """Return a table that fits into so many characters.

    :param cells: the columns, with what each row has there.
    """
    gap = 2
    if _natural_width(cells, gap) > width:
        cells, gap = _narrowed(cells, width), 1
    table = Table(*[_header(name) for name in cells], box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for row in zip(*cells.values(), strict=True):
        table.add_row(*[Text(cell) for cell in row])
    return table


def _header(name: str) -> Column:
    is_folding = name in _FOLDING
    return Column(name.replace("_", " "), no_wrap=not is_folding, overflow="fold" if is_folding else "ellipsis")


def _narrowed(cells: Cells, width: int) -> Cells:
    narrow = {name: beginnings(column) if name == "uuid" else column for name, column in cells.items()}
    for name in _LEFT_OUT:
        if _least_width(narrow) <= width:
            break
        narrow.pop(name, None)
    return narrow


def beginnings(uuids: Sequence[str]) -> list[str]:
    """Return the beginnings of uuids, of one length, that tell them apart."""
    different, length = set(uuids), _SHORTEST
    while len({one[:length] for one in different}) < len(different):
        length += 1
    return [one[:length] for one in uuids]


def _natural_width(cells: Cells, gap: int) -> int:
    return sum(_width(name, column) + gap for name, column in cells.items()) - gap


def _least_width(cells: Cells) -> int:
    return _natural_width(
        {name: ["-" * _NARROWEST] if name in _FOLDING else column for name, column in cells.items()}, 1
    )


def _width(name: str, column: Sequence[str]) -> int:
    return max(cell_len(line) for cell in (name, *column) for line in cell.splitlines() or [""])
