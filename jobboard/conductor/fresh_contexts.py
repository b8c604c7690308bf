"""A context of its own for each job, so that what a handler puts into a ContextVar is not seen by the next one."""

from __future__ import annotations

import sys
from contextvars import Context, copy_context


class FreshContexts:
    """Copies the context in which this was made, once for each job."""

    def __init__(self) -> None:
        self._base = copy_context()

    def new(self) -> Context:
        """Return a context for one job."""
        context = self._base.copy()
        # A copied context has the same values, and the one of decimal is an object that handlers change in place.
        if (decimal := sys.modules.get("decimal")) is not None:
            context.run(lambda: decimal.setcontext(decimal.getcontext().copy()))
        return context
