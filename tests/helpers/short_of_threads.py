"""A process that gets no thread of some name."""

from __future__ import annotations

import threading
from collections.abc import Collection
from contextlib import AbstractContextManager

from jobboard.testing.shortage import without_threads

#: The threads of a conductor, by their names' beginnings; those of boards may stay until these are closed.
_PARTS = ("slot", "claimer", "completer", "renewer", "deadlines", "asyncio", "leave")


def without_thread(name: str) -> AbstractContextManager[list[str]]:
    """Refuse the threads of this name; gives the names of those refused."""
    return without_threads(lambda thread: thread.name == name)


def conductor_threads(but: Collection[threading.Thread]) -> list[str]:
    """Return the names of the threads that conductors have started and not ended, but for these."""
    beginnings = tuple(f"jobboard-{part}" for part in _PARTS)
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(beginnings) and thread not in but]
