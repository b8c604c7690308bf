"""What operators see of the process that a conductor or a scheduler runs in."""

from __future__ import annotations

import functools
import os
import platform
import socket
import time
from importlib import metadata
from pathlib import Path
from typing import Any

_STATM = Path("/proc/self/statm")


class OwnProcess:
    """Knows since when somebody works in this process."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def facts(self) -> dict[str, Any]:
        """Return host, pid, versions, the seconds since the beginning, and the bytes of memory where they are known."""
        found = {"host": socket.gethostname(), "pid": os.getpid(), "version": _version()}
        found |= {"python": platform.python_version(), "uptime": round(time.monotonic() - self._began)}
        memory = _memory()
        return found if memory is None else found | {"memory": memory}


@functools.cache
def _version() -> str:
    return metadata.version("jobboard")


def _memory() -> int | None:
    """Return the resident bytes; Linux has them in a file."""
    try:
        return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
