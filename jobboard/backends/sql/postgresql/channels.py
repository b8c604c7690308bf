"""Channels of notifications, and a lock that says whether anybody listens.

The server does not tell whether somebody listens on a channel, and a commit that notifies takes its turn among all
others that do. So whoever listens shares an advisory lock from before that until the connection ends, and only if
nobody has it, whoever notifies gets it alone, for the length of the statement.
"""

from __future__ import annotations

import hashlib


def listen(channel: str) -> str:
    return f"SELECT pg_advisory_lock_shared({_lock_of(channel)}); LISTEN {channel}"


def unlisten(channel: str) -> str:
    return f"UNLISTEN {channel}; SELECT pg_advisory_unlock_shared({_lock_of(channel)})"


def notify(channel: str) -> str:
    """Notify who listens, and return a row; return none if nobody does."""
    return f"SELECT pg_notify('{channel}', '') IS NOT NULL WHERE NOT pg_try_advisory_xact_lock({_lock_of(channel)})"


def _lock_of(channel: str) -> int:
    return int.from_bytes(hashlib.sha256(channel.encode()).digest()[:8], "big", signed=True)
