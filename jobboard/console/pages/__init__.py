"""The pages of a board. Each module here adds its own, by a tuple ``PAGES``; nothing else knows the modules."""

from __future__ import annotations

import importlib
import pkgutil

from jobboard.console.view import Page


def all_pages() -> tuple[Page, ...]:
    """Return the pages of all modules, in the order of the navigation."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    pages = [page for module in modules for page in getattr(module, "PAGES", ())]
    return tuple(sorted(pages, key=lambda page: (page.order, page.path)))
