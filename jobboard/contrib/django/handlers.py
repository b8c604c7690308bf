"""The handlers that ``manage.py jobboard conductor`` runs unless it names others: those of one task backend.

``handlers`` are those of the default one; any other name is the alias of a backend in ``TASKS``.
"""

from __future__ import annotations

from jobboard.conductor import Handlers
from jobboard.contrib.django.compat import task_backends
from jobboard.contrib.django.worker import task_handlers


def __getattr__(name: str) -> Handlers:
    alias = "default" if name == "handlers" else name
    if alias not in list(task_backends):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return task_handlers(alias)
