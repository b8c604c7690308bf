"""Pages of one shard, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from jobboard.errors import BoardUnavailable

#: So many pages are read at most.
MAX_PAGES = 1_000_000


class _Paged(Protocol):
    @property
    def cursor(self) -> Any: ...


Page = TypeVar("Page", bound=_Paged)


def pages_of(read: Callable[[Any], Page]) -> Iterator[Page]:
    """Yield all pages, each read when it is asked for. Who can do with the first ones asks for no more.

    :param read: returns the page at a cursor; None is the beginning.
    :raises BoardUnavailable: there are more than :data:`MAX_PAGES`, and who needs all of them would miss some.
    """
    cursor = None
    for _ in range(MAX_PAGES):
        page = read(cursor)
        yield page
        cursor = page.cursor
        if cursor is None:
            return
    raise BoardUnavailable(f"the shard has more than {MAX_PAGES:,} pages of this, or its cursors lead in a circle")
