"""The pages of a board. Each module here adds its own, by a tuple ``PAGES``; nothing else knows the modules."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from jobboard.console.view import View

#: Makes the answer to a request. A plain function may block: it runs in a thread. A coroutine must not.
Answer = Callable[["View"], Response | Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Page:
    """One path below a board's ``/b/NAME/``.

    :ivar path: as Starlette's routes have it, with no slash first: ``jobs``, ``jobs/{uuid}``; empty for the overview.
    :ivar show: answers GET.
    :ivar act: answers POST; must ask ``view.require(...)`` for a right before it changes anything.
    :ivar title: its entry in the navigation; None for none.
    :ivar order: the place in the navigation; the smallest comes first.
    """

    path: str
    show: Answer
    act: Answer | None = None
    title: str | None = None
    order: int = 100


@cache
def all_pages() -> tuple[Page, ...]:
    """Return the pages of all modules, in the order of the navigation."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    pages = [page for module in modules for page in getattr(module, "PAGES", ())]
    return tuple(sorted(pages, key=lambda page: (page.order, page.path)))
