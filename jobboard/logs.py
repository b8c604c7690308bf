"""Which job a line of the log belongs to."""

from __future__ import annotations

import logging

from jobboard.conductor.run_context import facts_of_run

__all__ = ["JobFilter"]

_ATTRIBUTES = ("job", "uuid", "attempt")


class JobFilter(logging.Filter):
    """Add to each record the job whose handler logs it, whichever library does so; add it to a handler of ``logging``.

    Records get the attributes ``job`` (its name), ``uuid`` and ``attempt``, for formats such as ``%(job)s``; they are
    None outside of a run. In a batch handler only ``job`` is set. ``record.facts`` is a dict of those that are set, and
    of what else a conductor says there. What a record has already stays.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass."""
        given = getattr(record, "facts", None)
        facts = {**facts_of_run(), **(given if isinstance(given, dict) else {})}
        record.facts = facts
        for name in _ATTRIBUTES:
            if not hasattr(record, name):
                setattr(record, name, facts.get(name))
        return True
