"""A process that gets no thread of some name."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from unittest import mock

#: The threads of a conductor, by their names' beginnings; those of boards may stay until these are closed.
_PARTS = ("slot", "claimer", "completer", "renewer", "deadlines", "asyncio", "leave")


@contextmanager
def without_thread(name: str) -> Iterator[list[str]]:
    """Refuse the threads of this name, as an operating system does that has no more; yield the names refused."""
    start = threading.Thread.start
    refused: list[str] = []

    def start_or_refuse(thread: threading.Thread) -> None:
        if thread.name == name:
            refused.append(name)
            raise RuntimeError("can't start new thread")
        start(thread)

    with mock.patch.object(threading.Thread, "start", start_or_refuse):
        yield refused


def conductor_threads(but: Collection[threading.Thread]) -> list[str]:
    """Return the names of the threads that conductors have started and not ended, but for these."""
    beginnings = tuple(f"jobboard-{part}" for part in _PARTS)
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(beginnings) and thread not in but]
