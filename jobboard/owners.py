"""Names of participants that no two of them share."""

from __future__ import annotations

import os
import secrets
import socket

from jobboard.arguments import LONGEST_TEXT


def unique_owner(name: str) -> str:
    """Return the name with host, pid and a random part: one instance of one process, which a bare name is not."""
    tail = f"@{socket.gethostname()[:64]}:{os.getpid()}:{secrets.token_hex(4)}"
    return name.encode()[: LONGEST_TEXT - len(tail.encode())].decode(errors="ignore") + tail
