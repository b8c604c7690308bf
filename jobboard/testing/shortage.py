"""A process that gets no more threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock


@contextmanager
def without_threads(is_refused: Callable[[threading.Thread], bool]) -> Iterator[list[str]]:
    """Refuse these threads, as an operating system does that has no more; yield the names of those refused."""
    start = threading.Thread.start
    refused: list[str] = []

    def start_or_refuse(thread: threading.Thread) -> None:
        if is_refused(thread):
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    with mock.patch.object(threading.Thread, "start", start_or_refuse):
        yield refused
