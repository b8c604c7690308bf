"""One process, many threads: a board without a server, for tests and small tools."""

from jobboard.backends.memory.backend import MemoryBackend

__all__ = ["MemoryBackend"]
