"""A process that may open nothing more, as one that has reached its limit."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def few_descriptors(spare: int) -> Iterator[None]:
    """Limit the files and sockets that this process may still open in the block; open ones can be used."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    largest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (largest + 1 + spare, hard))
    opened: list[int] = []
    try:
        with suppress(OSError):
            while True:
                opened.append(os.open(os.devnull, os.O_RDONLY))
        for descriptor in opened[:spare]:
            os.close(descriptor)
        del opened[:spare]
        yield
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
