"""The memory backend: a board for the threads of one process, which is gone with it."""

from __future__ import annotations

from jobboard.backends.base import Capabilities
from jobboard.backends.memory.claiming import Claiming
from jobboard.backends.memory.operating import Operating
from jobboard.backends.memory.reading import Reading
from jobboard.backends.memory.scheduling import Scheduling


class MemoryBackend(Scheduling, Claiming, Reading, Operating):
    """Boards of one name in one process share a shelf, also with clients that come after the last one has closed.

    ``memory://SPACE`` names a space of its own: ``memory://a`` and ``memory://b`` share nothing. A claim is judged by
    a clock that never jumps. What a claim costs does not grow with the backlog.
    """

    scheme = "memory"
    capabilities = Capabilities(
        processes=False,
        durable=False,
        expiry="time",
        clock="client",
        largest_batch=10_000,
        largest_step=1000,
    )
