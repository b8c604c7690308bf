"""The order of a table's rows, as the URL asks for it: ``sort=name``, or ``sort=-name`` for the last one first.

Stores list jobs in the order of claims alone, so only the rows of a page are sorted; the page says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from starlette.exceptions import HTTPException

if TYPE_CHECKING:
    from jobboard.console.view import View

Row = TypeVar("Row")
#: A value of a row to sort by; None comes last in both directions.
Column = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Sorting:
    """What the URL asks for.

    :ivar column: the name of the column; "" if the rows keep their order.
    """

    column: str
    is_down: bool
    columns: Mapping[str, Column]
    query: tuple[tuple[str, str], ...]

    def sorted(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows in this order; equal ones stay as they were."""
        if not self.column:
            return list(rows)
        value, given = self.columns[self.column], list(rows)
        known = [row for row in given if value(row) is not None]
        return sorted(known, key=value, reverse=self.is_down) + [row for row in given if value(row) is None]

    def direction(self, column: str) -> str | None:
        """Return how ``aria-sort`` calls the order of a column; None for any other."""
        if column != self.column:
            return None
        return "descending" if self.is_down else "ascending"

    def link(self, column: str, is_down_first: bool = False) -> str:
        """Return the link that sorts by a column, or turns its order round; "" leads back to the rows' own order."""
        is_down = not self.is_down if column == self.column else is_down_first
        chosen = [("sort", f"{'-' * is_down}{column}")] if column else []
        # Below the same page; without any parameter it has the default ones.
        return f"?{urlencode([*self.query, *chosen])}"


def sorting_of(view: View, columns: Mapping[str, Column]) -> Sorting:
    """Read the order that a request asks for.

    :raises HTTPException: 400 names the columns that there are.
    """
    asked = view.query("sort")
    column = asked.removeprefix("-")
    if column and column not in columns:
        raise HTTPException(400, f"this table can be sorted by {', '.join(columns)}")
    query = tuple((name, value) for name, value in view.request.query_params.multi_items() if name != "sort")
    return Sorting(column, asked.startswith("-"), columns, query)
